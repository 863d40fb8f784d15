//! Values files whose scalars are encrypted one by one, everything else left as it stands.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use slipway_yaml::{NodeValue, YamlNode, YamlReader};

use super::key::EncryptionKey;
use crate::codec;
use crate::error::ChartError;

/// Decrypts an encrypted values file for use: every scalar is a string afterwards.
pub fn decrypt_to_map(text: &str, key: &EncryptionKey) -> Result<Map<String, Json>, ChartError> {
    let mut values =
        match codec::read_document(text.as_bytes()).map_err(|error| ChartError::Secret(error.into()))? {
            Json::Object(map) => map,
            Json::Null => Map::new(),
            _ => return Err(ChartError::Secret("the encrypted values are not a map".into())),
        };
    for value in values.values_mut() {
        decrypt_json(value, key)?;
    }
    Ok(values)
}

fn decrypt_json(value: &mut Json, key: &EncryptionKey) -> Result<(), ChartError> {
    match value {
        Json::Null => Ok(()),
        Json::String(text) => {
            *text = decrypt_text(key, text)?;
            Ok(())
        }
        Json::Array(items) => items.iter_mut().try_for_each(|item| decrypt_json(item, key)),
        Json::Object(map) => map.values_mut().try_for_each(|item| decrypt_json(item, key)),
        other => Err(ChartError::Secret(format!("cannot decrypt {other}: it is not a string"))),
    }
}

fn decrypt_text(key: &EncryptionKey, text: &str) -> Result<String, ChartError> {
    String::from_utf8(key.decrypt(text)?)
        .map_err(|_| ChartError::Secret("the decrypted value is not UTF-8".into()))
}

/// Encrypts every scalar of a values file; comments, order and layout stay.
pub fn encrypt_values(text: &str, key: &EncryptionKey) -> Result<String, ChartError> {
    rewrite_scalars(text, |_, node| key.encrypt(scalar_text(node)?.as_bytes()).map(hex_scalar))
}

/// Decrypts every scalar of a values file; comments, order and layout stay.
pub fn decrypt_values(text: &str, key: &EncryptionKey) -> Result<String, ChartError> {
    rewrite_scalars(text, |_, node| plain_scalar(&decrypt_text(key, text_of(node)?)?))
}

/// Decrypts with one key and encrypts with another.
pub fn rotate_values(text: &str, old: &EncryptionKey, new: &EncryptionKey) -> Result<String, ChartError> {
    rewrite_scalars(text, |_, node| new.encrypt(&old.decrypt(text_of(node)?)?).map(hex_scalar))
}

/// Encrypts an edited plain file, keeping the ciphertext of every scalar that did not change, so that
/// the difference in version control shows what did.
pub fn encrypt_edited(edited: &str, encrypted: &str, key: &EncryptionKey) -> Result<String, ChartError> {
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    rewrite_scalars(encrypted, |path, node| {
        let text = text_of(node)?;
        known.insert(path.to_owned(), (decrypt_text(key, text)?, text.to_owned()));
        Ok(String::new())
    })?;
    rewrite_scalars(edited, |path, node| {
        let text = scalar_text(node)?;
        match known.get(path) {
            Some((plain, ciphertext)) if *plain == text => Ok(hex_scalar(ciphertext.clone())),
            _ => key.encrypt(text.as_bytes()).map(hex_scalar),
        }
    })
}

/// Replaces the text of every scalar value (keys and nulls stay).
fn rewrite_scalars(
    text: &str,
    mut replace: impl FnMut(&str, &YamlNode) -> Result<String, ChartError>,
) -> Result<String, ChartError> {
    let documents = YamlReader::helm()
        .read(text, "values")
        .map_err(|problems| ChartError::Secret(problems.to_string()))?;
    let mut spans: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    for document in &documents {
        let mut pending = vec![(String::new(), document)];
        while let Some((path, node)) = pending.pop() {
            match &node.value {
                NodeValue::Null => {}
                NodeValue::Seq(items) => {
                    pending.extend(
                        items.iter().enumerate().map(|(index, item)| (format!("{path}/{index}"), item)),
                    );
                }
                NodeValue::Map(map) => {
                    pending
                        .extend(map.iter().map(|(key, value)| (format!("{path}/{}", key.key_text()), value)));
                }
                // An alias shows its target's place: once is enough.
                _ if spans.contains_key(&node.span.start) => {}
                _ => {
                    let replacement = replace(&path, node)?;
                    spans.insert(node.span.start, (node.span.end, replacement));
                }
            }
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (start, (end, replacement)) in spans {
        out.push_str(text.get(at..start).unwrap_or_default());
        out.push_str(&replacement);
        // A block scalar ends with the line break of its last line.
        if text.get(start..end).is_some_and(|old| old.ends_with('\n')) {
            out.push('\n');
        }
        at = end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Ok(out)
}

/// Returns a scalar as Go prints it.
fn scalar_text(node: &YamlNode) -> Result<String, ChartError> {
    Ok(match &node.value {
        NodeValue::String(text) => text.clone(),
        NodeValue::Bool(value) => value.to_string(),
        NodeValue::Int(value) => value.to_string(),
        NodeValue::Uint(value) => value.to_string(),
        NodeValue::Float(value) => slipway_yaml::go_float(*value),
        _ => return Err(ChartError::Secret("only scalars are encrypted".into())),
    })
}

fn text_of(node: &YamlNode) -> Result<&str, ChartError> {
    node.as_str().ok_or_else(|| {
        ChartError::Secret(format!(
            "line {}: cannot decrypt {}: it is not a string",
            node.span.line,
            node.raw()
        ))
    })
}

/// Ciphertext as a YAML scalar: plain, unless it would read as a number.
fn hex_scalar(hex: String) -> String {
    let digits = hex.bytes().filter(|byte| !byte.is_ascii_digit()).count();
    if digits <= 1 { format!("\"{hex}\"") } else { hex }
}

/// Any text as a YAML scalar on one line.
fn plain_scalar(text: &str) -> Result<String, ChartError> {
    if text.contains('\n') {
        return serde_json::to_string(text).map_err(|error| ChartError::Secret(error.to_string()));
    }
    let written = slipway_yaml::YamlEmitter::helm()
        .width(None)
        .emit(text)
        .map_err(|error| ChartError::Secret(error.to_string()))?;
    Ok(written.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "# top\na: secret # why\nb:\n  - 8080\n  - true\n  - null\n  - 1.5\nc: {d: 'x: y', e: \"\"}\nf: |\n  two\n  lines\ng: end\n";

    fn key() -> EncryptionKey {
        EncryptionKey::parse("00112233445566778899aabbccddeeff").unwrap()
    }

    #[test]
    fn scalars_are_encrypted_and_everything_else_stays() {
        let encrypted = encrypt_values(PLAIN, &key()).unwrap();
        assert!(encrypted.starts_with("# top\na: 1000"), "{encrypted}");
        assert!(encrypted.contains(" # why\nb:\n  - 1000"), "{encrypted}");
        assert!(encrypted.contains("  - null\n"), "{encrypted}");
        let map = decrypt_to_map(&encrypted, &key()).unwrap();
        assert_eq!(
            Json::Object(map),
            serde_json::json!({
                "a": "secret", "b": ["8080", "true", null, "1.5"], "c": {"d": "x: y", "e": ""},
                "f": "two\nlines\n", "g": "end"
            })
        );
        let decrypted = decrypt_values(&encrypted, &key()).unwrap();
        assert_eq!(
            decrypted,
            "# top\na: secret # why\nb:\n  - \"8080\"\n  - \"true\"\n  - null\n  - \"1.5\"\nc: {d: 'x: y', e: \"\"}\nf: \"two\\nlines\\n\"\ng: end\n"
        );
    }

    #[test]
    fn keys_rotate_and_unchanged_values_keep_their_ciphertext() {
        let new = EncryptionKey::parse("ffeeddccbbaa99887766554433221100").unwrap();
        let encrypted = encrypt_values("a: one\nb: two\n", &key()).unwrap();
        let rotated = rotate_values(&encrypted, &key(), &new).unwrap();
        assert_eq!(decrypt_values(&rotated, &new).unwrap(), "a: one\nb: two\n");
        let edited = encrypt_edited("a: one\nb: three\n", &encrypted, &key()).unwrap();
        assert_eq!(edited.lines().next(), encrypted.lines().next());
        assert_ne!(edited.lines().nth(1), encrypted.lines().nth(1));
        assert_eq!(decrypt_values(&edited, &key()).unwrap(), "a: one\nb: three\n");
        assert!(decrypt_values("a: 5\n", &key()).is_err());
    }
}
