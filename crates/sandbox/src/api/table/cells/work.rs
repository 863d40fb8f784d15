//! Rows of jobs, autoscalers and quotas.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, container_columns, int_at, selector_text, text_at, text_or};
use crate::clock::human_duration;
use crate::write::admit::validate::indexed_items;

pub(super) fn job_row(object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let holds = |kind: &str| {
        indexed_items(&status["conditions"]).any(|(_, c)| c["type"] == kind && c["status"] == "True")
    };
    let state = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if object["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = int_at(status, "/succeeded");
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64().unwrap_or(0)) {
        (Some(total), _) => format!("{succeeded}/{total}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |key: &str| status[key].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    let duration = match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), Some(end)) => human_duration(end.duration_since(start)),
        (Some(start), None) => human_duration(now.duration_since(start)),
    };
    let (names, images) = container_columns(&spec["template"]["spec"]);
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        completions.into(),
        duration.into(),
        age,
        names,
        images,
        selector_text(&spec["selector"]).into(),
    ]
}

pub(super) fn quota_row(object: &Value, age: Value) -> Vec<Value> {
    let (hard, used) = (&object["status"]["hard"], &object["status"]["used"]);
    let mut requests = Vec::new();
    let mut limits = Vec::new();
    for (name, limit) in crate::write::admit::meta::sorted_members(hard) {
        let has = used.get(name).and_then(Value::as_str).unwrap_or("0");
        let shown = format!("{name}: {has}/{}", limit.as_str().unwrap_or(""));
        if name.starts_with("limits") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![object["metadata"]["name"].clone(), requests.join(", ").into(), limits.join(", ").into(), age]
}

pub(super) fn autoscaler_row(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let reference =
        format!("{}/{}", text_at(spec, "/scaleTargetRef/kind"), text_at(spec, "/scaleTargetRef/name"));
    let mut targets = Vec::new();
    for (_, metric) in indexed_items(&spec["metrics"]) {
        let resource = &metric["resource"];
        let target = &resource["target"];
        let wanted = match target["averageUtilization"].as_i64() {
            Some(percent) => format!("{percent}%"),
            None => text_or(text_at(target, "/averageValue"), "<auto>").to_owned(),
        };
        targets.push(match metric["type"].as_str() {
            Some("Resource") => format!("{}: <unknown>/{wanted}", text_at(resource, "/name")),
            Some("External") => {
                let target = &metric["external"]["target"];
                match (text_at(target, "/averageValue"), text_at(target, "/value")) {
                    ("", value) => format!("<unknown>/{}", text_or(value, "<auto>")),
                    (average, _) => format!("<unknown>/{average} (avg)"),
                }
            }
            Some("Pods") => {
                let target = &metric["pods"]["target"];
                format!("<unknown>/{}", text_or(text_at(target, "/averageValue"), "<auto>"))
            }
            Some("Object") => {
                let target = &metric["object"]["target"];
                match (text_at(target, "/averageValue"), text_at(target, "/value")) {
                    ("", value) => format!("<unknown>/{}", text_or(value, "<auto>")),
                    (average, _) => format!("<unknown>/{average} (avg)"),
                }
            }
            _ => format!("<unknown>/{wanted}"),
        });
    }
    if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        targets.push(format!("cpu: <unknown>/{percent}%"));
    }
    let shown = match targets.len() {
        0 => NONE.to_owned(),
        n if n > 2 => format!("{} + {} more...", targets[..2].join(", "), n - 2),
        _ => targets.join(", "),
    };
    let min = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |m| m.to_string());
    vec![
        object["metadata"]["name"].clone(),
        reference.into(),
        shown.into(),
        min.into(),
        int_at(spec, "/maxReplicas").into(),
        int_at(status, "/currentReplicas").into(),
        age,
    ]
}
