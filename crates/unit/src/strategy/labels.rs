//! The labels by which the objects of a rollout are found.

use serde_json::{Map, Value, json};

/// The field manager of a rollout.
pub const MANAGER: &str = "ktl-progressive";
/// The run an object was made for; whatever has it is removed by an abort.
pub const OWNED_BY_RUN: &str = "ktl.dev/owned-by-run";
/// The release an object of a rollout belongs to.
pub const RELEASE: &str = "ktl.dev/release";
/// Marks the pods of a canary.
pub const TRACK: &str = "ktl.dev/track";
/// Tells the two sets of pods of a blue-green rollout apart.
pub const COLOR: &str = "ktl.dev/color";
/// Keeps what has to be restored, on the workload of the rollout.
pub(crate) const BASELINE: &str = "ktl.dev/baseline";
pub(crate) const CANARY: &str = "canary";

/// Sets a label or annotation below `field` of an object's metadata.
pub(crate) fn set_metadata(object: &mut Value, field: &str, key: &str, value: &str) {
    set_entry(&mut object["metadata"][field], key, value);
}

/// Sets an entry of a map of texts, making the map if there is none.
pub(crate) fn set_entry(map: &mut Value, key: &str, value: &str) {
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    map[key] = json!(value);
}

/// Marks an object as made by a run for a release.
pub(crate) fn mark_owned(object: &mut Value, run: &str, release: &str) {
    set_metadata(object, "labels", OWNED_BY_RUN, run);
    set_metadata(object, "labels", RELEASE, release);
}

/// Marks an object as part of the release, which then takes it over.
pub(crate) fn mark_released(object: &mut Value, release: &str, namespace: &str) {
    set_metadata(object, "labels", "app.kubernetes.io/managed-by", "Helm");
    set_metadata(object, "annotations", "meta.helm.sh/release-name", release);
    set_metadata(object, "annotations", "meta.helm.sh/release-namespace", namespace);
}
