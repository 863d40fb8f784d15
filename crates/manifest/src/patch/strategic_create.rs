//! Creates strategic merge patches, as `kubectl apply` does on the client.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::PatchError;
use super::order::{item_identity, item_positions};
use super::strategic::{DELETE_FROM, PATCH, RETAIN_KEYS, SET_ORDER, field_rule};
use crate::depth;
use crate::schema::{PatchRule, TypeRef};

/// The differences a patch carries.
#[derive(Clone, Copy)]
struct PatchContent {
    changes: bool,
    deletions: bool,
    retain_keys: bool,
}

/// Creates the patch that turns `original` into `modified`.
pub fn create(original: &Value, modified: &Value, kind: Option<TypeRef<'_>>) -> Result<Value, PatchError> {
    let (original, modified) = (as_object(original)?, as_object(modified)?);
    let carry = PatchContent { changes: true, deletions: true, retain_keys: false };
    map_difference(original, modified, kind, carry).map(Value::Object)
}

/// Creates the patch of `kubectl apply`: what `modified` (the manifest) sets differently from `current`
/// (the live object), and what it no longer sets that `original` (the last manifest) did.
pub fn create_three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
    kind: Option<TypeRef<'_>>,
) -> Result<Value, PatchError> {
    let (original, modified, current) = (as_object(original)?, as_object(modified)?, as_object(current)?);
    let changes = PatchContent { changes: true, deletions: false, retain_keys: false };
    let deletions = PatchContent { changes: false, deletions: true, retain_keys: false };
    let changes = map_difference(current, modified, kind, changes)?;
    let deletions = map_difference(original, modified, kind, deletions)?;
    Ok(Value::Object(join_maps(deletions, changes, kind)))
}

fn as_object(value: &Value) -> Result<&Map<String, Value>, PatchError> {
    depth::check_depth(value)?;
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(&EMPTY),
        _ => Err(PatchError::Malformed("invalid JSON document".to_owned())),
    }
}

fn map_difference(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    kind: Option<TypeRef<'_>>,
    carry: PatchContent,
) -> Result<Map<String, Value>, PatchError> {
    let mut patch = Map::new();
    for (key, new) in modified {
        let Some(old) = original.get(key) else {
            if carry.changes {
                patch.insert(key.clone(), new.clone());
            }
            continue;
        };
        if key == PATCH {
            continue;
        }
        let (child, rule) = field_rule(kind, key);
        match (old, new) {
            (Value::Object(old), Value::Object(new)) if !rule.replace => {
                let inner =
                    map_difference(old, new, child, PatchContent { retain_keys: rule.retain_keys, ..carry })?;
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Value::Array(old), Value::Array(new)) if rule.merge => {
                list_difference(key, old, new, child, rule, carry, &mut patch)?;
            }
            _ if old != new && carry.changes => {
                patch.insert(key.clone(), new.clone());
            }
            _ => {}
        }
    }
    if carry.deletions {
        for key in original.keys().filter(|key| !modified.contains_key(*key)) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    if carry.retain_keys {
        let mut keys: Vec<&str> =
            modified.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str()).collect();
        let more_before = original.keys().any(|key| !modified.contains_key(key));
        if !keys.is_empty() && (!patch.is_empty() || more_before) {
            keys.sort_unstable();
            patch.insert(RETAIN_KEYS.to_owned(), keys.into());
        }
    }
    Ok(patch)
}

fn list_difference(
    key: &str,
    old: &[Value],
    new: &[Value],
    kind: Option<TypeRef<'_>>,
    rule: &PatchRule,
    carry: PatchContent,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    if old.is_empty() {
        if !new.is_empty() && carry.changes {
            patch.insert(key.to_owned(), Value::Array(new.to_vec()));
        }
        return Ok(());
    }
    let of_maps = old.iter().chain(new).any(Value::is_object);
    let merge_key = rule.merge_key.as_deref();
    let mut items = Vec::new();
    let mut gone = Vec::new();
    if of_maps {
        let Some(merge_key) = merge_key else {
            return Err(PatchError::DoesNotApply(format!("cannot merge lists without merge key for {key}")));
        };
        let item_kind = kind.and_then(TypeRef::item);
        let places = item_positions(old, Some(merge_key));
        let kept: HashSet<String> = new.iter().map(|item| item_identity(item, Some(merge_key))).collect();
        for item in new {
            let (Some(map), Some(value)) = (item.as_object(), item.get(merge_key)) else {
                return Err(no_merge_key(item, merge_key));
            };
            match places.get(&item_identity(item, Some(merge_key))).and_then(|&place| old[place].as_object())
            {
                Some(before) => {
                    let mut inner = map_difference(
                        before,
                        map,
                        item_kind,
                        PatchContent { retain_keys: rule.retain_keys, ..carry },
                    )?;
                    if !inner.is_empty() {
                        inner.insert(merge_key.to_owned(), value.clone());
                        items.push(Value::Object(inner));
                    }
                }
                None if carry.changes => items.push(item.clone()),
                None => {}
            }
        }
        if carry.deletions {
            for item in old {
                let value = item.get(merge_key).ok_or_else(|| no_merge_key(item, merge_key))?;
                if !kept.contains(&item_identity(item, Some(merge_key))) {
                    items.push(Value::Object(Map::from_iter([
                        (PATCH.to_owned(), "delete".into()),
                        (merge_key.to_owned(), value.clone()),
                    ])));
                }
            }
        }
    } else {
        let before: HashSet<String> = old.iter().map(Value::to_string).collect();
        let after: HashSet<String> = new.iter().map(Value::to_string).collect();
        if carry.changes {
            items.extend(new.iter().filter(|item| !before.contains(&item.to_string())).cloned());
        }
        if carry.deletions {
            gone.extend(old.iter().filter(|item| !after.contains(&item.to_string())).cloned());
        }
    }
    let changed = !items.is_empty() || !gone.is_empty();
    if changed || !same_order(old, new, merge_key) {
        let order = match merge_key {
            Some(merge_key) => new
                .iter()
                .filter_map(|item| {
                    Some(Value::Object(Map::from_iter([(
                        merge_key.to_owned(),
                        item.get(merge_key)?.clone(),
                    )])))
                })
                .collect(),
            None => new.to_vec(),
        };
        if !order.is_empty() {
            patch.insert(format!("{SET_ORDER}{key}"), Value::Array(order));
        }
    }
    if !items.is_empty() {
        patch.insert(key.to_owned(), Value::Array(items));
    }
    if !gone.is_empty() {
        patch.insert(format!("{DELETE_FROM}{key}"), Value::Array(gone));
    }
    Ok(())
}

fn no_merge_key(item: &Value, merge_key: &str) -> PatchError {
    PatchError::DoesNotApply(format!(
        "map: {} does not contain declared merge key: {merge_key}",
        super::go_value(item)
    ))
}

/// Returns true if the items both lists have are in the same order.
fn same_order(old: &[Value], new: &[Value], merge_key: Option<&str>) -> bool {
    let places = item_positions(old, merge_key);
    let mut last = 0;
    for item in new {
        if let Some(&place) = places.get(&item_identity(item, merge_key)) {
            if place < last {
                return false;
            }
            last = place;
        }
    }
    true
}

/// Lays the changes over the deletions. Both are patches of the same object, so they never disagree.
fn join_maps(
    mut below: Map<String, Value>,
    above: Map<String, Value>,
    kind: Option<TypeRef<'_>>,
) -> Map<String, Value> {
    for (key, value) in above {
        let (child, rule) = field_rule(kind, &key);
        let joined = match (below.get_mut(&key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => {
                Value::Object(join_maps(std::mem::take(current), value, child))
            }
            (Some(Value::Array(current)), Value::Array(value)) if rule.merge && rule.merge_key.is_some() => {
                join_lists(std::mem::take(current), value, child, rule)
            }
            (_, value) => value,
        };
        below.insert(key, joined);
    }
    below
}

fn join_lists(below: Vec<Value>, above: Vec<Value>, kind: Option<TypeRef<'_>>, rule: &PatchRule) -> Value {
    let merge_key = rule.merge_key.as_deref();
    let item_kind = kind.and_then(TypeRef::item);
    let mut rest: HashMap<String, Map<String, Value>> = HashMap::new();
    let mut order = Vec::new();
    for item in below {
        if let Value::Object(map) = item {
            let identity = item_identity(&Value::Object(map.clone()), merge_key);
            order.push(identity.clone());
            rest.insert(identity, map);
        }
    }
    let mut joined: Vec<Value> = above
        .into_iter()
        .map(|item| match (rest.remove(&item_identity(&item, merge_key)), item) {
            (Some(current), Value::Object(map)) => Value::Object(join_maps(current, map, item_kind)),
            (_, item) => item,
        })
        .collect();
    joined.extend(order.iter().filter_map(|identity| rest.remove(identity).map(Value::Object)));
    Value::Array(joined)
}
