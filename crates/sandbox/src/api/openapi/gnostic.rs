//! OpenAPI v2 in the protobuf form kubectl falls back to, for kinds v3 does not have (`List`).
//!
//! Field numbers are those of the published `openapi.v2` messages. Only what our documents contain is
//! written; extensions travel as YAML text, and JSON is YAML.

use serde_json::Value;

/// The document with its definitions.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, document["swagger"].as_str().unwrap_or("2.0"));
    let mut info = Vec::new();
    text(&mut info, 1, document["info"]["title"].as_str().unwrap_or(""));
    text(&mut info, 2, document["info"]["version"].as_str().unwrap_or(""));
    bytes(&mut out, 2, &info);
    bytes(&mut out, 8, &[]);
    let mut definitions = Vec::new();
    named_schemas(&mut definitions, &document["definitions"]);
    bytes(&mut out, 9, &definitions);
    out
}

fn named_schemas(out: &mut Vec<u8>, schemas: &Value) {
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let mut named = Vec::new();
        text(&mut named, 1, name);
        bytes(&mut named, 2, &self::schema(schema));
        bytes(out, 1, &named);
    }
}

/// Our own schemas nest a few levels; those of definitions were checked for depth when accepted.
fn schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "$ref" => text(&mut out, 1, value.as_str().unwrap_or("")),
            "format" => text(&mut out, 2, value.as_str().unwrap_or("")),
            "description" => text(&mut out, 4, value.as_str().unwrap_or("")),
            "default" => bytes(&mut out, 5, &any(value)),
            "required" => {
                for name in value.as_array().into_iter().flatten() {
                    text(&mut out, 19, name.as_str().unwrap_or(""));
                }
            }
            "enum" => {
                for word in value.as_array().into_iter().flatten() {
                    bytes(&mut out, 20, &any(word));
                }
            }
            "additionalProperties" => {
                let mut item = Vec::new();
                match value {
                    Value::Bool(allowed) => {
                        number(&mut item, 2, u64::from(*allowed));
                    }
                    other => bytes(&mut item, 1, &self::schema(other)),
                }
                bytes(&mut out, 21, &item);
            }
            "type" => {
                let mut item = Vec::new();
                text(&mut item, 1, value.as_str().unwrap_or(""));
                bytes(&mut out, 22, &item);
            }
            "items" => {
                let mut item = Vec::new();
                bytes(&mut item, 1, &self::schema(value));
                bytes(&mut out, 23, &item);
            }
            "properties" => {
                let mut properties = Vec::new();
                named_schemas(&mut properties, value);
                bytes(&mut out, 25, &properties);
            }
            extension if extension.starts_with("x-") => {
                let mut named = Vec::new();
                text(&mut named, 1, extension);
                bytes(&mut named, 2, &any(value));
                bytes(&mut out, 31, &named);
            }
            _ => {}
        }
    }
    out
}

fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 2, &value.to_string());
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, (field << 3) | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn text(out: &mut Vec<u8>, field: u64, value: &str) {
    bytes(out, field, value.as_bytes());
}
