//! Takes owned parts out of a value.

use serde_json::Value;

use super::typed::{TypedValue, item_element, typed_value};
use crate::fields::{FieldSet, PathElement};
use crate::schema::{ListKind, TypeRef};

/// Removes every path of the set, with all that is below it. What becomes empty goes, too.
pub fn remove_fields(value: &Value, paths: &FieldSet, kind: TypeRef<'_>) -> Value {
    without_fields(value, paths, kind).unwrap_or(Value::Null)
}

fn without_fields(value: &Value, paths: &FieldSet, kind: TypeRef<'_>) -> Option<Value> {
    match typed_value(value, kind) {
        TypedValue::Map { map: Some(map), atomic: false, .. } => {
            let mut kept = serde_json::Map::new();
            for (key, value) in map {
                let element = PathElement::field(key);
                if paths.has_element(&element) {
                    continue;
                }
                let value = match (paths.children_of(&element), kind.child(key)) {
                    (Some(below), Some(child)) => without_fields(value, below, child),
                    _ => Some(value.clone()),
                };
                if let Some(value) = value {
                    kept.insert(key.clone(), value);
                }
            }
            (!kept.is_empty() || map.is_empty()).then_some(Value::Object(kept))
        }
        TypedValue::List { list: Some(list), item, kind: list_kind @ (ListKind::Set | ListKind::Map(_)) } => {
            let mut kept = Vec::with_capacity(list.len());
            for value in list {
                let Ok(element) = item_element(value, item, list_kind) else {
                    kept.push(value.clone());
                    continue;
                };
                if paths.has_element(&element) {
                    continue;
                }
                match paths.children_of(&element) {
                    Some(below) => kept.extend(without_fields(value, below, item)),
                    None => kept.push(value.clone()),
                }
            }
            (!kept.is_empty() || list.is_empty()).then_some(Value::Array(kept))
        }
        _ => Some(value.clone()),
    }
}
