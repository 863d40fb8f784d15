//! Target selectors: which objects a patch is for.

use regex::Regex;
use serde_json::{Map, Value};
use slipway_go::regexp;

use crate::resource::{Resource, scalar_text};
use slipway_problem::ProblemReason;

/// A regular expression that has to match whole; absent ones match everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPattern(Option<Regex>);

impl TextPattern {
    pub(crate) fn read(text: &str) -> Result<Self, ProblemReason> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let compiled = regexp::compile_text_pattern(&format!("^(?:{text})$"), 1 << 20);
        compiled
            .map(|regex| Self(Some(regex)))
            .map_err(|_| ProblemReason::from(format!("`{text}` is not a regular expression")))
    }

    pub(crate) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    fn matches(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

/// Selects the objects a patch is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetSelector {
    pub(crate) group: TextPattern,
    pub(crate) version: TextPattern,
    pub(crate) kind: TextPattern,
    pub(crate) name: TextPattern,
    pub(crate) namespace: TextPattern,
    pub(crate) labels: LabelRequirements,
    pub(crate) annotations: LabelRequirements,
}

impl TargetSelector {
    /// Names and namespaces match as they were read or as they are now, never in between.
    pub(crate) fn matches(&self, resource: &Resource) -> bool {
        let gvk = resource.gvk();
        if !self.group.matches(&gvk.group)
            || !self.version.matches(&gvk.version)
            || !self.kind.matches(&gvk.kind)
        {
            return false;
        }
        let (original, current) = (resource.original_id(), resource.current_id());
        (self.namespace.matches(original.effective_namespace())
            || self.namespace.matches(current.effective_namespace()))
            && (self.name.matches(&original.name) || self.name.matches(&current.name))
            && self.labels.hold_for(resource.labels())
            && self.annotations.hold_for(resource.annotations())
    }
}

/// A Kubernetes label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelRequirements(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl LabelRequirements {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    pub(crate) fn read(text: &str) -> Result<Self, ProblemReason> {
        split_outside_parentheses(text)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                read_requirement(part)
                    .ok_or_else(|| ProblemReason::from(format!("`{part}` is not a label selector")))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn hold_for(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels
                .and_then(|labels| labels.get(&requirement.key))
                .map(|v| scalar_text(v).unwrap_or_default());
            match (&requirement.test, value) {
                (Test::Exists, value) => value.is_some(),
                (Test::Absent, value) => value.is_none(),
                (Test::In(allowed), value) => value.is_some_and(|value| allowed.contains(&value)),
                (Test::NotIn(refused), value) => value.is_none_or(|value| !refused.contains(&value)),
                (Test::Above(limit), value) => parse_number(value).is_some_and(|number| number > *limit),
                (Test::Below(limit), value) => parse_number(value).is_some_and(|number| number < *limit),
            }
        })
    }
}

fn parse_number(value: Option<String>) -> Option<i64> {
    value.and_then(|value| value.parse().ok())
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => open = true,
            ')' => open = false,
            ',' if !open => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn read_requirement(part: &str) -> Option<Requirement> {
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
    };
    let make = |key: &str, test: Test| is_key(key).then(|| Requirement { key: key.to_owned(), test });
    if let Some(key) = part.strip_prefix('!') {
        return make(key.trim(), Test::Absent);
    }
    if let Some(set) = part.strip_suffix(')') {
        let (head, values) = set.split_once('(')?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        return match operator {
            "in" => make(key, Test::In(values)),
            "notin" => make(key, Test::NotIn(values)),
            _ => None,
        };
    }
    for (operator, test) in [
        ("!=", (|value: String| Some(Test::NotIn(vec![value]))) as fn(String) -> Option<Test>),
        ("==", |value| Some(Test::In(vec![value]))),
        ("=", |value| Some(Test::In(vec![value]))),
        (">", |value| value.parse().ok().map(Test::Above)),
        ("<", |value| value.parse().ok().map(Test::Below)),
    ] {
        if let Some((key, value)) = part.split_once(operator) {
            return make(key.trim(), test(value.trim().to_owned())?);
        }
    }
    make(part, Test::Exists)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors() {
        let labels = json!({"a": "b", "n": "5", "e": ""});
        for (text, expected) in [
            ("", true),
            ("a=b", true),
            ("a==b,n", true),
            ("a!=b", false),
            ("z!=b", true),
            ("!a", false),
            ("!z", true),
            ("a in (b, c)", true),
            ("a notin (b,c)", false),
            ("n>4,n<6", true),
            ("e=", true),
        ] {
            let read = LabelRequirements::read(text).expect(text);
            assert_eq!(read.hold_for(labels.as_object()), expected, "{text}");
        }
        for text in ["a b", "a in b", "=x", "a=>"] {
            assert!(LabelRequirements::read(text).is_err() || text == "a=>", "{text}");
        }
    }

    #[test]
    fn patterns_match_whole() {
        let pattern = TextPattern::read("Deploy.*|Service").expect("a pattern");
        for (text, expected) in
            [("Deployment", true), ("Service", true), ("Services", false), ("aService", false)]
        {
            assert_eq!(pattern.matches(text), expected, "{text}");
        }
        assert!(TextPattern::read("(").is_err());
        assert!(TextPattern::read("").expect("anything").matches("x"));
    }
}
