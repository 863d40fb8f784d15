//! The tree of a document: every node knows what it says, how it was written and where it stands.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use slipway_problem::{Location, Problem};

use crate::number;
use crate::scan::ScalarStyle;

/// The stretch of text a node was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of the first byte, counted from 1.
    pub line: u32,
    /// Column of the first byte, counted in characters from 1.
    pub column: u32,
}

/// The file a tree was read from.
#[derive(Debug)]
pub struct SourceText {
    pub file: Arc<str>,
    pub text: Box<str>,
}

/// One node of a document.
#[derive(Clone)]
pub struct YamlNode {
    pub value: NodeValue,
    pub span: Span,
    /// How it was written.
    pub form: NodeForm,
    tag: Option<Box<str>>,
    source: Arc<SourceText>,
}

/// How a node was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeForm {
    Scalar(ScalarStyle),
    /// `[…]` or `{…}`.
    Flow,
    /// Lines with `- ` or `key:`.
    Block,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    Float(f64),
    String(String),
    Seq(Vec<YamlNode>),
    Map(Mapping),
}

/// A mapping in source order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    entries: Vec<(YamlNode, YamlNode)>,
}

impl YamlNode {
    pub(crate) fn new(
        value: NodeValue,
        span: Span,
        form: NodeForm,
        tag: Option<Box<str>>,
        source: Arc<SourceText>,
    ) -> Self {
        Self { value, span, form, tag, source }
    }

    /// Where it stands.
    pub fn location(&self) -> Location {
        Location::new(Arc::clone(&self.source.file), self.span.line, self.span.column)
    }

    /// The file it was read from.
    pub fn source(&self) -> &Arc<SourceText> {
        &self.source
    }

    /// Its text as written: `1.10`, `"quoted"`, `{a: 1}`.
    pub fn raw(&self) -> &str {
        self.source.text.get(self.span.start..self.span.end).unwrap_or_default()
    }

    /// The tag it was given, in full (`tag:yaml.org,2002:str`, `!custom`).
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// A scalar's style.
    pub fn style(&self) -> Option<ScalarStyle> {
        match self.form {
            NodeForm::Scalar(style) => Some(style),
            _ => None,
        }
    }

    /// Whether it is a scalar in quotes or a block scalar, that is certainly meant as text.
    pub fn is_quoted(&self) -> bool {
        self.style().is_some_and(|style| style != ScalarStyle::Plain)
    }

    /// Starts an error about this node, with its place and line.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        self.locate(Problem::error(message))
    }

    /// Starts a warning about this node, with its place and line.
    pub fn warning(&self, message: impl Into<String>) -> Problem {
        self.locate(Problem::warning(message))
    }

    /// Adds place and line without counting lines from the top, so that many problems stay cheap.
    fn locate(&self, problem: Problem) -> Problem {
        let text = &self.source.text;
        let (before, after) = text.split_at_checked(self.span.start).unwrap_or((text, ""));
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = before.len() + after.find('\n').unwrap_or(after.len());
        let line = text[start..end].trim_end_matches('\r');
        problem.at_line(self.location(), line)
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, NodeValue::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            NodeValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            NodeValue::Int(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self.value {
            NodeValue::Int(value) => u64::try_from(value).ok(),
            NodeValue::Uint(value) => Some(value),
            _ => None,
        }
    }

    /// Any number as a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            NodeValue::Int(value) => Some(value as f64),
            NodeValue::Uint(value) => Some(value as f64),
            NodeValue::Float(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_seq(&self) -> Option<&[YamlNode]> {
        match &self.value {
            NodeValue::Seq(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Mapping> {
        match &self.value {
            NodeValue::Map(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The value of `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.as_map()?.get(key)
    }

    /// Follows keys and, in sequences, indices: `node.at(["spec", "containers", "0", "image"])`.
    pub fn at<'k>(&self, path: impl IntoIterator<Item = &'k str>) -> Option<&YamlNode> {
        path.into_iter().try_fold(self, |node, step| match &node.value {
            NodeValue::Seq(items) => items.get(step.parse::<usize>().ok()?),
            _ => node.get(step),
        })
    }

    /// A scalar as text: strings as they are, numbers as written (`1.10` stays `1.10`), no collections.
    pub fn scalar_text(&self) -> Option<Cow<'_, str>> {
        Some(match &self.value {
            NodeValue::String(text) => Cow::Borrowed(text),
            NodeValue::Bool(true) => Cow::Borrowed("true"),
            NodeValue::Bool(false) => Cow::Borrowed("false"),
            NodeValue::Null => Cow::Borrowed(""),
            NodeValue::Int(_) | NodeValue::Uint(_) | NodeValue::Float(_) if !self.is_quoted() => {
                Cow::Borrowed(self.raw())
            }
            NodeValue::Int(value) => Cow::Owned(value.to_string()),
            NodeValue::Uint(value) => Cow::Owned(value.to_string()),
            NodeValue::Float(value) => Cow::Owned(number::go_json_float(*value)),
            NodeValue::Seq(_) | NodeValue::Map(_) => return None,
        })
    }

    /// This node as a mapping key: text, with numbers and booleans as JSON would spell them.
    pub fn key_text(&self) -> Cow<'_, str> {
        match &self.value {
            NodeValue::String(text) => Cow::Borrowed(text),
            NodeValue::Null => Cow::Borrowed("null"),
            NodeValue::Bool(true) => Cow::Borrowed("true"),
            NodeValue::Bool(false) => Cow::Borrowed("false"),
            NodeValue::Int(value) => Cow::Owned(value.to_string()),
            NodeValue::Uint(value) => Cow::Owned(value.to_string()),
            NodeValue::Float(value) => Cow::Owned(number::go_float32(*value)),
            NodeValue::Seq(_) | NodeValue::Map(_) => Cow::Borrowed(self.raw()),
        }
    }

    /// What kind of thing it is, with its article, for messages: `a string`, `an integer`.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Int(_) | NodeValue::Uint(_) => "an integer",
            NodeValue::Float(_) => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::Seq(_) => "a list",
            NodeValue::Map(_) => "a mapping",
        }
    }

    /// The same as JSON. Floats without a fraction become integers, as they do in Go; `.inf` and
    /// `.nan`, which JSON lacks, become text.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            NodeValue::Null => Json::Null,
            NodeValue::Bool(value) => Json::Bool(*value),
            NodeValue::Int(value) => Json::from(*value),
            NodeValue::Uint(value) => Json::from(*value),
            NodeValue::Float(value) => match whole(*value) {
                Some(integer) => Json::from(integer),
                None => serde_json::Number::from_f64(*value)
                    .map_or_else(|| Json::String(self.raw().to_owned()), Json::Number),
            },
            NodeValue::String(text) => Json::String(text.clone()),
            NodeValue::Seq(items) => Json::Array(items.iter().map(YamlNode::to_json).collect()),
            NodeValue::Map(mapping) => Json::Object(
                mapping.iter().map(|(key, value)| (key.key_text().into_owned(), value.to_json())).collect(),
            ),
        }
    }
}

/// The integer a float stands for once it went through Go's JSON.
pub(crate) fn whole(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9.2e18;
    let plain = value.fract() == 0.0 && value.abs() < LIMIT && !(value == 0.0 && value.is_sign_negative());
    plain.then_some(value as i64)
}

/// Nodes are equal when they say the same, wherever and however they were written.
impl PartialEq for YamlNode {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl fmt::Debug for YamlNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl Mapping {
    pub(crate) fn from_entries(entries: Vec<(YamlNode, YamlNode)>) -> Self {
        Self { entries }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The key as written and the value of `key`.
    pub fn entry(&self, key: &str) -> Option<(&YamlNode, &YamlNode)> {
        self.iter().find(|(candidate, _)| match &candidate.value {
            NodeValue::String(text) => text == key,
            _ => candidate.key_text() == key,
        })
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Keys and values in source order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&YamlNode, &YamlNode)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Keys in source order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &YamlNode> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
