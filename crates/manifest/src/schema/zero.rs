//! The JSON of a Go zero value: what a struct prints as when nothing is set.

use serde_json::{Map, Value};

use super::{Field, Omit, Scalar, Shape, TypeRef};

/// What an unset field prints as; `None` if it is not printed.
pub fn zero_field(kind: TypeRef<'_>, field: &Field) -> Option<Value> {
    if field.omit == Omit::Zero || (field.pointer && field.omit == Omit::Empty) {
        return None;
    }
    if field.pointer {
        return Some(Value::Null);
    }
    let child = kind.at(field.shape);
    match child.shape() {
        // A struct is printed even when empty; a map is not.
        Shape::Map(map) if !map.name.is_empty() => Some(zero(child)),
        // So is a quantity, which is a struct in Go.
        _ if field.omit == Omit::Empty && child.as_scalar() != Some(Scalar::Quantity) => None,
        Shape::Map(_) | Shape::List(_) | Shape::Any(_) => Some(Value::Null),
        Shape::Scalar(scalar) => Some(match scalar {
            Scalar::Bool => Value::Bool(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Float | Scalar::IntOrString => 0.into(),
            Scalar::Quantity => "0".into(),
            Scalar::Time | Scalar::MicroTime | Scalar::Bytes => Value::Null,
            Scalar::String => "".into(),
            Scalar::Duration => "0s".into(),
        }),
    }
}

/// The JSON of a struct with nothing set: `{"metadata": {}, "spec": {"containers": null}, …}`.
pub fn zero(kind: TypeRef<'_>) -> Value {
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
