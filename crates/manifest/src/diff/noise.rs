//! Takes out what the server and tools keep for themselves.

use serde_json::{Map, Value};

/// The amount of noise to take out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseFilter {
    /// For deciding whether an object must be written: runtime data, times of owners and annotations of
    /// tools go; owners stay, since taking a field over is a change.
    Compare,
    /// For showing a difference: runtime data, owners and annotations of tools go.
    Show,
    /// For showing even insignificant differences: only runtime data goes.
    ShowInsignificant,
}

const RUNTIME: [&str; 8] = [
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
    "finalizers",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Annotations servers and controllers write.
const BOOKKEEPING: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.daemonset.template.generation",
    "autoscaling.alpha.kubernetes.io/conditions",
];

/// Gives an object without noise.
pub fn remove_noise(object: &Value, cleaning: NoiseFilter) -> Value {
    let Some(map) = object.as_object() else { return object.clone() };
    let mut cleaned = Map::with_capacity(map.len());
    for (key, value) in map {
        match (key.as_str(), value) {
            ("status", _) => {}
            ("metadata", Value::Object(metadata)) => {
                cleaned.insert(key.clone(), Value::Object(clean_metadata(metadata, cleaning)));
            }
            _ => {
                cleaned.insert(key.clone(), without_null_timestamps(value));
            }
        }
    }
    Value::Object(cleaned)
}

fn clean_metadata(metadata: &Map<String, Value>, cleaning: NoiseFilter) -> Map<String, Value> {
    let mut cleaned = Map::with_capacity(metadata.len());
    for (key, value) in metadata {
        match (key.as_str(), value) {
            (name, _) if RUNTIME.contains(&name) => {}
            ("managedFields", value) => match cleaning {
                NoiseFilter::Show => {}
                NoiseFilter::Compare | NoiseFilter::ShowInsignificant => {
                    cleaned.insert(key.clone(), without_times(value));
                }
            },
            ("annotations", Value::Object(annotations)) if cleaning != NoiseFilter::ShowInsignificant => {
                let kept: Map<String, Value> = annotations
                    .iter()
                    .filter(|(name, _)| !is_noise(name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                if !kept.is_empty() {
                    cleaned.insert(key.clone(), Value::Object(kept));
                }
            }
            ("annotations" | "labels", Value::Object(empty)) if empty.is_empty() => {}
            _ => {
                cleaned.insert(key.clone(), value.clone());
            }
        }
    }
    cleaned
}

fn is_noise(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map(|(domain, _)| domain);
    BOOKKEEPING.contains(&annotation)
        || annotation == super::secret_fields::SECRET_FIELDS
        || domain == Some("helm.sh")
        || domain.is_some_and(|domain| domain == "werf.io" || domain.ends_with("werf.io"))
}

fn without_times(entries: &Value) -> Value {
    let Some(entries) = entries.as_array() else { return entries.clone() };
    let timeless = entries.iter().map(|entry| {
        let mut entry = entry.clone();
        if let Some(entry) = entry.as_object_mut() {
            entry.shift_remove("time");
        }
        entry
    });
    Value::Array(timeless.collect())
}

/// Older servers print `creationTimestamp: null` in templates, newer ones do not.
fn without_null_timestamps(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !(key.as_str() == "creationTimestamp" && value.is_null()))
                .map(|(key, value)| (key.clone(), without_null_timestamps(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_null_timestamps).collect()),
        other => other.clone(),
    }
}
