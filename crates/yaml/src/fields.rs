//! Strict reading of a mapping: take what is known, and every mistake is collected with its place.
//!
//! ```
//! use slipway_problem::Problems;
//! use slipway_yaml::{FieldReader, parse_one};
//!
//! let node = parse_one("name: web\nreplicas: two\nimagee: x\n", "stack.yaml").unwrap();
//! let mut problems = Problems::new();
//! let mut fields = FieldReader::new(&node, &mut problems);
//! let name = fields.required_str("name");
//! let replicas = fields.u64("replicas").unwrap_or(1);
//! let image = fields.str("image");
//! fields.finish();
//! assert_eq!((name, replicas, image), ("web", 1, None));
//! assert_eq!(
//!     problems.to_string(),
//!     "stack.yaml:2:11: `replicas` must be a whole number from 0, not a string\n\
//!      stack.yaml:3:1: unknown key `imagee`\n  hint: did you mean `image`?"
//! );
//! ```

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use slipway_problem::{Problem, Problems};

use crate::node::{Mapping, NodeValue, YamlNode};

/// Reads the entries of one mapping.
///
/// A key set to null counts as left out. Methods named `required_…` report a missing key and give an
/// empty value, so that reading goes on and finds the other mistakes; whoever collects the problems
/// must not use the result when there are any.
#[must_use = "call `finish` to report unknown keys"]
pub struct FieldReader<'n, 'p> {
    node: &'n YamlNode,
    mapping: Option<&'n Mapping>,
    problems: &'p mut Problems,
    known: Vec<Cow<'static, str>>,
    prefixes: Vec<&'static str>,
    open: bool,
    /// The code of unknown keys, here and in what is read inside.
    unknown_code: Option<&'static str>,
}

impl<'n, 'p> FieldReader<'n, 'p> {
    /// Starts reading `node`. Null is an empty mapping; anything else but a mapping is a problem.
    pub fn new(node: &'n YamlNode, problems: &'p mut Problems) -> Self {
        let mapping = node.as_map();
        if mapping.is_none() && !node.is_null() {
            problems.push(node.problem(format!("expected a mapping, not {}", node.kind_name())));
        }
        let (known, prefixes) = (Vec::new(), Vec::new());
        Self { node, mapping, problems, known, prefixes, open: false, unknown_code: None }
    }

    /// Gives unknown keys a code, here and in what is read inside.
    pub fn with_unknown_code(mut self, code: &'static str) -> Self {
        self.unknown_code = Some(code);
        self
    }

    /// The mapping being read.
    pub fn node(&self) -> &'n YamlNode {
        self.node
    }

    /// Returns the list of problems, for the caller's own.
    pub fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// Reports a problem with the value of `key`, or with the mapping if the key is not there.
    pub fn report_problem(&mut self, key: &str, message: impl Into<String>) {
        let problem = self.node_of(key).problem(message);
        self.problems.push(problem);
    }

    /// The node messages about `key` point to.
    pub fn node_of(&self, key: &str) -> &'n YamlNode {
        self.mapping.and_then(|mapping| mapping.get(key)).unwrap_or(self.node)
    }

    /// Returns true if `key` is there, even if null; does not make it known.
    pub fn has_key(&self, key: &str) -> bool {
        self.mapping.is_some_and(|mapping| mapping.contains_key(key))
    }

    /// The value of `key` as it stands; null counts as left out.
    pub fn optional(&mut self, key: impl Into<Cow<'static, str>>) -> Option<&'n YamlNode> {
        let key = key.into();
        let found = self.mapping.and_then(|mapping| mapping.get(&key)).filter(|node| !node.is_null());
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        found
    }

    /// The value of `key`, which must be there.
    pub fn required(&mut self, key: &'static str) -> Option<&'n YamlNode> {
        let found = self.optional(key);
        if found.is_none() && (self.mapping.is_some() || self.node.is_null()) {
            let message = if self.has_key(key) {
                format!("`{key}` is required but empty")
            } else {
                format!("missing key `{key}`")
            };
            self.report_problem(key, message);
        }
        found
    }

    fn expect_kind<T>(
        &mut self,
        key: &'static str,
        node: Option<&'n YamlNode>,
        what: &str,
        take: impl FnOnce(&'n YamlNode) -> Option<T>,
    ) -> Option<T> {
        let node = node?;
        let taken = take(node);
        if taken.is_none() {
            self.problems.push(kind_mismatch(node, key, what));
        }
        taken
    }

    /// Text.
    pub fn str(&mut self, key: &'static str) -> Option<&'n str> {
        let node = self.optional(key);
        self.expect_kind(key, node, "a string", YamlNode::as_str)
    }

    /// Text that must be there; empty if it is not.
    pub fn required_str(&mut self, key: &'static str) -> &'n str {
        let node = self.required(key);
        self.expect_kind(key, node, "a string", YamlNode::as_str).unwrap_or_default()
    }

    /// Text, owned.
    pub fn string(&mut self, key: &'static str) -> Option<String> {
        self.str(key).map(str::to_owned)
    }

    /// Any scalar as text, numbers as written.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        let node = self.optional(key);
        self.expect_kind(key, node, "a string", YamlNode::scalar_text).map(Cow::into_owned)
    }

    /// A boolean.
    pub fn bool(&mut self, key: &'static str) -> Option<bool> {
        let node = self.optional(key);
        self.expect_kind(key, node, "`true` or `false`", YamlNode::as_bool)
    }

    /// An integer.
    pub fn i64(&mut self, key: &'static str) -> Option<i64> {
        let node = self.optional(key);
        self.expect_kind(key, node, "an integer", YamlNode::as_i64)
    }

    /// An integer that is not negative.
    pub fn u64(&mut self, key: &'static str) -> Option<u64> {
        let node = self.optional(key);
        self.expect_kind(key, node, "a whole number from 0", YamlNode::as_u64)
    }

    /// A number.
    pub fn f64(&mut self, key: &'static str) -> Option<f64> {
        let node = self.optional(key);
        self.expect_kind(key, node, "a number", YamlNode::as_f64)
    }

    /// One of a few words.
    pub fn one_of<T: Clone>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let (word, node) = (self.str(key)?, self.node_of(key));
        let found = words.iter().find(|(known, _)| *known == word).map(|(_, value)| value.clone());
        if found.is_none() {
            let all: Vec<String> = words.iter().map(|(known, _)| format!("`{known}`")).collect();
            let problem = node.problem(format!("`{key}` must be {}, not `{word}`", all.join(" or ")));
            self.problems.push(problem.did_you_mean(word, words.iter().map(|(known, _)| *known)));
        }
        found
    }

    /// Text (or a number as written) parsed into a type of its own: a duration, a version, an address.
    pub fn parsed<T: FromStr<Err: Display>>(&mut self, key: &'static str) -> Option<T> {
        let text = self.text(key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.report_problem(key, format!("`{key}` is not valid: {error}"));
                None
            }
        }
    }

    /// Whatever serde makes of the value.
    pub fn typed<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        let node = self.optional(key)?;
        self.problems.collect_from(crate::from_node(node))
    }

    /// The value as JSON.
    pub fn json(&mut self, key: &'static str) -> Option<serde_json::Value> {
        self.optional(key).map(YamlNode::to_json)
    }

    /// The items of a list, each read by `read`; items it gives nothing for are left out.
    pub fn seq<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&'n YamlNode, &mut Problems) -> Option<T>,
    ) -> Vec<T> {
        let node = self.optional(key);
        let items = self.expect_kind(key, node, "a list", YamlNode::as_seq).unwrap_or_default();
        items.iter().filter_map(|item| read(item, self.problems)).collect()
    }

    /// A list of strings.
    pub fn strings(&mut self, key: &'static str) -> Vec<String> {
        self.seq(key, |item, problems| string_of(item, key, problems))
    }

    /// A list of mappings, each read by `read` and then checked for unknown keys.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut FieldReader<'n, '_>) -> Option<T>,
    ) -> Vec<T> {
        let unknown_code = self.unknown_code;
        self.seq(key, |item, problems| {
            let mut fields = FieldReader { unknown_code, ..FieldReader::new(item, problems) };
            let value = read(&mut fields);
            fields.finish();
            value
        })
    }

    /// A mapping read by `read` and then checked for unknown keys.
    pub fn fields<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut FieldReader<'n, '_>) -> T,
    ) -> Option<T> {
        let node = self.optional(key)?;
        let mut fields =
            FieldReader { unknown_code: self.unknown_code, ..FieldReader::new(node, self.problems) };
        let value = read(&mut fields);
        fields.finish();
        Some(value)
    }

    /// The entries of a mapping with free keys, each read by `read`.
    pub fn entries<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&'n YamlNode, &'n YamlNode, &mut Problems) -> Option<T>,
    ) -> Vec<T> {
        let node = self.optional(key);
        let mapping = self.expect_kind(key, node, "a mapping", YamlNode::as_map);
        mapping.map_or_else(Vec::new, |mapping| {
            mapping.iter().filter_map(|(name, value)| read(name, value, self.problems)).collect()
        })
    }

    /// A mapping of strings to strings, in source order.
    pub fn string_map(&mut self, key: &'static str) -> Vec<(String, String)> {
        self.entries(key, |name, value, problems| {
            let name = name.key_text().into_owned();
            let value = string_of(value, &name, problems)?;
            Some((name, value))
        })
    }

    /// Makes a key known without reading it.
    pub fn ignore(&mut self, key: &'static str) {
        self.known.push(key.into());
    }

    /// Lets keys that start with `prefix` pass (`x-`).
    pub fn ignore_prefix(&mut self, prefix: &'static str) {
        self.prefixes.push(prefix);
    }

    /// Lets every unknown key pass.
    pub fn ignore_unknown(&mut self) {
        self.open = true;
    }

    /// Reports that two or more of `keys` are set, which exclude each other.
    pub fn check_exclusive(&mut self, keys: &[&'static str]) {
        let mut set = keys.iter().filter(|key| !self.place_is_missing(key));
        if let (Some(first), Some(second)) = (set.next(), set.next()) {
            self.report_problem(second, format!("`{second}` and `{first}` exclude each other"));
        }
    }

    fn place_is_missing(&self, key: &str) -> bool {
        self.mapping.and_then(|mapping| mapping.get(key)).is_none_or(YamlNode::is_null)
    }

    /// Warns that `key` is set although `instead` replaced it.
    pub fn warn_deprecated(&mut self, key: &'static str, instead: &str) {
        if let Some((name, _)) = self.mapping.and_then(|mapping| mapping.entry(key)) {
            let warning = name.warning(format!("`{key}` is deprecated")).hint(format!("use {instead}"));
            self.problems.push(warning);
        }
    }

    /// Ends reading: reports the unknown keys.
    pub fn finish(self) {
        let Self { mapping: Some(mapping), problems, known, prefixes, open: false, unknown_code, .. } = self
        else {
            return;
        };
        for (key, _) in mapping.iter() {
            let name = key.key_text();
            let is_known = known.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix));
            if !is_known {
                let problem = unknown_key(key, &name, &known);
                problems.push(match unknown_code {
                    Some(code) => problem.code(code),
                    None => problem,
                });
            }
        }
    }
}

fn unknown_key(key: &YamlNode, name: &str, known: &[Cow<'static, str>]) -> Problem {
    const FEW: usize = 12;
    let problem =
        key.problem(format!("unknown key `{name}`")).did_you_mean(name, known.iter().map(AsRef::as_ref));
    if problem.hint.is_some() || known.is_empty() || known.len() > FEW {
        return problem;
    }
    let all: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
    problem.hint(format!("known keys are {}", all.join(", ")))
}

fn kind_mismatch(node: &YamlNode, key: &str, what: &str) -> Problem {
    let problem = node.problem(format!("`{key}` must be {what}, not {}", node.kind_name()));
    let meant_as_text = what == "a string" && !matches!(node.value, NodeValue::Seq(_) | NodeValue::Map(_));
    if meant_as_text && !node.raw().contains('\n') {
        return problem.hint(format!("put it in quotes: \"{}\"", node.raw()));
    }
    problem
}

fn string_of(node: &YamlNode, key: &str, problems: &mut Problems) -> Option<String> {
    let text = node.as_str().map(str::to_owned);
    if text.is_none() {
        problems.push(kind_mismatch(node, key, "a string"));
    }
    text
}
