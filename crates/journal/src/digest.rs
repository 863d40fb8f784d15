//! Hashes of bytes and of JSON, as records keep them.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns `sha256:` and 64 hex digits over bytes.
pub fn bytes(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// Writes a SHA-256 hash as records do.
pub fn hex(hash: &[u8]) -> String {
    let mut text = String::with_capacity(7 + hash.len() * 2);
    text.push_str("sha256:");
    for byte in hash {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
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
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.push_str(&slipway_yaml::go_json_float(float)),
            None => out.push_str(&number.to_string()),
        },
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
            let mut keys: Vec<&String> = entries.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(&entries[key], out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
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
}
