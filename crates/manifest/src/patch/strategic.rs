//! Strategic merge patch: a merge patch that knows which lists are merged by which key.
//!
//! A type that is not known (or [`None`]) merges maps and replaces lists.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::order::{item_identity, item_positions, order_items};
use super::{PatchError, go_value};
use crate::depth;
use crate::schema::{PatchRule, Shape, TypeRef};

pub use super::strategic_create::{create, create_three_way};

pub(super) const PATCH: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
pub(super) const SET_ORDER: &str = "$setElementOrder/";

static NO_RULE: PatchRule = PatchRule { merge: false, replace: false, retain_keys: false, merge_key: None };

/// Returns the shape of a field and its patch rule.
pub(super) fn field_rule<'a>(parent: Option<TypeRef<'a>>, key: &str) -> (Option<TypeRef<'a>>, &'a PatchRule) {
    let Some(parent) = parent else { return (None, &NO_RULE) };
    let rule = parent.field(key).map_or(&NO_RULE, |field| &field.patch);
    (parent.child(key), rule)
}

/// Applies a strategic merge patch to an object of the given type.
pub fn apply(document: Value, patch: Value, kind: Option<TypeRef<'_>>) -> Result<Value, PatchError> {
    depth::check_depth(&document)?;
    depth::check_depth(&patch)?;
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            merge_map(document, patch, kind).map(Value::Object)
        }
        (Value::Null, Value::Object(patch)) => merge_map(Map::new(), patch, kind).map(Value::Object),
        _ => Err(PatchError::Malformed("invalid JSON document".to_owned())),
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    let shown = go_value(&Value::Object(map.clone()));
    PatchError::DoesNotApply(format!("unknown patch type: {} in map: {shown}", go_value(directive)))
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    kind: Option<TypeRef<'_>>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.shift_remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_orders(&mut original, &mut patch, kind)?;
    delete_from_primitive_lists(&mut original, &mut patch);
    for (key, value) in patch {
        if value.is_null() {
            original.shift_remove(&key);
            continue;
        }
        let merged = match (original.get_mut(&key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => {
                let (child, rule) = field_rule(kind, &key);
                if rule.replace {
                    Some(Value::Object(value))
                } else {
                    Some(Value::Object(merge_map(std::mem::take(current), value, child)?))
                }
            }
            (Some(Value::Array(current)), Value::Array(value)) => {
                let (child, rule) = field_rule(kind, &key);
                Some(Value::Array(merge_list(std::mem::take(current), value, child, rule)?))
            }
            (_, value) => without_directives(value),
        };
        match merged {
            Some(merged) => {
                original.insert(key, merged);
            }
            None => {
                original.shift_remove(&key);
            }
        }
    }
    Ok(original)
}

/// Prepares a patch value for a place where the object has nothing to merge it with: nulls and directives go,
/// and a map with a `$patch` directive goes altogether.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.contains_key(PATCH) {
                return None;
            }
            let kept = map
                .into_iter()
                .filter(|(key, value)| !value.is_null() && !is_directive(key))
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// Prepares a list item that the object does not have. Upstream appends it as it stands, and the
/// server then drops nulls and unknown fields, directives among them.
fn item_without_directives(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| !value.is_null() && !is_directive(key));
            Value::Object(kept.map(|(key, value)| (key, item_without_directives(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(item_without_directives).collect()),
        other => other,
    }
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(directive) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::DoesNotApply("invalid patch format of retainKeys".to_owned());
    let keys: Vec<&str> =
        directive.as_array().ok_or_else(malformed)?.iter().filter_map(Value::as_str).collect();
    for (key, value) in patch.iter() {
        if !value.is_null() && !is_directive(key) && !keys.contains(&key.as_str()) {
            return Err(malformed());
        }
    }
    original.retain(|key, _| keys.contains(&key.as_str()));
    Ok(())
}

fn take_directives(patch: &mut Map<String, Value>, prefix: &str) -> Vec<(String, Value)> {
    if !patch.keys().any(|key| key.starts_with(prefix)) {
        return Vec::new();
    }
    let (taken, kept) =
        std::mem::take(patch).into_iter().partition::<Vec<_>, _>(|(key, _)| key.starts_with(prefix));
    patch.extend(kept);
    taken.into_iter().map(|(key, value)| (key[prefix.len()..].to_owned(), value)).collect()
}

fn delete_from_primitive_lists(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) {
    for (key, value) in take_directives(patch, DELETE_FROM) {
        if let (Some(Value::Array(items)), Value::Array(gone)) = (original.get_mut(&key), value) {
            items.retain(|item| item.is_object() || !gone.contains(item));
        }
    }
}

fn set_element_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    kind: Option<TypeRef<'_>>,
) -> Result<(), PatchError> {
    for (key, order) in take_directives(patch, SET_ORDER) {
        let malformed = |found: &Value| {
            PatchError::DoesNotApply(format!(
                "expected a []interface {{}}, but received a {}",
                go_type(found)
            ))
        };
        let Value::Array(order) = order else { return Err(malformed(&order)) };
        let (child, rule) = field_rule(kind, &key);
        let merge_key = rule.merge_key.as_deref();
        let before = match original.get_mut(&key) {
            Some(Value::Array(items)) => Some(std::mem::take(items)),
            Some(other) => return Err(malformed(other)),
            None => None,
        };
        let wanted = match patch.shift_remove(&key) {
            Some(Value::Array(items)) => Some(items),
            Some(Value::Null) | None => None,
            Some(other) => return Err(malformed(&other)),
        };
        if let Some(wanted) = &wanted {
            check_order(wanted, &order, merge_key)?;
        }
        let server = before.clone().unwrap_or_default();
        let merged = match (before, wanted) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(wanted)) => match without_directives(Value::Array(wanted)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(before), Some(wanted)) => merge_list(before, wanted, child, rule)?,
        };
        original.insert(key, Value::Array(order_items(merged, &order, &server, merge_key)));
    }
    Ok(())
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The items a patch adds or changes must stand in the order it asks for.
fn check_order(items: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    let places = item_positions(order, merge_key);
    let mut last = 0;
    for item in items.iter().filter(|item| item.get(PATCH).is_none()) {
        match places.get(&item_identity(item, merge_key)) {
            Some(&place) if place >= last => last = place,
            _ => {
                return Err(PatchError::DoesNotApply(format!(
                    "The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
                    go_value(&Value::Array(items.to_vec())),
                    SET_ORDER.trim_end_matches('/'),
                    go_value(&Value::Array(order.to_vec())),
                )));
            }
        }
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    kind: Option<TypeRef<'_>>,
    rule: &PatchRule,
) -> Result<Vec<Value>, PatchError> {
    if !rule.merge {
        return Ok(patch);
    }
    let maps = original.iter().chain(&patch).filter(|item| item.is_object()).count();
    if maps == 0 {
        let mut merged = original.clone();
        let mut seen: std::collections::HashSet<String> = merged.iter().map(Value::to_string).collect();
        merged.extend(patch.iter().filter(|item| seen.insert(item.to_string())).cloned());
        return Ok(order_items(merged, &patch, &original, None));
    }
    if maps != original.len() + patch.len() {
        let both = Value::Array(vec![Value::Array(original), Value::Array(patch)]);
        return Err(PatchError::DoesNotApply(format!(
            "list element types are not identical: {}",
            go_value(&both)
        )));
    }
    let Some(merge_key) = rule.merge_key.as_deref() else {
        let name = match kind.map(TypeRef::shape) {
            Some(Shape::List(list)) => {
                kind.and_then(|kind| kind.at(list.item).as_map()).map(|map| map.name.clone())
            }
            _ => None,
        };
        let name = name.unwrap_or_default();
        return Err(PatchError::DoesNotApply(format!("cannot merge lists without merge key for {name}")));
    };
    let (original, patch) = special_items(original, patch, merge_key)?;
    let item_kind = kind.and_then(TypeRef::item);
    let server_order = original.clone();
    let mut merged: Vec<Value> = original;
    let mut places: HashMap<String, usize> = item_positions(&merged, Some(merge_key));
    let mut order = Vec::with_capacity(patch.len());
    for item in patch {
        let Value::Object(item) = item else { continue };
        let Some(value) = item.get(merge_key) else {
            let shown = go_value(&Value::Object(item));
            return Err(PatchError::DoesNotApply(format!(
                "map: {shown} does not contain declared merge key: {merge_key}"
            )));
        };
        order.push(Value::Object(Map::from_iter([(merge_key.to_owned(), value.clone())])));
        let identity = go_value(value);
        match places.get(&identity) {
            Some(&place) => {
                let current = match merged[place].take() {
                    Value::Object(map) => map,
                    _ => Map::new(),
                };
                merged[place] = Value::Object(merge_map(current, item, item_kind)?);
            }
            None => {
                places.insert(identity, merged.len());
                let unnamed = item[merge_key].is_null();
                let mut made = item_without_directives(Value::Object(item));
                if unnamed {
                    // An item without the key is ordered by its empty identity.
                    made[merge_key] = Value::Null;
                }
                merged.push(made);
            }
        }
    }
    Ok(order_items(merged, &order, &server_order, Some(merge_key)))
}

/// Carries out `$patch` items of a list: `delete` by merge key, `replace` of the whole list.
fn special_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(PATCH) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => match item.get(merge_key) {
                Some(value) => deleted.push(go_value(value)),
                None => {
                    let shown = go_value(&item);
                    return Err(PatchError::DoesNotApply(format!(
                        "map: {shown} does not contain declared merge key: {merge_key}"
                    )));
                }
            },
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::DoesNotApply(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => {
                let map = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(directive, &map));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !deleted.is_empty() {
        let deleted: std::collections::HashSet<String> = deleted.into_iter().collect();
        original.retain(|item| !deleted.contains(&item_identity(item, Some(merge_key))));
    }
    Ok((original, plain))
}
