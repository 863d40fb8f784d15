//! OpenAPI v2 in the protobuf form kubectl falls back to, for kinds v3 does not have (`List`).
//!
//! Field numbers are those of the published `openapi.v2` messages. Only what our documents contain is
//! written; extensions travel as YAML text, and JSON is YAML.

use serde_json::Value;

/// The document with its definitions.
pub(super) fn encode_document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_text(&mut out, 1, document["swagger"].as_str().unwrap_or("2.0"));
    let mut info = Vec::new();
    write_text(&mut info, 1, document["info"]["title"].as_str().unwrap_or(""));
    write_text(&mut info, 2, document["info"]["version"].as_str().unwrap_or(""));
    write_bytes(&mut out, 2, &info);
    write_bytes(&mut out, 8, &[]);
    let mut definitions = Vec::new();
    named_schemas(&mut definitions, &document["definitions"]);
    write_bytes(&mut out, 9, &definitions);
    out
}

fn named_schemas(out: &mut Vec<u8>, schemas: &Value) {
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let mut named = Vec::new();
        write_text(&mut named, 1, name);
        write_bytes(&mut named, 2, &encode_schema(schema));
        write_bytes(out, 1, &named);
    }
}

/// Our own schemas nest a few levels; those of definitions were checked for depth when accepted.
fn encode_schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "$ref" => write_text(&mut out, 1, value.as_str().unwrap_or("")),
            "format" => write_text(&mut out, 2, value.as_str().unwrap_or("")),
            "description" => write_text(&mut out, 4, value.as_str().unwrap_or("")),
            "default" => write_bytes(&mut out, 5, &encode_any(value)),
            "required" => {
                for name in value.as_array().into_iter().flatten() {
                    write_text(&mut out, 19, name.as_str().unwrap_or(""));
                }
            }
            "enum" => {
                for word in value.as_array().into_iter().flatten() {
                    write_bytes(&mut out, 20, &encode_any(word));
                }
            }
            "additionalProperties" => {
                let mut item = Vec::new();
                match value {
                    Value::Bool(allowed) => {
                        write_number(&mut item, 2, u64::from(*allowed));
                    }
                    other => write_bytes(&mut item, 1, &encode_schema(other)),
                }
                write_bytes(&mut out, 21, &item);
            }
            "type" => {
                let mut item = Vec::new();
                write_text(&mut item, 1, value.as_str().unwrap_or(""));
                write_bytes(&mut out, 22, &item);
            }
            "items" => {
                let mut item = Vec::new();
                write_bytes(&mut item, 1, &encode_schema(value));
                write_bytes(&mut out, 23, &item);
            }
            "properties" => {
                let mut properties = Vec::new();
                named_schemas(&mut properties, value);
                write_bytes(&mut out, 25, &properties);
            }
            extension if extension.starts_with("x-") => {
                let mut named = Vec::new();
                write_text(&mut named, 1, extension);
                write_bytes(&mut named, 2, &encode_any(value));
                write_bytes(&mut out, 31, &named);
            }
            _ => {}
        }
    }
    out
}

fn encode_any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_text(&mut out, 2, &value.to_string());
    out
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn write_number(out: &mut Vec<u8>, field: u64, value: u64) {
    write_varint(out, field << 3);
    write_varint(out, value);
}

fn write_bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    write_varint(out, (field << 3) | 2);
    write_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn write_text(out: &mut Vec<u8>, field: u64, value: &str) {
    write_bytes(out, field, value.as_bytes());
}
