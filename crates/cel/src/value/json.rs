//! JSON to values, which costs nothing, and values to JSON, which copies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::show::{duration_text, go_float};
use super::{List, Map, Str, Value};

/// Values nested deeper have no JSON form.
const DEEPEST: usize = 500;

impl<'a> Value<'a> {
    /// The value a JSON value is: whole numbers are `int`, all others `double`.
    pub fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(truth) => Self::Bool(*truth),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Self::Int(number),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Str::Borrowed(text)),
            Json::Array(items) => Self::List(List::Json(items)),
            Json::Object(map) => Self::Map(Map::Json(map)),
        }
    }

    /// The JSON form: times and durations as text, bytes as base64. None for what has none: types,
    /// NaN, infinities, what is nested too deep.
    pub fn to_json(&self) -> Option<Json> {
        to_json(self, 0)
    }
}

fn to_json(value: &Value<'_>, depth: usize) -> Option<Json> {
    if depth > DEEPEST {
        return None;
    }
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Double(number) => Json::Number(Number::from_f64(*number)?),
        Value::String(text) => Json::String(text.to_string()),
        Value::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
        Value::Timestamp(time) => Json::String(time.to_string()),
        Value::Duration(duration) => Json::String(duration_text(*duration)),
        Value::List(List::Json(items)) => Json::Array(items.to_vec()),
        Value::List(list) => {
            Json::Array(list.iter().map(|item| to_json(&item, depth + 1)).collect::<Option<_>>()?)
        }
        Value::Map(Map::Json(map)) => Json::Object((*map).clone()),
        Value::Map(map) => {
            let entry = |(key, value): &(super::Key<'_>, Value<'_>)| {
                to_json(value, depth + 1).map(|value| (key.show(), value))
            };
            Json::Object(map.entries().iter().map(entry).collect::<Option<JsonMap<_, _>>>()?)
        }
        Value::Optional(Some(inner)) => to_json(inner, depth + 1)?,
        Value::Optional(None) => Json::Null,
        Value::Opaque(value) => Json::String(value.show()),
        Value::Type(_) => return None,
    })
}

impl std::fmt::Display for Value<'_> {
    /// Prints the value for people; text stands as it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::String(text) => f.write_str(text),
            Value::Double(number) => f.write_str(&go_float(*number)),
            Value::Type(name) => f.write_str(name),
            other => match other.to_json() {
                Some(Json::String(text)) => f.write_str(&text),
                Some(json) => write!(f, "{json}"),
                None => f.write_str(other.type_name()),
            },
        }
    }
}
