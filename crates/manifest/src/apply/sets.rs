//! The fields a value sets.

use serde_json::Value;

use super::typed::{Form, form, item_element};
use crate::fields::{PathElement, Set};
use crate::schema::{ListKind, Shape, TypeRef};

/// Gives the paths a value sets: scalars, atomic maps and lists, nulls and empty maps as leaves; items
/// of keyed lists and free map keys themselves as well as what is in them.
pub fn to_set(value: &Value, kind: TypeRef<'_>) -> Set {
    content(value, kind).1
}

/// Whether the place itself is a member, and what is below it.
fn content(value: &Value, kind: TypeRef<'_>) -> (bool, Set) {
    match form(value, kind) {
        Form::Leaf => (true, Set::new()),
        Form::Map { atomic: true, .. } | Form::List { kind: ListKind::Atomic, .. } => (true, Set::new()),
        Form::Map { map: None, .. } | Form::List { list: None, .. } => (false, Set::new()),
        Form::Map { map: Some(map), kind, .. } => {
            let struct_shape = if let Shape::Map(shape) = kind.shape() { Some(shape) } else { None };
            let parts = map.iter().map(|(key, value)| {
                let (member, below) = match kind.child(key) {
                    Some(child) => content(value, child),
                    None => (true, Set::new()),
                };
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let free = struct_shape.is_none_or(|shape| shape.field(key).is_none());
                (PathElement::field(key), member || empty || free, below)
            });
            (false, Set::from_parts(parts))
        }
        Form::List { list: Some(list), item, kind } => {
            let parts = list.iter().filter_map(|value| {
                let element = item_element(value, item, kind).ok()?;
                Some((element, true, content(value, item).1))
            });
            (false, Set::from_parts(parts))
        }
    }
}
