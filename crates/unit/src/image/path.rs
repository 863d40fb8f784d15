//! Ways through values, as `--set` writes them, and overlays that set what lies at their end.

use serde_json::{Map, Value};

/// One step of a way through values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueStep {
    Key(String),
    Index(usize),
}

/// Prints a way through values as `--set` writes it.
pub(super) fn shown_path(path: &[ValueStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            ValueStep::Key(key) if text.is_empty() => text.push_str(key),
            ValueStep::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            ValueStep::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// Reads a way as `--set` writes it: `a.b[0].c`.
pub(super) fn parse_path(text: &str) -> Vec<ValueStep> {
    let mut steps = Vec::new();
    for part in text.split('.') {
        let (key, mut rest) = part.split_once('[').map_or((part, ""), |(key, rest)| (key, rest));
        if !key.is_empty() {
            steps.push(ValueStep::Key(key.to_owned()));
        }
        while let Some((index, after)) = rest.split_once(']') {
            steps.push(ValueStep::Index(index.parse().unwrap_or_default()));
            rest = after.trim_start_matches('[');
        }
    }
    steps
}

/// Writes a value into an overlay. A list is taken over as a whole, since an overlay replaces it.
pub(super) fn set_value(
    overlay: &mut Map<String, Value>,
    merged: &Map<String, Value>,
    path: &[ValueStep],
    value: Value,
) {
    let Some((ValueStep::Key(first), rest)) = path.split_first() else { return };
    let known = merged.get(first);
    let slot = overlay.entry(first.clone()).or_insert(Value::Null);
    fill(slot, known, rest, value);
}

fn fill(slot: &mut Value, known: Option<&Value>, path: &[ValueStep], value: Value) {
    let Some((step, rest)) = path.split_first() else {
        *slot = value;
        return;
    };
    match step {
        ValueStep::Key(key) => {
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(map) = slot {
                fill(
                    map.entry(key.clone()).or_insert(Value::Null),
                    known.and_then(|known| known.get(key)),
                    rest,
                    value,
                );
            }
        }
        ValueStep::Index(index) => {
            if !slot.is_array() {
                *slot = known
                    .filter(|known| known.is_array())
                    .cloned()
                    .unwrap_or_else(|| Value::Array(Vec::new()));
            }
            if let Value::Array(items) = slot {
                while items.len() <= *index {
                    items.push(Value::Null);
                }
                fill(&mut items[*index], known.and_then(|known| known.get(*index)), rest, value);
            }
        }
    }
}
