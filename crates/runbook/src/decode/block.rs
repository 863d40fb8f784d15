//! Taking typed fields out of a mapping, with every mistake on the way.

use std::cell::RefCell;
use std::time::Duration;

use slipway_go::time::{self, DurationError};
use slipway_problem::Problem;
use slipway_yaml::{Mapping, NodeValue, YamlNode};

use crate::diagnostic::{At, Findings};

/// A mapping of the document that is being read.
pub(crate) struct Block<'n, 'f> {
    pub(crate) node: &'n YamlNode,
    pub(crate) at: At<'n>,
    pub(crate) findings: &'f Findings<'f>,
    entries: Option<&'n Mapping>,
    known: RefCell<Vec<&'static str>>,
}

impl<'n, 'f> Block<'n, 'f> {
    /// Starts reading a node that must be a mapping; null is an empty one.
    pub(crate) fn new(node: &'n YamlNode, at: At<'n>, findings: &'f Findings<'f>) -> Self {
        let entries = node.as_map();
        if entries.is_none() && !node.is_null() {
            let problem = Problem::error(format!("expected a mapping, found {}", node.kind()));
            findings.add(node, &at, "E008", problem);
        }
        Self { node, at, findings, entries, known: RefCell::default() }
    }

    /// The value of a key, if it is there and not null.
    pub(crate) fn get(&self, key: &'static str) -> Option<&'n YamlNode> {
        self.raw(key).filter(|node| !node.is_null())
    }

    /// The value of a key, null or not.
    pub(crate) fn raw(&self, key: &'static str) -> Option<&'n YamlNode> {
        self.known.borrow_mut().push(key);
        self.entries?.get(key)
    }

    /// The key itself, for findings about its presence.
    pub(crate) fn key(&self, key: &str) -> &'n YamlNode {
        self.entries.and_then(|entries| entries.entry(key)).map_or(self.node, |(key, _)| key)
    }

    /// The place a missing field would have: the block's first key, or the block if it has none.
    fn opening(&self) -> &'n YamlNode {
        self.entries.and_then(|entries| entries.keys().next()).unwrap_or(self.node)
    }

    pub(crate) fn error(&self, node: &YamlNode, key: &str, code: &str, message: impl Into<String>) {
        self.report(node, key, code, Problem::error(message));
    }

    pub(crate) fn report(&self, node: &YamlNode, key: &str, code: &str, problem: Problem) {
        let at = if key.is_empty() { self.at.clone() } else { self.at.field(key) };
        self.findings.add(node, &at, code, problem);
    }

    /// Reports that something is not there.
    pub(crate) fn missing(&self, code: &str, problem: Problem) {
        self.report(self.opening(), "", code, problem);
    }

    fn wrong_type(&self, node: &YamlNode, key: &str, expected: &str) {
        let mut problem = Problem::error(format!("{key} must be {expected}, found {}", node.kind()));
        let plain = matches!(
            node.value,
            NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Uint(_) | NodeValue::Float(_)
        );
        if plain && expected == "a string" {
            problem = problem.hint(format!("quote it: \"{}\"", node.raw()));
        }
        self.report(node, key, "E008", problem);
    }

    pub(crate) fn string(&self, key: &'static str) -> Option<(&'n YamlNode, &'n str)> {
        let node = self.get(key)?;
        let text = node.as_str();
        if text.is_none() {
            self.wrong_type(node, key, "a string");
        }
        Some((node, text?))
    }

    /// A string that says something.
    pub(crate) fn filled(&self, key: &'static str) -> Option<(&'n YamlNode, &'n str)> {
        self.string(key).filter(|(_, text)| !text.is_empty())
    }

    /// A name that results, events and the record show: it must not be made of a secret.
    pub(crate) fn public_name(&self, key: &'static str) -> Option<(&'n YamlNode, &'n str)> {
        let (node, text) = self.string(key)?;
        if self.findings.text().holds_secret(node.span.start..node.span.end) {
            let path = self.at.field(key).path;
            let problem = Problem::error(format!("{path} holds a secret variable, and names are shown"));
            self.report(node, key, "E108", problem.hint("build names from variables that are not secret"));
        }
        Some((node, text))
    }

    pub(crate) fn bool(&self, key: &'static str) -> Option<bool> {
        let node = self.get(key)?;
        let value = node.as_bool();
        if value.is_none() {
            self.wrong_type(node, key, "true or false");
        }
        value
    }

    pub(crate) fn retries(&self) -> Option<u32> {
        let node = self.get("retries")?;
        match node.as_i64() {
            Some(value) if value < 0 => {
                self.error(node, "retries", "E033", format!("retries must not be negative, found {value}"));
                None
            }
            // Nobody lives to see the difference.
            Some(value) => Some(u32::try_from(value).unwrap_or(u32::MAX)),
            None => {
                self.wrong_type(node, "retries", "a whole number");
                None
            }
        }
    }

    /// A duration in Go's notation.
    pub(crate) fn duration(&self, key: &'static str) -> Option<(&'n YamlNode, Duration)> {
        let node = self.get(key)?;
        let Some(text) = node.as_str() else {
            let mut problem =
                Problem::error(format!("{key}: a duration must be a string, found {}", node.kind()));
            if node.as_i64().is_some() {
                problem = problem.hint(format!("write `{0}s` or `{0}m`", node.raw()));
            }
            self.report(node, key, "E008", problem);
            return None;
        };
        match read_duration(text) {
            Ok(value) => Some((node, value)),
            Err((code, message, hint)) => {
                let mut problem = Problem::error(format!("{key}: {message}"));
                problem.hint = hint;
                self.report(node, key, code, problem);
                None
            }
        }
    }

    /// One of some words; anything else is an error of the given code.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &'static str,
        code: &str,
        words: &[(&str, T)],
        elsewhere: &[(&str, &str)],
    ) -> Option<T> {
        let (node, text) = self.string(key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            let mut problem = Problem::error(format!(
                "{} accepts only {}, found `{text}`",
                self.at.field(key).path,
                all.join(", ")
            ));
            problem = match elsewhere.iter().find(|(word, _)| *word == text) {
                Some((word, place)) => problem.hint(format!("`{word}` belongs to {place}")),
                None => problem.did_you_mean(text, words.iter().map(|(word, _)| *word)),
            };
            self.report(node, key, code, problem);
        }
        found
    }

    pub(crate) fn list(&self, key: &'static str) -> Vec<(At<'n>, &'n YamlNode)> {
        let Some(node) = self.get(key) else { return Vec::new() };
        match node.as_seq() {
            Some(items) => {
                let at = self.at.field(key);
                items.iter().enumerate().map(|(index, item)| (at.item(index), item)).collect()
            }
            None => {
                self.wrong_type(node, key, "a list");
                Vec::new()
            }
        }
    }

    pub(crate) fn strings(&self, key: &'static str) -> Vec<(&'n YamlNode, &'n str)> {
        let mut all = Vec::new();
        for (at, item) in self.list(key) {
            match item.as_str() {
                Some(text) => all.push((item, text)),
                None => {
                    let mut problem = Problem::error(format!("{key} holds strings, found {}", item.kind()));
                    if item.as_map().is_none() && item.as_seq().is_none() && !item.is_null() {
                        problem = problem.hint(format!("quote it: \"{}\"", item.raw()));
                    }
                    self.findings.add(item, &at, "E008", problem);
                }
            }
        }
        all
    }

    /// A mapping inside this one.
    pub(crate) fn block(&self, key: &'static str) -> Option<Block<'n, 'f>> {
        let node = self.get(key)?;
        Some(Block::new(node, self.at.field(key), self.findings))
    }

    /// Reports that more than one of some keys is there, at the later one.
    pub(crate) fn exclusive(&self, code: &str, keys: [&'static str; 2], message: impl Into<String>) -> bool {
        let both = keys.map(|key| self.entries.and_then(|entries| entries.entry(key)).map(|(key, _)| key));
        let [Some(first), Some(second)] = both else { return false };
        let later = if first.span.start > second.span.start { first } else { second };
        self.error(later, "", code, message);
        true
    }

    /// Reports every key nobody asked for.
    pub(crate) fn finish(self, renamed: &[(&str, &str)]) {
        let known = self.known.into_inner();
        for (key, _) in self.entries.into_iter().flat_map(Mapping::iter) {
            let name = key.key_text();
            if known.iter().any(|known| *known == name) {
                continue;
            }
            let mut problem = Problem::error(format!("unknown field `{name}`"));
            problem = match renamed.iter().find(|(old, _)| *old == name) {
                Some((_, instead)) => problem.hint(format!("it is written {instead}")),
                None => problem.did_you_mean(&name, known.iter().copied()),
            };
            if problem.hint.is_none() {
                let mut known = known.clone();
                known.sort_unstable();
                known.dedup();
                problem = problem.hint(format!("allowed here: {}", known.join(", ")));
            }
            let at = self.at.field(&name);
            self.findings.add(key, &at, "E007", problem);
        }
    }
}

type DurationFinding = (&'static str, String, Option<String>);

/// Reads a duration as Go writes it, without a sign.
fn read_duration(text: &str) -> Result<Duration, DurationFinding> {
    let hint = match time::Duration::parse(text.as_bytes()) {
        Ok(time::Duration(nanos)) => {
            let nanos = u64::try_from(nanos);
            return nanos
                .map(Duration::from_nanos)
                .map_err(|_| ("E031", format!("`{text}` is negative"), None));
        }
        Err(DurationError::MissingUnit { .. }) => "a unit is missing: write `30s` or `5m`",
        Err(DurationError::UnknownUnit { unit, .. }) if unit == b"d" => {
            "days are not known: write hours, such as `24h`"
        }
        Err(DurationError::UnknownUnit { unit, .. }) if unit == b"w" => {
            "weeks are not known: write hours, such as `168h`"
        }
        Err(_) => "write it like `90s`, `5m` or `1h30m`",
    };
    Err(("E030", format!("`{text}` is not a duration"), Some(hint.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let ok = |text: &str| read_duration(text).map(|value| value.as_millis() as u64).ok();
        assert_eq!(ok("5m"), Some(300_000));
        assert_eq!(ok("1h2m3.5s"), Some(3_723_500));
        assert_eq!(ok("0"), Some(0));
        assert_eq!(ok("500ms"), Some(500));
        assert_eq!(ok(".5s"), Some(500));
        for (text, code) in [
            ("", "E030"),
            ("5", "E030"),
            ("5d", "E030"),
            ("-5s", "E031"),
            ("s", "E030"),
            ("-", "E030"),
            ("1e9h", "E030"),
        ] {
            assert_eq!(read_duration(text).map_err(|(code, _, _)| code), Err(code), "{text}");
        }
    }
}
