//! The part of an object that others read, and hashes of it.

use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Names of fields from the root of an object.
pub(crate) type FieldPath = Vec<String>;

/// Sorts paths and drops those that lie below another.
pub(crate) fn minimal(mut paths: Vec<FieldPath>) -> Vec<FieldPath> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<FieldPath> = Vec::new();
    for path in paths {
        if !kept.last().is_some_and(|last| path.starts_with(last)) {
            kept.push(path);
        }
    }
    kept
}

/// A copy of an object with these paths alone; what is absent stays absent.
pub(crate) fn project(object: &Value, paths: &[FieldPath]) -> Value {
    let mut projected = Value::Object(Map::new());
    for path in paths {
        copy(object, &mut projected, path);
    }
    projected
}

fn copy(from: &Value, to: &mut Value, path: &[String]) {
    let Some((field, rest)) = path.split_first() else {
        to.clone_from(from);
        return;
    };
    let Some(below) = from.get(field) else { return };
    // What is no map cannot be entered, and expressions have to see that.
    if !rest.is_empty() && !below.is_object() {
        if let Some(map) = to.as_object_mut() {
            map.insert(field.clone(), below.clone());
        }
        return;
    }
    let Some(map) = to.as_object_mut() else { return };
    let place = map.entry(field.clone()).or_insert_with(|| Value::Object(Map::new()));
    copy(below, place, rest);
}

/// The value at a path.
pub(crate) fn at_path<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, field| value.get(field))
}

/// A hash that stays the same from one build to the next: some are stored with objects.
#[derive(Default)]
pub(crate) struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        u64::from_be_bytes([
            digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7],
        ])
    }
}

/// A hash that does not depend on the order of keys.
pub(crate) fn hash_value(value: &Value) -> u64 {
    let mut hasher = StableHasher::default();
    feed(value, &mut hasher);
    hasher.finish()
}

pub(crate) fn feed(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(truth) => (1_u8, truth).hash(hasher),
        Value::Number(number) => {
            2_u8.hash(hasher);
            number.to_string().hash(hasher);
        }
        Value::String(text) => (3_u8, text).hash(hasher),
        Value::Array(items) => {
            (4_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| feed(item, hasher));
        }
        Value::Object(map) => {
            (5_u8, map.len()).hash(hasher);
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, value) in entries {
                key.hash(hasher);
                feed(value, hasher);
            }
        }
    }
}

/// Whether a live object has every field of a wanted one: lists must be as long, their items may hold more.
pub(crate) fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| match live.get(key) {
                Some(found) => holds(found, value),
                // A server drops what is empty.
                None => value.is_null() || value.as_object().is_some_and(Map::is_empty),
            })
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| holds(live, wanted))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn projections_hold_what_is_read_and_nothing_else() {
        let object =
            json!({"metadata": {"name": "a", "uid": "u"}, "status": {"state": "x", "n": null}, "l": [1]});
        let path = |text: &str| -> FieldPath { text.split('.').map(str::to_owned).collect() };
        for (paths, expected) in [
            (vec![path("metadata.name")], json!({"metadata": {"name": "a"}})),
            (vec![path("status.state"), path("status")], json!({"status": {"state": "x", "n": null}})),
            (vec![path("status.n"), path("status.gone")], json!({"status": {"n": null}})),
            (vec![path("l.0")], json!({"l": [1]})),
            (vec![], json!({})),
            (vec![vec![]], object.clone()),
        ] {
            assert_eq!(project(&object, &minimal(paths.clone())), expected, "{paths:?}");
        }
    }

    #[test]
    fn hashes_depend_on_content_not_on_order() {
        assert_eq!(hash_value(&json!({"a": 1, "b": [2]})), hash_value(&json!({"b": [2], "a": 1})));
        assert_ne!(hash_value(&json!({"a": null})), hash_value(&json!({})));
        assert_ne!(hash_value(&json!(["a", "b"])), hash_value(&json!(["ab"])));
    }
}
