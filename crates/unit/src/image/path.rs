//! Ways through values, as `--set` writes them, and overlays that set what lies at their end.

use serde_json::{Map, Value};

/// The largest index of a list, as in `--set`.
const LARGEST_INDEX: usize = 65_536;

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

/// Reads a way as `--set` writes it, `a.b[0].c`, or says what is wrong with it.
pub(super) fn parse_path(text: &str) -> Result<Vec<ValueStep>, String> {
    let mut steps = Vec::new();
    for part in text.split('.') {
        let (key, mut rest) = match part.find('[') {
            Some(start) => part.split_at(start),
            None => (part, ""),
        };
        if key.is_empty() {
            return Err(format!("`{text}` has a step without a name"));
        }
        steps.push(ValueStep::Key(key.to_owned()));
        while !rest.is_empty() {
            let (index, after) = rest
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .ok_or_else(|| format!("`{text}` is not closed as `[0]` is"))?;
            let number = index.parse().ok().filter(|number| *number <= LARGEST_INDEX);
            let number =
                number.ok_or_else(|| format!("`[{index}]` is no index from 0 to {LARGEST_INDEX}"))?;
            steps.push(ValueStep::Index(number));
            rest = after;
        }
    }
    Ok(steps)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_as_they_are_shown() {
        for text in ["image", "a.b", "a.b[0].c", "a[1][2]", "a[65536]"] {
            assert_eq!(parse_path(text).map(|path| shown_path(&path)), Ok(text.to_owned()));
        }
        for (text, why) in [
            ("", "step without a name"),
            ("a..b", "step without a name"),
            ("[0]", "step without a name"),
            ("a[x].b", "`[x]` is no index"),
            ("a[-1]", "`[-1]` is no index"),
            ("a[65537]", "no index from 0 to 65536"),
            ("a[0", "not closed"),
            ("a[0]b", "not closed"),
        ] {
            let found = parse_path(text).expect_err(text);
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
