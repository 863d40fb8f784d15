//! Takes owned parts out of a value.

use serde_json::Value;

use super::typed::{Form, form, item_element};
use crate::fields::{PathElement, Set};
use crate::schema::{ListKind, TypeRef};

/// Removes every path of the set, with all that is below it. What becomes empty goes, too.
pub fn remove(value: &Value, paths: &Set, kind: TypeRef<'_>) -> Value {
    without(value, paths, kind).unwrap_or(Value::Null)
}

fn without(value: &Value, paths: &Set, kind: TypeRef<'_>) -> Option<Value> {
    match form(value, kind) {
        Form::Map { map: Some(map), atomic: false, .. } => {
            let mut kept = serde_json::Map::new();
            for (key, value) in map {
                let element = PathElement::field(key);
                if paths.has_element(&element) {
                    continue;
                }
                let value = match (paths.below(&element), kind.child(key)) {
                    (Some(below), Some(child)) => without(value, below, child),
                    _ => Some(value.clone()),
                };
                if let Some(value) = value {
                    kept.insert(key.clone(), value);
                }
            }
            (!kept.is_empty() || map.is_empty()).then_some(Value::Object(kept))
        }
        Form::List { list: Some(list), item, kind: list_kind @ (ListKind::Set | ListKind::Map(_)) } => {
            let mut kept = Vec::with_capacity(list.len());
            for value in list {
                let Ok(element) = item_element(value, item, list_kind) else {
                    kept.push(value.clone());
                    continue;
                };
                if paths.has_element(&element) {
                    continue;
                }
                match paths.below(&element) {
                    Some(below) => kept.extend(without(value, below, item)),
                    None => kept.push(value.clone()),
                }
            }
            (!kept.is_empty() || list.is_empty()).then_some(Value::Array(kept))
        }
        _ => Some(value.clone()),
    }
}
