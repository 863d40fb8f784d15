//! The JSON of a Go zero value: what a struct prints as when nothing is set.

use serde_json::{Map, Value};

use super::{OmitRule, ScalarType, Shape, StructField, TypeRef};

/// The JSON an unset field prints as; `None` if it is not printed.
pub fn zero_field(kind: TypeRef<'_>, field: &StructField) -> Option<Value> {
    if field.omit == OmitRule::Zero || (field.pointer && field.omit == OmitRule::Empty) {
        return None;
    }
    if field.pointer {
        return Some(Value::Null);
    }
    let child = kind.at(field.shape);
    match child.shape() {
        // A struct is printed even when empty; a map is not.
        Shape::Map(map) if !map.name.is_empty() => Some(zero_value(child)),
        // So is a quantity, which is a struct in Go.
        _ if field.omit == OmitRule::Empty && child.as_scalar() != Some(ScalarType::Quantity) => None,
        Shape::Map(_) | Shape::List(_) | Shape::Any(_) => Some(Value::Null),
        Shape::Scalar(scalar) => Some(match scalar {
            ScalarType::Bool => Value::Bool(false),
            ScalarType::Int32 | ScalarType::Int64 | ScalarType::Float | ScalarType::IntOrString => 0.into(),
            ScalarType::Quantity => "0".into(),
            ScalarType::Time | ScalarType::MicroTime | ScalarType::Bytes => Value::Null,
            ScalarType::String => "".into(),
            ScalarType::Duration => "0s".into(),
        }),
    }
}

/// The JSON of a struct with nothing set: `{"metadata": {}, "spec": {"containers": null}, …}`.
pub fn zero_value(kind: TypeRef<'_>) -> Value {
    let mut map = Map::new();
    if let Shape::Map(shape) = kind.shape() {
        for field in &shape.fields {
            if let Some(value) = zero_field(kind, field) {
                map.insert(field.name.clone(), value);
            }
        }
    }
    Value::Object(map)
}
