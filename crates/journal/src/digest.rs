//! Hashes of bytes and of JSON, as records keep them.

use std::cmp::Ordering;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns `sha256:` and 64 hex digits over bytes.
pub fn bytes(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// Writes a SHA-256 hash as records do.
pub fn hex(hash: &[u8]) -> String {
    let mut text = String::with_capacity(7 + hash.len() * 2);
    text.push_str("sha256:");
    for byte in hash {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// The digest of a value's canonical JSON.
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    bytes(text.as_bytes())
}

/// Canonical JSON (RFC 8785): sorted keys, no spaces, numbers as JavaScript writes them.
pub fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.push_str(&slipway_yaml::go_json_float(float)),
            None => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            // Generated definitions, the largest objects there are, are written in order already.
            if entries.keys().is_sorted_by(|a, b| compare_keys(a, b) != Ordering::Greater) {
                write_entries(entries.iter(), out);
            } else {
                let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
                entries.sort_unstable_by(|(a, _), (b, _)| compare_keys(a, b));
                write_entries(entries.into_iter(), out);
            }
            out.push('}');
        }
    }
}

fn write_entries<'e>(entries: impl Iterator<Item = (&'e String, &'e Value)>, out: &mut String) {
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(key, out);
        out.push(':');
        canonical(value, out);
    }
}

/// Orders keys by their UTF-16, which for ASCII is the order of the bytes.
fn compare_keys(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

/// Writes a text in quotes, escaped as JSON does: the shortest form there is, `\u00..` only where there is none.
fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| matches!(byte, ..b' ' | b'"' | b'\\')) {
        out.push_str(&text[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => {
                out.push_str("\\u00");
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out.push_str(&text[written..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_is_sorted_and_plain() {
        let value = serde_json::json!({"b": [1, 1.5, 1e30, true, null], "a": "é\n\"", "": {"z": 1, "y": 2}});
        let mut text = String::new();
        canonical(&value, &mut text);
        assert_eq!(text, r#"{"":{"y":2,"z":1},"a":"é\n\"","b":[1,1.5,1e+30,true,null]}"#);
    }

    #[test]
    fn keys_are_sorted_by_utf16_and_texts_escaped_as_json_does() {
        // U+1D306 is two units of UTF-16, which come before U+FF41; its bytes come after.
        let value =
            serde_json::json!({"\u{ff41}": false, "\u{1d306}": "\u{1}\u{7f}/\\", "b\"": 1, "b": -1, "": []});
        let mut text = String::new();
        canonical(&value, &mut text);
        let expected =
            "{\"\":[],\"b\":-1,\"b\\\"\":1,\"\u{1d306}\":\"\\u0001\u{7f}/\\\\\",\"\u{ff41}\":false}";
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("is JSON"), value);
    }

    #[test]
    fn texts_are_escaped_as_serde_json_escapes_them() {
        for code in (0..0x180).chain([0x2028, 0x2029, 0xfeff, 0x1f600]) {
            let value = Value::from(format!("a{0}{0}b", char::from_u32(code).expect("is a character")));
            let mut text = String::new();
            canonical(&value, &mut text);
            assert_eq!(text, value.to_string());
        }
    }
}
