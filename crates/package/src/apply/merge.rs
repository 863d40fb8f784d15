//! Laying one value over another.

use serde_json::Value as Json;

use crate::val::{ValueShape, json_shape};

/// Nulls in a map remove what is there; where nothing is, they just go.
pub(super) fn strip_nulls(value: &mut Json) {
    if let Json::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(strip_nulls);
    }
}

/// A map that would be merged into something that is none, below the field itself.
pub(super) fn nested_clash(
    old: &Json,
    new: &Json,
    path: &mut Vec<String>,
) -> Option<(String, ValueShape, ValueShape)> {
    let (Json::Object(old), Json::Object(new)) = (old, new) else { return None };
    for (key, new) in new {
        let Some(old) = old.get(key) else { continue };
        path.push(key.clone());
        let found = match (json_shape(old), json_shape(new)) {
            (ValueShape::Map, ValueShape::Map) => nested_clash(old, new, path),
            (was @ (ValueShape::Scalar | ValueShape::List), is @ ValueShape::Map) => {
                Some((path.join("."), was, is))
            }
            _ => None,
        };
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Maps recurse, everything else overwrites, null removes.
pub(super) fn merge_values(old: &mut Json, new: Json) {
    match (old, new) {
        (Json::Object(old), Json::Object(new)) => {
            for (key, mut value) in new {
                if value.is_null() {
                    old.shift_remove(&key);
                } else if let Some(existing) = old.get_mut(&key).filter(|existing| !existing.is_null()) {
                    merge_values(existing, value);
                } else {
                    strip_nulls(&mut value);
                    old.insert(key, value);
                }
            }
        }
        (old, new) => *old = new,
    }
}
