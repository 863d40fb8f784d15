//! Rows of events, definitions and certificate requests.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, ago, or, text};
use crate::clock::human_duration;
use crate::write::admit::validate::list;

pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
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
        Value::from(ago(at, now))
    };
    let count = object["series"]["count"]
        .as_i64()
        .or_else(|| object["count"].as_i64())
        .or_else(|| object["deprecatedCount"].as_i64())
        .filter(|c| *c > 0)
        .unwrap_or(1);
    let (component, instance) = match text(source, "/component") {
        "" => {
            let reporter = or(text(object, "/reportingComponent"), text(object, "/reportingController"));
            (reporter, text(object, "/reportingInstance"))
        }
        component => (component, text(source, "/host")),
    };
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    let message = or(text(object, "/message"), text(object, "/note")).trim().to_owned();
    vec![
        seen(&last),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        format!("{}/{}", text(about, "/kind").to_lowercase(), text(about, "/name")).into(),
        text(about, "/fieldPath").into(),
        source.into(),
        message.into(),
        seen(&first),
        count.into(),
        object["metadata"]["name"].clone(),
    ]
}

pub(super) fn definition(object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let versions: Vec<String> = list(&spec["versions"])
        .map(|(_, v)| {
            let mut marks = Vec::new();
            if v["storage"] == true {
                marks.push("storage");
            }
            if v["served"] != true {
                marks.push("unserved");
            }
            let marks = if marks.is_empty() { String::new() } else { format!("({})", marks.join(",")) };
            format!("{}{marks}", text(v, "/name"))
        })
        .collect();
    let established = list(&object["status"]["conditions"])
        .any(|(_, c)| c["type"] == "Established" && c["status"] == "True");
    vec![
        object["metadata"]["name"].clone(),
        text(spec, "/scope").into(),
        versions.join(",").into(),
        object["metadata"]["creationTimestamp"].clone(),
        text(spec, "/group").into(),
        text(spec, "/names/kind").into(),
        list(&spec["names"]["shortNames"])
            .filter_map(|(_, s)| s.as_str())
            .collect::<Vec<_>>()
            .join(",")
            .into(),
        established.into(),
    ]
}

pub(super) fn certificate_request(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |kind: &str| list(&status["conditions"]).any(|(_, c)| c["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(status, "/certificate").is_empty() {
        state.push_str(",Issued");
    }
    let lasts = spec["expirationSeconds"]
        .as_i64()
        .map_or_else(|| NONE.to_owned(), |seconds| human_duration(jiff::SignedDuration::from_secs(seconds)));
    vec![
        object["metadata"]["name"].clone(),
        age,
        or(text(spec, "/signerName"), NONE).into(),
        text(spec, "/username").into(),
        lasts.into(),
        state.into(),
    ]
}
