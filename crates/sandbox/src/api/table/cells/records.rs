//! Rows of events, definitions and certificate requests.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, age_since, text_at, text_or};
use crate::clock::human_duration;
use crate::write::admit::validate::indexed_items;

pub(super) fn event_row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (about, source) = if object["regarding"].is_object() {
        (&object["regarding"], &object["deprecatedSource"])
    } else {
        (&object["involvedObject"], &object["source"])
    };
    let pick = |a: &str, b: &str| if object[a].is_string() { object[a].clone() } else { object[b].clone() };
    let first = pick("firstTimestamp", "deprecatedFirstTimestamp");
    let last = pick("lastTimestamp", "deprecatedLastTimestamp");
    let seen = |v: &Value| {
        let at = if v.is_string() { v } else { &object["eventTime"] };
        Value::from(age_since(at, now))
    };
    let count = object["series"]["count"]
        .as_i64()
        .or_else(|| object["count"].as_i64())
        .or_else(|| object["deprecatedCount"].as_i64())
        .filter(|c| *c > 0)
        .unwrap_or(1);
    let (component, instance) = match text_at(source, "/component") {
        "" => {
            let reporter =
                text_or(text_at(object, "/reportingComponent"), text_at(object, "/reportingController"));
            (reporter, text_at(object, "/reportingInstance"))
        }
        component => (component, text_at(source, "/host")),
    };
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    let message = text_or(text_at(object, "/message"), text_at(object, "/note")).trim().to_owned();
    vec![
        seen(&last),
        text_at(object, "/type").into(),
        text_at(object, "/reason").into(),
        format!("{}/{}", text_at(about, "/kind").to_lowercase(), text_at(about, "/name")).into(),
        text_at(about, "/fieldPath").into(),
        source.into(),
        message.into(),
        seen(&first),
        count.into(),
        object["metadata"]["name"].clone(),
    ]
}

pub(super) fn definition_row(object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let versions: Vec<String> = indexed_items(&spec["versions"])
        .map(|(_, v)| {
            let mut marks = Vec::new();
            if v["storage"] == true {
                marks.push("storage");
            }
            if v["served"] != true {
                marks.push("unserved");
            }
            let marks = if marks.is_empty() { String::new() } else { format!("({})", marks.join(",")) };
            format!("{}{marks}", text_at(v, "/name"))
        })
        .collect();
    let established = indexed_items(&object["status"]["conditions"])
        .any(|(_, c)| c["type"] == "Established" && c["status"] == "True");
    vec![
        object["metadata"]["name"].clone(),
        text_at(spec, "/scope").into(),
        versions.join(",").into(),
        object["metadata"]["creationTimestamp"].clone(),
        text_at(spec, "/group").into(),
        text_at(spec, "/names/kind").into(),
        indexed_items(&spec["names"]["shortNames"])
            .filter_map(|(_, s)| s.as_str())
            .collect::<Vec<_>>()
            .join(",")
            .into(),
        established.into(),
    ]
}

pub(super) fn certificate_request_row(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |kind: &str| indexed_items(&status["conditions"]).any(|(_, c)| c["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text_at(status, "/certificate").is_empty() {
        state.push_str(",Issued");
    }
    let lasts = spec["expirationSeconds"]
        .as_i64()
        .map_or_else(|| NONE.to_owned(), |seconds| human_duration(jiff::SignedDuration::from_secs(seconds)));
    vec![
        object["metadata"]["name"].clone(),
        age,
        text_or(text_at(spec, "/signerName"), NONE).into(),
        text_at(spec, "/username").into(),
        lasts.into(),
        state.into(),
    ]
}
