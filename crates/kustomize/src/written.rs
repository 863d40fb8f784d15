//! The written form of values, where kustomize depends on it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};
use slipway_problem::Problems;
use slipway_yaml::{NodeValue as Written, ScalarStyle, YamlEmitter, YamlNode, YamlReader};

/// A document objects were read from, kept to be asked how values were written.
#[derive(Clone, Debug)]
pub(crate) struct Document(pub(crate) Arc<YamlNode>);

impl Document {
    /// Calls `visit` with the values of every field called `key`.
    fn fields<'n>(&'n self, key: &str, visit: &mut dyn FnMut(&'n YamlNode)) {
        let mut open: Vec<&YamlNode> = vec![&self.0];
        while let Some(node) = open.pop() {
            match &node.value {
                Written::Map(map) => {
                    for (name, value) in map.iter() {
                        if name.as_str() == Some(key) {
                            visit(value);
                        }
                        open.push(value);
                    }
                }
                Written::Seq(list) => open.extend(list),
                _ => {}
            }
        }
    }

    /// Returns true if the fields called `key` are in quotes: those that say `text`, or all if none does.
    pub(crate) fn is_quoted(&self, key: &str, text: &str) -> bool {
        let (mut same, mut all) = ((0, 0), (0, 0));
        self.fields(key, &mut |value| {
            let quoted = usize::from(value.is_quoted());
            all = (all.0 + 1, all.1 + quoted);
            if value.as_str() == Some(text) {
                same = (same.0 + 1, same.1 + quoted);
            }
        });
        let (count, quoted) = if same.0 > 0 { same } else { all };
        count > 0 && count == quoted
    }

    /// Returns true if a field called `key` is written as `text`, without quotes.
    pub(crate) fn says(&self, key: &str, text: &str) -> bool {
        let mut found = false;
        self.fields(key, &mut |value| found |= !value.is_quoted() && value.raw() == text);
        found
    }

    /// The text of a number or boolean under `key`, as it was written.
    pub(crate) fn text_of(&self, key: &str, wanted: &Value) -> Option<&str> {
        let mut found = None;
        self.fields(key, &mut |value| {
            if !value.is_quoted() && value.to_json() == *wanted {
                found = Some(value.raw());
            }
        });
        found
    }
}

/// The value a text stands for when it is written without quotes.
pub(crate) fn unquoted(text: &str) -> Value {
    let plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-._~".contains(letter));
    if !plain || text.is_empty() {
        return Value::String(text.to_owned());
    }
    match YamlReader::kustomize().read_one(text, "") {
        Ok(node) if node.as_map().is_none() && node.as_seq().is_none() => node.to_json(),
        _ => Value::String(text.to_owned()),
    }
}

/// Returns true if a text is in quotes, or a block, once it was written anew.
pub(crate) fn needs_quotes(text: &str) -> bool {
    YamlEmitter::pretty().emit(text).is_ok_and(|written| written.starts_with(['"', '\'', '|', '>']))
}

/// Returns true if a text that stands for a number has a fraction or an exponent.
pub(crate) fn is_float(text: &str) -> bool {
    YamlReader::kustomize().read_one(text, "").is_ok_and(|node| matches!(node.value, Written::Float(_)))
}

/// The text of a float as Go's `%v` writes it.
pub(crate) fn go_float(number: f64) -> String {
    let shortest = format!("{number:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}

/// An object's value as kustomize sees it once it has written and read it: what JSON has no word for is
/// reported.
pub(crate) fn object(node: &YamlNode, problems: &mut Problems) -> Map<String, Value> {
    let Some(map) = node.as_map() else { return Map::new() };
    let mut object = Map::new();
    for (key, value) in map.iter() {
        let value = match (key.as_str(), value.as_map()) {
            // Annotations are text, whatever they look like.
            (Some("metadata"), Some(metadata)) => Value::Object(
                metadata
                    .iter()
                    .map(|(key, value)| match key.as_str() {
                        Some("annotations") => ("annotations".to_owned(), value.to_json()),
                        _ => (key.key_text().into_owned(), value_of(value, problems)),
                    })
                    .collect(),
            ),
            _ => value_of(value, problems),
        };
        object.insert(key.key_text().into_owned(), value);
    }
    object
}

/// Recursion is bounded by the depth the reader allows.
fn value_of(node: &YamlNode, problems: &mut Problems) -> Value {
    match &node.value {
        Written::Seq(list) => Value::Array(list.iter().map(|value| value_of(value, problems)).collect()),
        Written::Map(map) => {
            for key in map.keys().filter(|key| key.as_str().is_none()) {
                let hint = format!("write it in quotes: \"{}\"", key.raw());
                problems.push(key.problem(format!("a key is a string, not {}", key.kind())).hint(hint));
            }
            let entry = |(key, value): (&YamlNode, &YamlNode)| {
                (key.key_text().into_owned(), value_of(value, problems))
            };
            Value::Object(map.iter().map(entry).collect())
        }
        Written::Float(number) if !number.is_finite() => {
            problems.push(node.problem(format!("`{}` is a number JSON does not have", node.raw())));
            Value::Null
        }
        Written::String(text) if node.style() == Some(ScalarStyle::Folded) => {
            Value::String(refolded(text).into_owned())
        }
        _ => node.to_json(),
    }
}

/// A folded text (`>`) as kustomize writes it and reads it again: a line break
/// before a deeper line, and those kept at the end, get one more.
fn refolded(text: &str) -> Cow<'_, str> {
    let is_blank = |text: &str| text.is_empty() || text.starts_with([' ', '\t']);
    let in_quotes = text.ends_with(' ')
        || text.contains(" \n")
        || text.contains(|c: char| c < ' ' && c != '\n' && c != '\t');
    if !text.contains('\n') || in_quotes || is_blank(text.trim_start_matches('\n')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 4);
    let mut rest = text;
    while let Some(end) = rest.find('\n') {
        let (line, after) = rest.split_at(end);
        let next = after.trim_start_matches('\n');
        let breaks = after.len() - next.len();
        out.push_str(line);
        out.push_str(&after[..breaks]);
        let deeper = next.starts_with([' ', '\t']);
        if !is_blank(line) && (deeper || (next.is_empty() && breaks > 1)) {
            out.push('\n');
        }
        rest = next;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_texts_change_when_written_again() {
        for (text, expected) in [
            ("a\n  b", "a\n\n  b"),
            ("a b\n", "a b\n"),
            ("a\n\n", "a\n\n\n"),
            ("a\nb\n  c\nd\n  e\n\n  f\ng\n", "a\nb\n\n  c\nd\n\n  e\n\n  f\ng\n"),
            ("\na\n  b\n", "\na\n\n  b\n"),
            (" a\nb\n  c\n", " a\nb\n  c\n"),
            ("a\n  b\n\n", "a\n\n  b\n\n"),
            ("a\n \n  b\n", "a\n \n  b\n"),
        ] {
            assert_eq!(refolded(text), expected, "{text:?}");
        }
    }

    #[test]
    fn floats_are_written_as_go_does() {
        for (number, text) in [
            (0.5, "0.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (12_345_678_901.0, "1.2345678901e+10"),
            (1e-5, "1e-05"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }

    #[test]
    fn quotes_are_remembered_by_field() {
        let read = YamlReader::kustomize().read_one("a: \"x\"\nb: x\nc: [{a: y, d: 7.50}]\n", "f").unwrap();
        let document = Document(Arc::new(read));
        assert!(document.is_quoted("a", "x"));
        assert!(!document.is_quoted("a", "y"));
        assert!(!document.is_quoted("a", "z"), "some are, some are not");
        assert!(!document.is_quoted("b", "x"));
        assert_eq!(document.text_of("d", &Value::from(7.5)), Some("7.50"));
    }
}
