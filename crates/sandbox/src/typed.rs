//! Decoding into a built-in type: what Go's decoder would keep, refuse and print back.
//!
//! The result is the object as a real server prints it: fields in struct order, maps sorted, zero values
//! present or absent as their tags say. Everything behind this point may rely on types being right.

use base64::Engine;
use serde_json::{Map, Value};
use slipway_manifest::schema::{
    AnyForm, Field, ListShape, MapShape, Omit, Scalar, Shape, TypeRef, zero_field,
};

use crate::clock::{rfc3339, rfc3339_micro};

/// A decoded object and what strict decoding has to say about it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "data.a"`.
    pub strict: Vec<String>,
}

/// Decodes `value` as `kind`. The error is the text Go's decoder gives.
pub(crate) fn decode(value: Value, kind: TypeRef<'_>, duplicates: &[String]) -> Result<Decoded, String> {
    let mut walk =
        Walk { strict: Vec::new(), duplicates, path: String::new(), fields: Vec::new(), owner: "" };
    let value = walk.value(value, kind)?.unwrap_or_default();
    Ok(Decoded { value, strict: walk.strict })
}

struct Walk<'a, 'd> {
    strict: Vec<String>,
    duplicates: &'d [String],
    /// Where we are, as strict problems name it.
    path: String,
    /// Field names from the root, as Go's type errors name them.
    fields: Vec<&'a str>,
    /// The innermost struct.
    owner: &'a str,
}

impl<'a> Walk<'a, '_> {
    /// `None` for null.
    fn value(&mut self, value: Value, kind: TypeRef<'a>) -> Result<Option<Value>, String> {
        if value.is_null() && !kind.is_any() {
            return Ok(None);
        }
        match kind.shape() {
            Shape::Scalar(scalar) => self.scalar(value, *scalar, kind).map(Some),
            Shape::Map(shape) if shape.name.is_empty() => self.map(value, shape, kind).map(Some),
            Shape::Map(shape) => self.structure(value, shape, kind).map(Some),
            Shape::List(shape) => self.list(value, shape, kind).map(Some),
            Shape::Any(AnyForm::SchemaOr(schema)) => match value {
                Value::Object(_) => self.value(value, kind.at(*schema)),
                Value::Array(items) => {
                    let mut out = Vec::with_capacity(items.len());
                    for item in items {
                        out.push(match item {
                            Value::Object(_) => self.value(item, kind.at(*schema))?.unwrap_or_default(),
                            other => other,
                        });
                    }
                    Ok(Some(Value::Array(out)))
                }
                Value::Null => Ok(None),
                other => Ok(Some(other)),
            },
            Shape::Any(AnyForm::Raw) => Ok((!value.is_null()).then_some(value)),
        }
    }

    fn structure(&mut self, value: Value, shape: &'a MapShape, kind: TypeRef<'a>) -> Result<Value, String> {
        let Value::Object(mut members) = value else { return Err(self.mismatch(&value, kind)) };
        let owner = self.owner;
        self.owner = shape.name.rsplit('.').next().unwrap_or("");
        let length = self.path.len();
        let mut found: Vec<(&'a Field, Value)> = Vec::with_capacity(members.len());
        for (name, member) in std::mem::take(&mut members) {
            self.enter(&name, length);
            match shape.field(&name) {
                Some(field) => {
                    self.duplicate();
                    self.fields.push(&field.name);
                    if let Some(member) = self.value(member, kind.at(field.shape))? {
                        found.push((field, member));
                    }
                    self.fields.pop();
                }
                None => self.strict.push(format!("unknown field {:?}", self.path)),
            }
            self.path.truncate(length);
        }
        self.owner = owner;
        let mut out = Map::with_capacity(found.len() + 2);
        for field in &shape.fields {
            let given = found.iter().position(|(f, _)| std::ptr::eq(*f, field));
            let value = match given {
                Some(at) => Some(found.swap_remove(at).1).filter(|v| printed(v, field, kind)),
                None => None,
            };
            if let Some(value) =
                value.or_else(|| if given.is_none() { zero_field(kind, field) } else { None })
            {
                out.insert(field.name.clone(), value);
            }
        }
        Ok(Value::Object(out))
    }

    fn map(&mut self, value: Value, shape: &MapShape, kind: TypeRef<'a>) -> Result<Value, String> {
        let Value::Object(members) = value else { return Err(self.mismatch(&value, kind)) };
        let rest: TypeRef<'a> = match shape.rest {
            Some(id) => kind.at(id),
            None => TypeRef::anything(),
        };
        let length = self.path.len();
        let mut out: Vec<(String, Value)> = Vec::with_capacity(members.len());
        for (name, member) in members {
            self.enter(&name, length);
            self.duplicate();
            let zero = match rest.as_scalar() {
                Some(Scalar::String) => Value::from(""),
                Some(Scalar::Quantity) => Value::from("0"),
                _ => Value::Null,
            };
            let member = self.value(member, rest)?.unwrap_or(zero);
            self.path.truncate(length);
            out.push((name, member));
        }
        out.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Value::Object(out.into_iter().collect()))
    }

    fn list(&mut self, value: Value, shape: &ListShape, kind: TypeRef<'a>) -> Result<Value, String> {
        let Value::Array(items) = value else { return Err(self.mismatch(&value, kind)) };
        let item_kind = kind.at(shape.item);
        let length = self.path.len();
        let mut out = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            self.path.push_str(&format!("[{i}]"));
            let empty = match item_kind.shape() {
                Shape::Map(map) if !map.name.is_empty() => slipway_manifest::schema::zero(item_kind),
                Shape::Scalar(Scalar::String) => Value::from(""),
                _ => Value::Null,
            };
            out.push(self.value(item, item_kind)?.unwrap_or(empty));
            self.path.truncate(length);
        }
        Ok(Value::Array(out))
    }

    fn scalar(&self, value: Value, scalar: Scalar, kind: TypeRef<'_>) -> Result<Value, String> {
        match (scalar, &value) {
            (Scalar::String, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => Ok(value),
            (Scalar::Int32 | Scalar::Int64, Value::Number(number)) => {
                let fits = match scalar {
                    Scalar::Int32 => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                    _ => number.as_i64().is_some(),
                };
                if fits { Ok(value) } else { Err(self.wrong(&format!("number {number}"), kind)) }
            }
            (Scalar::Float, Value::Number(_)) => Ok(value),
            (Scalar::Bytes, Value::String(text)) => {
                match base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', '\r'], "")) {
                    Ok(bytes) => Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into()),
                    Err(_) => Err(format!("illegal base64 data at input byte {}", bad_base64_at(text))),
                }
            }
            (Scalar::Time, Value::String(text)) if text.is_empty() => Ok(Value::Null),
            (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
                let at: jiff::Timestamp = text.parse().map_err(|_| bad_time(text))?;
                Ok(if scalar == Scalar::Time { rfc3339(at) } else { rfc3339_micro(at) }.into())
            }
            (Scalar::Quantity, Value::String(_) | Value::Number(_)) => {
                crate::quantity::canonical(&value).map(Value::from).ok_or_else(|| {
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into()
                })
            }
            (Scalar::IntOrString, Value::String(_)) => Ok(value),
            (Scalar::IntOrString, Value::Number(number)) => match number.as_i64() {
                Some(_) => Ok(value),
                None => Err(format!("json: cannot unmarshal number {number} into Go value of type int32")),
            },
            (Scalar::IntOrString, other) => Err(format!(
                "json: cannot unmarshal {} into Go value of type int32",
                json_word(other)
            )),
            (Scalar::Duration, Value::String(_)) => Ok(value),
            _ => Err(self.mismatch(&value, kind)),
        }
    }

    fn enter(&mut self, name: &str, length: usize) {
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    fn duplicate(&mut self) {
        if self.duplicates.iter().any(|d| *d == self.path) {
            self.strict.push(format!("duplicate field {:?}", self.path));
        }
    }

    fn mismatch(&self, value: &Value, kind: TypeRef<'_>) -> String {
        self.wrong(json_word(value), kind)
    }

    fn wrong(&self, what: &str, kind: TypeRef<'_>) -> String {
        let place = if self.fields.is_empty() {
            "value".to_owned()
        } else {
            format!("struct field {}.{}", self.owner, self.fields.join("."))
        };
        format!("json: cannot unmarshal {what} into Go {place} of type {}", go_type(kind))
    }
}

/// Whether Go prints a field with this value.
fn printed(value: &Value, field: &Field, kind: TypeRef<'_>) -> bool {
    if field.pointer && !value.is_null() {
        return true;
    }
    let empty = match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => {
            o.is_empty() && !kind.at(field.shape).as_map().is_some_and(|m| !m.name.is_empty())
        }
    };
    // A quantity or an int-or-string is a struct to Go, so it is never empty.
    let structural = matches!(
        kind.at(field.shape).as_scalar(),
        Some(Scalar::IntOrString | Scalar::Quantity | Scalar::Duration)
    );
    match field.omit {
        Omit::Never => true,
        Omit::Empty => !empty || (structural && !value.is_null()),
        Omit::Zero => !empty,
    }
}

fn json_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(kind: TypeRef<'_>) -> String {
    match kind.shape() {
        Shape::Map(map) if !map.name.is_empty() => map.name.clone(),
        Shape::Map(map) => {
            format!(
                "map[string]{}",
                map.rest.map_or_else(|| "interface {}".into(), |id| go_type(kind.at(id)))
            )
        }
        Shape::List(list) => format!("[]{}", go_type(kind.at(list.item))),
        Shape::Any(_) => "interface {}".into(),
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Float => "float64",
            Scalar::Bytes => "[]uint8",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
            Scalar::Duration => "v1.Duration",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
        }
        .into(),
    }
}

/// Where Go's base64 decoder stops.
fn bad_base64_at(text: &str) -> usize {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    text.bytes().position(|b| !good(b)).unwrap_or(text.len() / 4 * 4)
}

fn bad_time(text: &str) -> String {
    format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\"")
}
