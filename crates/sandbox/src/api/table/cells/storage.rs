//! Rows of volumes and claims.

use serde_json::Value;

use super::{or, text};
use crate::write::admit::validate::list;

pub(super) fn modes(value: &Value) -> String {
    let has = |mode: &str| list(value).any(|(_, m)| m == mode);
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .iter()
    .filter(|(mode, _)| has(mode))
    .map(|(_, short)| *short)
    .collect::<Vec<_>>()
    .join(",")
}

pub(super) fn claim(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut phase = text(status, "/phase").to_owned();
    if object["metadata"]["deletionTimestamp"].is_string() {
        phase = "Terminating".into();
    }
    let bound = !text(spec, "/volumeName").is_empty();
    vec![
        object["metadata"]["name"].clone(),
        phase.into(),
        text(spec, "/volumeName").into(),
        if bound { text(status, "/capacity/storage") } else { "" }.into(),
        if bound { modes(&status["accessModes"]) } else { String::new() }.into(),
        text(spec, "/storageClassName").into(),
        or(text(spec, "/volumeAttributesClassName"), "<unset>").into(),
        age,
        or(text(spec, "/volumeMode"), "<unset>").into(),
    ]
}

pub(super) fn volume(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut phase = text(status, "/phase").to_owned();
    if object["metadata"]["deletionTimestamp"].is_string() {
        phase = "Terminating".into();
    }
    let claim = if spec["claimRef"].is_object() {
        format!("{}/{}", text(spec, "/claimRef/namespace"), text(spec, "/claimRef/name"))
    } else {
        String::new()
    };
    vec![
        object["metadata"]["name"].clone(),
        text(spec, "/capacity/storage").into(),
        modes(&spec["accessModes"]).into(),
        text(spec, "/persistentVolumeReclaimPolicy").into(),
        phase.into(),
        claim.into(),
        text(spec, "/storageClassName").into(),
        or(text(spec, "/volumeAttributesClassName"), "<unset>").into(),
        text(status, "/reason").into(),
        age,
        or(text(spec, "/volumeMode"), "<unset>").into(),
    ]
}
