//! The forms a secret travels in.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use data_encoding::{HEXLOWER, HEXUPPER};

use super::Coverage;

/// Values below this many bytes would shred ordinary text.
pub(super) const SHORTEST_FORM: usize = 6;
/// Lines of a multi-line secret (a key, a kubeconfig) from this length on are secrets themselves.
const LINE: usize = 8;
/// A piece of encoded text must be this long to be told from chance.
const CORE: usize = 8;

/// Words no output can do without.
const COMMON: &[&str] = &[
    "true",
    "false",
    "null",
    "none",
    "yes",
    "no",
    "on",
    "off",
    "admin",
    "root",
    "default",
    "user",
    "test",
    "latest",
    "password",
    "secret",
    "localhost",
    "string",
    "name",
    "value",
    "ready",
    "running",
];

/// Decides how a value can be masked without making output unreadable.
pub(super) fn coverage(secret: &[u8]) -> Coverage {
    let common = std::str::from_utf8(secret)
        .is_ok_and(|text| COMMON.iter().any(|word| word.eq_ignore_ascii_case(text.trim())));
    if secret.iter().all(u8::is_ascii_whitespace) {
        Coverage::Empty
    } else if common || (secret.len() < 8 && secret.iter().all(u8::is_ascii_digit)) {
        Coverage::WholeTextOnly
    } else if secret.len() < SHORTEST_FORM {
        Coverage::Delimited
    } else {
        Coverage::Full
    }
}

/// Every form of `secret` worth searching for.
pub(super) fn of(secret: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    add_value(secret, &mut forms);
    // `echo secret | base64` encodes the newline too, and files end with one.
    let trimmed = secret.trim_ascii_end();
    if trimmed.len() != secret.len() {
        add_value(trimmed, &mut forms);
    }
    add_base64(&[trimmed, b"\n"].concat(), &mut forms);
    for line in secret.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        let line = line.trim_ascii();
        if line.len() >= LINE && line.len() < secret.len() {
            add_value(line, &mut forms);
        }
    }
    forms.retain(|form| form.len() >= SHORTEST_FORM);
    forms
}

fn add_value(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    forms.insert(value.to_vec());
    add_base64(value, forms);
    forms.insert(HEXLOWER.encode(value).into_bytes());
    forms.insert(HEXUPPER.encode(value).into_bytes());
    for keep in [&b"-_.~"[..], b"-_.~$&+,/:;=@", b"-_.!~*'()"] {
        let encoded = percent_encoded(value, keep);
        forms.insert(encoded.replace("%20", "+").into_bytes());
        forms.insert(encoded.to_ascii_lowercase().into_bytes());
        forms.insert(encoded.into_bytes());
    }
    if let Ok(text) = std::str::from_utf8(value) {
        // Escaped once more: JSON inside of JSON, such as an annotation with the last applied configuration.
        for escapes in [JsonEscapes::Minimal, JsonEscapes::Html] {
            forms.insert(json_escaped(&json_escaped(text, escapes), escapes).into_bytes());
        }
        forms.insert(debug_escaped(&debug_escaped(text)).into_bytes());
        for escaped in [
            json_escaped(text, JsonEscapes::Minimal),
            json_escaped(text, JsonEscapes::Html),
            json_escaped(text, JsonEscapes::Ascii),
            text.replace('\'', "''"),
            text.replace('\'', r"'\''"),
            text.replace('\'', r#"'"'"'"#),
            backslashed(text, "\"\\$`!"),
            backslashed(text, " \t\n\"'\\$`!#&*()[]{}<>|;?~^=%@,:+"),
            debug_escaped(text),
        ] {
            forms.insert(escaped.into_bytes());
        }
    }
}

/// The encoded value alone, and the parts of it that stay the same when it is encoded inside a longer
/// text, for each of the three ways it can fall on base64's groups of three.
fn add_base64(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        forms.insert(engine.encode(value).into_bytes());
    }
    for phase in 0..3 {
        let shifted = [&b"\0\0"[..phase], value].concat();
        // The first characters mix with what stands before, the last with what follows.
        let from = [0, 2, 3][phase];
        let to = shifted.len() * 8 / 6;
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&shifted);
            if to >= from + CORE {
                forms.insert(encoded.as_bytes()[from..to].to_vec());
            }
        }
    }
}

fn percent_encoded(value: &[u8], keep: &[u8]) -> String {
    let mut encoded = String::with_capacity(value.len());
    for &byte in value {
        if byte.is_ascii_alphanumeric() || keep.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&HEXUPPER.encode(&[byte]));
        }
    }
    encoded
}

#[derive(Clone, Copy, PartialEq)]
enum JsonEscapes {
    Minimal,
    /// As Go's encoder does by default: `<`, `>` and `&` as `\u003c` and so on.
    Html,
    /// Everything outside ASCII as `\uXXXX`.
    Ascii,
}

fn json_escaped(text: &str, escapes: JsonEscapes) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let unicode = match character {
            '"' | '\\' => {
                escaped.push('\\');
                false
            }
            '\n' | '\r' | '\t' => {
                escaped.push_str(match character {
                    '\n' => "\\n",
                    '\r' => "\\r",
                    _ => "\\t",
                });
                continue;
            }
            '<' | '>' | '&' => escapes == JsonEscapes::Html,
            '\u{2028}' | '\u{2029}' => escapes != JsonEscapes::Minimal,
            control if control < ' ' => true,
            other => escapes == JsonEscapes::Ascii && !other.is_ascii(),
        };
        if unicode {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// The text as Rust's debug form has it, without the quotes around it.
fn debug_escaped(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_owned()
}

fn backslashed(text: &str, special: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if special.contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_cores_are_those_of_any_embedding() {
        let forms = of(b"hunter2secret");
        for core in ["aHVudGVyMnNlY3Jld", "h1bnRlcjJzZWNyZX", "odW50ZXIyc2VjcmV0"] {
            assert!(
                forms.iter().any(|form| core.as_bytes().windows(form.len()).any(|part| part == form)),
                "{core} is not covered by {:?}",
                forms.iter().map(|form| String::from_utf8_lossy(form)).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn how_well_a_value_can_be_masked() {
        for (value, expected) in [
            ("", Coverage::Empty),
            (" \n", Coverage::Empty),
            ("true", Coverage::WholeTextOnly),
            ("Admin", Coverage::WholeTextOnly),
            ("8080", Coverage::WholeTextOnly),
            ("1234567", Coverage::WholeTextOnly),
            ("12345678", Coverage::Full),
            ("s3c", Coverage::Delimited),
            ("hunter2", Coverage::Full),
        ] {
            assert_eq!(coverage(value.as_bytes()), expected, "{value:?}");
        }
    }
}
