//! The content hash that generated objects carry in their names.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::resource::Resource;

/// Adds the suffix to the names of the objects that want one.
pub(crate) fn add_suffixes(resources: &mut [Resource]) {
    for resource in resources.iter_mut().filter(|resource| resource.needs_hash) {
        let suffix = hash_suffix(resource);
        resource.remember_name();
        resource.set_name(format!("{}-{suffix}", resource.name()));
    }
}

/// The suffix for an object's content.
fn hash_suffix(resource: &Resource) -> String {
    let mut content = Map::new();
    let data = |key: &str| match resource.value.get(key) {
        Some(Value::Object(map)) => Some(Value::Object(map.clone())),
        _ => None,
    };
    // Upstream looks the name up under a key that never exists, so equal content hashes equally
    // whatever its name.
    match resource.kind() {
        "ConfigMap" => {
            content.extend(data("binaryData").map(|binary| ("binaryData".to_owned(), binary)));
            content.insert("data".to_owned(), data("data").unwrap_or_else(|| Value::String(String::new())));
            content.insert("kind".to_owned(), Value::String("ConfigMap".to_owned()));
            content.insert("name".to_owned(), Value::String(String::new()));
        }
        "Secret" => {
            content.insert("data".to_owned(), data("data").unwrap_or_else(|| Value::String(String::new())));
            content.insert("kind".to_owned(), Value::String("Secret".to_owned()));
            content.insert("name".to_owned(), Value::String(String::new()));
            content.extend(data("stringData").map(|text| ("stringData".to_owned(), text)));
            let kind = resource.value.get("type").and_then(Value::as_str).unwrap_or_default();
            content.insert("type".to_owned(), Value::String(kind.to_owned()));
        }
        _ => content = resource.value.clone(),
    }
    let mut text = String::new();
    write_json(&Value::Object(content), &mut text);
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(5)
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| LETTERS[usize::from(nibble)])
        .collect()
}

/// Hexadecimal with the digits that could spell words or vowels replaced.
const LETTERS: [char; 16] = ['g', 'h', '2', 'k', '4', '5', '6', '7', '8', '9', 'm', 'b', 'c', 'd', 't', 'f'];

/// Writes JSON as Go does: keys sorted, no spaces, `<`, `>` and `&` escaped.
pub(crate) fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => write_string(text, out),
        Value::Array(list) => {
            out.push('[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(element, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, element)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_json(element, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
