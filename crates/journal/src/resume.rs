//! Going on with a run: the log of earlier invocations as the kernel wants to know it.

use serde_json::Value;
use slipway_graph::{ErrorClass, Record};

use crate::event::{EventType, RunEvent};

/// Gives what earlier invocations did as the kernel's records, oldest first. Nodes in `carried_over` were done by a
/// run before this one.
pub fn records(history: &[RunEvent], carried_over: &[String]) -> Vec<Record> {
    let mut records: Vec<Record> = carried_over
        .iter()
        .map(|id| Record::Succeeded { id: id.as_str().into(), attempt: 0, output: Value::Null })
        .collect();
    for event in history {
        let Some(id) = event.node_id.as_deref() else { continue };
        let (id, attempt) = (id.into(), event.attempt);
        records.push(match event.kind {
            EventType::NodeRunning => Record::Started { id, attempt },
            EventType::NodeSucceeded => Record::Succeeded { id, attempt, output: Value::Null },
            EventType::NodeFailed => {
                Record::Failed { id, attempt, class: ErrorClass::Permanent, error: String::new() }
            }
            EventType::NodeCanceled => Record::Cancelled { id, attempt },
            _ => continue,
        });
    }
    records
}
