//! Resources read in another form than they are stored in: events and autoscalers in their other version, and
//! custom resources whose definition has defaults now.

mod autoscaler;

use serde_json::{Map, Value};

use crate::api::resource::ServedResource;

/// Returns true if objects are printed exactly as stored.
pub(crate) fn is_stored_form(served: &ServedResource) -> bool {
    match &served.custom {
        Some(custom) => !custom.has_defaults(),
        None => served.def.group != "events.k8s.io" && served.def.version == served.storage_version,
    }
}

/// From the version a client wrote to the version stored.
pub(crate) fn to_storage(served: &ServedResource, value: Value) -> Value {
    if served.custom.is_some() || is_stored_form(served) {
        return value;
    }
    match served.def.group.as_str() {
        "events.k8s.io" => event_to_core(value),
        "autoscaling" => autoscaler::to_v2(value),
        _ => value,
    }
}

/// From the version stored to the version a client reads.
pub(crate) fn from_storage(served: &ServedResource, mut value: Value) -> Value {
    if is_stored_form(served) {
        return value;
    }
    if let Some(custom) = &served.custom {
        // An object may be older than a default of its definition.
        custom.apply_defaults(&mut value, false);
        value["apiVersion"] = served.api_version().into();
        return value;
    }
    match served.def.group.as_str() {
        "events.k8s.io" => event_from_core(value),
        "autoscaling" => autoscaler::to_v1(value),
        _ => value,
    }
}

const EVENT_NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename_members(
    value: Value,
    api_version: &str,
    pick: impl Fn(&str) -> Option<&'static str>,
) -> Map<String, Value> {
    let mut out = Map::new();
    if let Value::Object(members) = value {
        for (key, member) in members {
            let name = pick(&key).map_or(key, str::to_owned);
            out.insert(name, member);
        }
    }
    out.insert("apiVersion".into(), api_version.into());
    out
}

fn event_to_core(value: Value) -> Value {
    let out = rename_members(value, "v1", |key| {
        EVENT_NAMES.iter().find(|(new, _)| *new == key).map(|(_, old)| *old)
    });
    Value::Object(out)
}

fn event_from_core(value: Value) -> Value {
    let mut members = rename_members(value, "events.k8s.io/v1", |key| {
        EVENT_NAMES.iter().find(|(_, old)| *old == key).map(|(new, _)| *new)
    });
    // The order and the omissions of the newer type.
    let mut out = Map::new();
    for key in [
        "kind",
        "apiVersion",
        "metadata",
        "eventTime",
        "series",
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
        "regarding",
        "related",
        "note",
        "type",
        "deprecatedSource",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedCount",
    ] {
        let Some(value) = members.shift_remove(key) else { continue };
        let empty = value.is_null() || value.as_str() == Some("");
        if !empty || key == "eventTime" || key.ends_with("Timestamp") {
            out.insert(key.into(), value);
        }
    }
    Value::Object(out)
}
