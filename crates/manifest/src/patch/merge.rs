//! Merge patch (RFC 7386): null deletes, lists are replaced.

use serde_json::{Map, Value};

use super::PatchError;
use crate::depth;

/// Applies a merge patch.
pub fn apply(document: Value, patch: Value) -> Result<Value, PatchError> {
    depth::check_depth(&document)?;
    depth::check_depth(&patch)?;
    Ok(merge_values(document, patch))
}

fn merge_values(document: Value, patch: Value) -> Value {
    match (document, patch) {
        (Value::Object(mut document), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    document.shift_remove(&key);
                    continue;
                }
                match document.get_mut(&key) {
                    Some(current) if !current.is_null() => *current = merge_values(current.take(), value),
                    _ => {
                        document.insert(key, without_nulls(value));
                    }
                }
            }
            Value::Object(document)
        }
        (Value::Object(_), patch) => patch,
        (_, patch) => without_nulls(patch),
    }
}

/// Drops nulls from maps, also from maps in lists: a deletion of what was never there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Creates the merge patch that turns `from` into `to`.
///
/// A null in `to` cannot be expressed and is treated as absent.
pub fn create(from: &Value, to: &Value) -> Result<Value, PatchError> {
    depth::check_depth(from)?;
    depth::check_depth(to)?;
    Ok(merge_difference(from, to, KeptDifferences::Everything).unwrap_or_else(|| Value::Object(Map::new())))
}

/// Creates the patch of `kubectl apply` for types without a strategic one: what `modified` sets
/// differently from `current`, and what it no longer sets that `original` did.
pub fn create_three_way(original: &Value, modified: &Value, current: &Value) -> Result<Value, PatchError> {
    for value in [original, modified, current] {
        depth::check_depth(value)?;
    }
    let changes = merge_difference(current, modified, KeptDifferences::Changes);
    let deletions = merge_difference(original, modified, KeptDifferences::Deletions);
    Ok(match (changes, deletions) {
        (Some(changes), Some(deletions)) => join_patches(deletions, changes),
        (Some(patch), None) | (None, Some(patch)) => patch,
        (None, None) => Value::Object(Map::new()),
    })
}

#[derive(Clone, Copy, PartialEq)]
enum KeptDifferences {
    Everything,
    Changes,
    Deletions,
}

fn merge_difference(from: &Value, to: &Value, keep: KeptDifferences) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return (from != to && keep != KeptDifferences::Deletions).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let part = match old.get(key) {
            Some(before) => merge_difference(before, value, keep),
            None => (keep != KeptDifferences::Deletions).then(|| value.clone()),
        };
        if let Some(part) = part {
            patch.insert(key.clone(), part);
        }
    }
    if keep != KeptDifferences::Changes {
        for key in old.keys().filter(|key| new.get(*key).is_none_or(Value::is_null)) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Lays one patch over another, keeping the nulls of both.
fn join_patches(below: Value, above: Value) -> Value {
    match (below, above) {
        (Value::Object(mut below), Value::Object(above)) => {
            for (key, value) in above {
                let joined = match below.get_mut(&key) {
                    Some(current) => join_patches(current.take(), value),
                    None => value,
                };
                below.insert(key, joined);
            }
            Value::Object(below)
        }
        (_, above) => above,
    }
}
