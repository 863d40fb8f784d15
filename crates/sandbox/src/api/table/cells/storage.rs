//! Rows of volumes and claims.

use serde_json::Value;

use super::{text_at, text_or};
use crate::write::admit::validate::indexed_items;

pub(super) fn access_modes(value: &Value) -> String {
    let has = |mode: &str| indexed_items(value).any(|(_, m)| m == mode);
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

pub(super) fn claim_row(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut phase = text_at(status, "/phase").to_owned();
    if object["metadata"]["deletionTimestamp"].is_string() {
        phase = "Terminating".into();
    }
    let bound = !text_at(spec, "/volumeName").is_empty();
    vec![
        object["metadata"]["name"].clone(),
        phase.into(),
        text_at(spec, "/volumeName").into(),
        if bound { text_at(status, "/capacity/storage") } else { "" }.into(),
        if bound { access_modes(&status["accessModes"]) } else { String::new() }.into(),
        text_at(spec, "/storageClassName").into(),
        text_or(text_at(spec, "/volumeAttributesClassName"), "<unset>").into(),
        age,
        text_or(text_at(spec, "/volumeMode"), "<unset>").into(),
    ]
}

pub(super) fn volume_row(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut phase = text_at(status, "/phase").to_owned();
    if object["metadata"]["deletionTimestamp"].is_string() {
        phase = "Terminating".into();
    }
    let claim = if spec["claimRef"].is_object() {
        format!("{}/{}", text_at(spec, "/claimRef/namespace"), text_at(spec, "/claimRef/name"))
    } else {
        String::new()
    };
    vec![
        object["metadata"]["name"].clone(),
        text_at(spec, "/capacity/storage").into(),
        access_modes(&spec["accessModes"]).into(),
        text_at(spec, "/persistentVolumeReclaimPolicy").into(),
        phase.into(),
        claim.into(),
        text_at(spec, "/storageClassName").into(),
        text_or(text_at(spec, "/volumeAttributesClassName"), "<unset>").into(),
        text_at(status, "/reason").into(),
        age,
        text_or(text_at(spec, "/volumeMode"), "<unset>").into(),
    ]
}
