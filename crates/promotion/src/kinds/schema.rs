//! Structural schemas from Rust types, as definitions of custom resources need them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Formats an API server knows; others are only a warning to it.
const FORMATS: [&str; 5] = ["int32", "int64", "float", "double", "date-time"];

/// The structural schema of a type.
pub(super) fn structural_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = Schema::to_value(settings.into_generator().into_root_schema_for::<T>());
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("title");
    }
    make_structural(&mut schema);
    schema
}

/// Rewrites what JSON Schema can say and a structural schema cannot.
fn make_structural(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    unwrap_optional(map);
    unwrap_enum(map);
    map.remove("title");
    if map.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        map.remove("format");
    }
    // A default of nothing is no default; an empty one only hides that a field was absent.
    let is_void = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => true,
        Value::String(text) => text.is_empty(),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
    };
    if map.get("default").is_some_and(is_void) {
        map.remove("default");
    }
    if map.get("additionalProperties") == Some(&Value::Bool(false)) {
        map.remove("additionalProperties");
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(make_structural);
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part) = map.get_mut(part) {
            make_structural(part);
        }
    }
}

/// Turns a type that may be null into the type: an absent field says the same.
fn unwrap_optional(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get("type")
        && let Some(first) = types.iter().find(|name| *name != "null").cloned()
    {
        map.insert("type".to_owned(), first);
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = map.get("anyOf") else { return };
    let inner = choices.iter().find(|choice| choice["type"] != "null").and_then(Value::as_object).cloned();
    if let Some(inner) = inner.filter(|_| choices.iter().any(|choice| choice["type"] == "null")) {
        map.remove("anyOf");
        for (key, value) in inner {
            map.entry(key).or_insert(value);
        }
    }
}

/// Turns the documented variants of an enumeration into a list of values.
fn unwrap_enum(map: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = map.get("oneOf") else { return };
    let mut values = Vec::new();
    for choice in choices {
        match (&choice["const"], &choice["enum"]) {
            (Value::String(value), _) => values.push(json!(value)),
            (_, Value::Array(several)) => values.extend(several.iter().cloned()),
            _ => return,
        }
    }
    map.remove("oneOf");
    map.insert("type".to_owned(), json!("string"));
    map.insert("enum".to_owned(), Value::Array(values));
}
