//! Going on with a run: its log as the kernel wants to know it, what is proven done, what has to run again.

use serde_json::Value;
use slipway_graph::{JournalRecord, RetryClass};

use crate::event::{EventType, RunEvent};
use crate::summary::{NodeStatus, RunStatus, Summary};

/// Gives what earlier invocations did as the kernel's records, oldest first. Nodes in `carried_over` were done by a
/// run before this one.
pub fn records(history: &[RunEvent], carried_over: &[String]) -> Vec<JournalRecord> {
    let mut records: Vec<JournalRecord> = carried_over
        .iter()
        .map(|id| JournalRecord::Succeeded { id: id.as_str().into(), attempt: 0, output: Value::Null })
        .collect();
    for event in history {
        let Some(id) = event.node_id.as_deref() else { continue };
        let (id, attempt) = (id.into(), event.attempt);
        records.push(match event.kind {
            EventType::NodeRunning => JournalRecord::Started { id, attempt },
            EventType::NodeSucceeded => JournalRecord::Succeeded { id, attempt, output: Value::Null },
            EventType::NodeFailed => {
                JournalRecord::Failed { id, attempt, class: RetryClass::Permanent, error: String::new() }
            }
            EventType::NodeCanceled => JournalRecord::Cancelled { id, attempt },
            _ => continue,
        });
    }
    records
}

/// Tells that a node need not run again: it succeeded, and with the very input it would have now. A node without a
/// hash of its input is never proven.
pub fn is_proven(status: NodeStatus, recorded_hash: Option<&str>, input_hash: Option<&str>) -> bool {
    status == NodeStatus::Succeeded && input_hash.is_some() && recorded_hash == input_hash
}

/// Names the nodes that did not succeed although they were started. One left running without an end counts: nobody
/// knows how far it got.
pub fn failed_nodes(summary: &Summary) -> impl Iterator<Item = &str> {
    let failed = |status| matches!(status, NodeStatus::Failed | NodeStatus::Running | NodeStatus::Retrying);
    summary.nodes.iter().filter(move |(_, node)| failed(node.status)).map(|(id, _)| id.as_str())
}

/// The process that works on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProcess {
    pub pid: u64,
    pub host: String,
}

impl RunProcess {
    /// Finds the process that started or resumed a run last.
    pub fn of(events: &[RunEvent]) -> Option<Self> {
        let last = events.iter().rev().find(|event| event.fields.contains_key("pid"))?;
        let pid = last.fields.get("pid")?.as_u64()?;
        let host = last.fields.get("host")?.as_str()?.to_owned();
        Some(Self { pid, host })
    }
}

/// Returns where a run stands. One that says it is running while its process is gone was interrupted.
pub fn settled_status(
    summary: &Summary,
    events: &[RunEvent],
    is_alive: impl Fn(&RunProcess) -> bool,
) -> RunStatus {
    if summary.status != RunStatus::Running {
        return summary.status;
    }
    match RunProcess::of(events) {
        Some(process) if is_alive(&process) => RunStatus::Running,
        _ => RunStatus::Interrupted,
    }
}
