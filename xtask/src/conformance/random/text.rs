//! Values written as YAML.

use serde_json::Value;

/// A value as block YAML; anything that is not plainly a word is quoted.
pub(super) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                out.push_str(&format!("{pad}{}:", scalar(&Value::String(key.clone()))));
                below(value, indent, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                out.push_str(&format!("{pad}-"));
                let nested = matches!(value, Value::Object(map) if !map.is_empty());
                if nested {
                    let mut inner = String::new();
                    block(value, indent + 2, &mut inner);
                    out.push(' ');
                    out.push_str(inner.trim_start());
                } else {
                    below(value, indent + 1, out);
                }
            }
        }
        other => out.push_str(&format!("{pad}{}\n", scalar(other))),
    }
}

/// What stands after a key or a dash.
fn below(value: &Value, indent: usize, out: &mut String) {
    let filled = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    if filled {
        out.push('\n');
        block(value, indent + 2, out);
    } else {
        out.push_str(&format!(" {}\n", scalar(value)));
    }
}

fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain = text.chars().all(|letter| letter.is_ascii_lowercase() || ".-/".contains(letter))
        && text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !matches!(text.as_str(), "yes" | "no" | "on" | "off" | "y" | "n" | "true" | "false" | "null");
    if plain { text.clone() } else { value.to_string() }
}
