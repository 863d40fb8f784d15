//! References in values: found with their place, and replaced.
//!
//! Only string values are looked at, never keys. A string that is a reference as a whole is replaced by
//! what it stands for; `${secret://…}` inside a longer text only where [`Interpolation::On`] allows it
//! (`$${` stands for `${`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;
use slipway_problem::Problem;

use crate::place::{ProblemSubject, ReferenceProblems};
use crate::reference::{SCHEME, SecretReference, is_reference};

/// The treatment of `${secret://…}` inside of longer texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    #[default]
    Off,
    On,
}

/// A reference and its place in the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReference {
    /// The way to the value, as `--set` writes it: `db.users[0].password`.
    pub at: String,
    pub reference: SecretReference,
}

/// Finds every reference of a values tree; reports every text that is meant to be one and is wrong.
pub fn find_references(
    values: &Value,
    interpolation: Interpolation,
) -> Result<Vec<FoundReference>, ReferenceProblems> {
    let mut found = Vec::new();
    let mut problems = ReferenceProblems::default();
    visit(values, &mut String::new(), &mut |at, text| match references_of_text(text, interpolation) {
        Ok(references) => {
            let found_here =
                references.into_iter().map(|reference| FoundReference { at: at.to_owned(), reference });
            found.extend(found_here);
        }
        Err(mut problem) => {
            problem.message = format!("`{at}`: {}", problem.message);
            problems.push(ProblemSubject::Text(text.to_owned()), problem);
        }
    });
    problems.into_result(found)
}

/// Looks for the scheme of references in the texts of values, without reading any: values without references cost this.
pub fn mentions_secret(values: &serde_json::Map<String, Value>) -> bool {
    let mut pending: Vec<&Value> = values.values().collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) if mentions_scheme(text) => return true,
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values()),
            _ => {}
        }
    }
    false
}

fn mentions_scheme(text: &str) -> bool {
    const MARK: &str = "://";
    let word = &SCHEME.as_bytes()[..SCHEME.len() - MARK.len()];
    // A search for one character is the cheapest there is, and most texts have no colon.
    text.match_indices(':').any(|(at, _)| {
        let before = at.checked_sub(word.len()).and_then(|start| text.as_bytes().get(start..at));
        text[at..].starts_with(MARK) && before.is_some_and(|before| before.eq_ignore_ascii_case(word))
    })
}

/// The distinct references among those found.
pub fn distinct(found: &[FoundReference]) -> BTreeSet<SecretReference> {
    found.iter().map(|found| found.reference.clone()).collect()
}

/// Replaces every reference of a tree by what `value` gives for it. Texts that are no valid reference stay.
pub(crate) fn replace_references(
    values: &mut Value,
    interpolation: Interpolation,
    value: &mut dyn FnMut(&SecretReference) -> Option<Value>,
) {
    let mut pending = vec![values];
    while let Some(node) = pending.pop() {
        match node {
            Value::String(text) => {
                if let Some(replaced) = replaced_text(text, interpolation, value) {
                    *node = replaced;
                }
            }
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn replaced_text(
    text: &str,
    interpolation: Interpolation,
    value: &mut dyn FnMut(&SecretReference) -> Option<Value>,
) -> Option<Value> {
    match parse_text(text, interpolation).ok()? {
        ScannedText::Plain => None,
        ScannedText::Whole(reference) => value(&reference),
        ScannedText::Mixed(parts) => {
            let mut whole = String::new();
            for part in parts {
                match part {
                    TextPart::Literal(text) => whole.push_str(&text),
                    TextPart::Reference(reference) => match value(&reference)? {
                        Value::String(text) => whole.push_str(&text),
                        other => whole.push_str(&other.to_string()),
                    },
                }
            }
            Some(Value::String(whole))
        }
    }
}

/// The references of one text of the values.
pub(crate) fn references_of_text(
    text: &str,
    interpolation: Interpolation,
) -> Result<Vec<SecretReference>, Problem> {
    Ok(match parse_text(text, interpolation)? {
        ScannedText::Plain => Vec::new(),
        ScannedText::Whole(reference) => vec![reference],
        ScannedText::Mixed(parts) => {
            let references = parts.into_iter().filter_map(|part| match part {
                TextPart::Reference(reference) => Some(reference),
                TextPart::Literal(_) => None,
            });
            references.collect()
        }
    })
}

/// A text of the values, taken apart.
enum ScannedText {
    Plain,
    Whole(SecretReference),
    Mixed(Vec<TextPart>),
}

enum TextPart {
    Literal(String),
    Reference(SecretReference),
}

fn parse_text(text: &str, interpolation: Interpolation) -> Result<ScannedText, Problem> {
    if is_reference(text) {
        let reference = text.trim_end_matches('\n').parse::<SecretReference>();
        return reference.map(ScannedText::Whole).map_err(|error| error.problem());
    }
    if interpolation == Interpolation::Off || !text.contains("${") {
        return Ok(ScannedText::Plain);
    }
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        if let Some(escaped) = before.strip_suffix('$') {
            literal.push_str(escaped);
            literal.push_str("${");
            rest = &from[2..];
            continue;
        }
        literal.push_str(before);
        let inner = &from[2..];
        if !is_reference(inner) {
            literal.push_str("${");
            rest = inner;
            continue;
        }
        let Some(end) = inner.find('}') else {
            return Err(Problem::error("a secret reference that starts with `${` has no `}`")
                .hint("write `${secret://provider/path#key}`, or `$${` for the characters themselves"));
        };
        let reference = inner[..end].parse::<SecretReference>().map_err(|error| error.problem())?;
        if !literal.is_empty() {
            parts.push(TextPart::Literal(std::mem::take(&mut literal)));
        }
        parts.push(TextPart::Reference(reference));
        rest = &inner[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(TextPart::Literal(literal));
    }
    Ok(ScannedText::Mixed(parts))
}

/// Calls `see` with every string value and its place.
pub(crate) fn visit(value: &Value, at: &mut String, see: &mut dyn FnMut(&str, &str)) {
    let length = at.len();
    match value {
        Value::String(text) => see(at, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let _ = write!(at, "[{index}]");
                visit(item, at, see);
                at.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                if !at.is_empty() {
                    at.push('.');
                }
                at.push_str(&key.replace('.', "\\."));
                visit(item, at, see);
                at.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
