//! The cells of each kind's row.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::human_duration;
use crate::crd::Custom;

/// An age, or `<unknown>`.
fn age(value: &Value, now: Timestamp) -> Value {
    match value.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(at) => human_duration(now.duration_since(at)).into(),
        None => "<unknown>".into(),
    }
}

/// Extra facts about a row: finished pods say so.
pub(super) fn conditions(table: &str, object: &Value) -> Option<Value> {
    if table != "pods" {
        return None;
    }
    match object["status"]["phase"].as_str()? {
        "Succeeded" => Some(json!([{
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }])),
        "Failed" => Some(json!([{
            "type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed.",
        }])),
        _ => None,
    }
}

pub(super) fn custom(custom: &Custom, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut out = vec![object["metadata"]["name"].clone()];
    let _ = (custom, now);
    out.push(age(&object["metadata"]["creationTimestamp"], now));
    out
}

/// The cells of a built-in object, as many as its columns.
pub(super) fn built_in(table: &str, object: &Value, now: Timestamp, columns: usize) -> Vec<Value> {
    let _ = table;
    let mut out = vec![object["metadata"]["name"].clone()];
    out.resize(columns.saturating_sub(1).max(1), "".into());
    out.push(age(&object["metadata"]["creationTimestamp"], now));
    out.truncate(columns);
    out
}
