//! The fields a value sets.

use serde_json::Value;

use super::typed::{TypedValue, item_element, typed_value};
use crate::fields::{FieldSet, PathElement};
use crate::schema::{ListKind, Shape, TypeRef};

/// Gives the paths a value sets: scalars, atomic maps and lists, nulls and empty maps as leaves; items
/// of keyed lists and free map keys themselves as well as what is in them.
pub fn fields_of(value: &Value, kind: TypeRef<'_>) -> FieldSet {
    fields_at(value, kind).1
}

/// Returns true with the fields below if the place itself is a member.
fn fields_at(value: &Value, kind: TypeRef<'_>) -> (bool, FieldSet) {
    match typed_value(value, kind) {
        TypedValue::Leaf => (true, FieldSet::new()),
        TypedValue::Map { atomic: true, .. } | TypedValue::List { kind: ListKind::Atomic, .. } => {
            (true, FieldSet::new())
        }
        TypedValue::Map { map: None, .. } | TypedValue::List { list: None, .. } => (false, FieldSet::new()),
        TypedValue::Map { map: Some(map), kind, .. } => {
            let struct_shape = if let Shape::Map(shape) = kind.shape() { Some(shape) } else { None };
            let parts = map.iter().map(|(key, value)| {
                let (member, below) = match kind.child(key) {
                    Some(child) => fields_at(value, child),
                    None => (true, FieldSet::new()),
                };
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let free = struct_shape.is_none_or(|shape| shape.field(key).is_none());
                (PathElement::field(key), member || empty || free, below)
            });
            (false, FieldSet::from_parts(parts))
        }
        TypedValue::List { list: Some(list), item, kind } => {
            let parts = list.iter().filter_map(|value| {
                let element = item_element(value, item, kind).ok()?;
                Some((element, true, fields_at(value, item).1))
            });
            (false, FieldSet::from_parts(parts))
        }
    }
}
