//! The tree of a document: every node knows what it says, how it was written and where it stands.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use slipway_problem::{Location, Problem};

use crate::number;
use crate::scan::Style;

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
pub struct Source {
    pub file: Arc<str>,
    pub text: Box<str>,
}

/// One node of a document.
#[derive(Clone)]
pub struct Node {
    pub value: Value,
    pub span: Span,
    /// How it was written.
    pub form: Form,
    tag: Option<Box<str>>,
    source: Arc<Source>,
}

/// How a node was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Scalar(Style),
    /// `[…]` or `{…}`.
    Flow,
    /// Lines with `- ` or `key:`.
    Block,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    Float(f64),
    String(String),
    Seq(Vec<Node>),
    Map(Mapping),
}

/// A mapping in source order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    entries: Vec<(Node, Node)>,
}

impl Node {
    pub(crate) fn new(
        value: Value,
        span: Span,
        form: Form,
        tag: Option<Box<str>>,
        source: Arc<Source>,
    ) -> Self {
        Self { value, span, form, tag, source }
    }

    /// Where it stands.
    pub fn location(&self) -> Location {
        Location::new(Arc::clone(&self.source.file), self.span.line, self.span.column)
    }

    /// The file it was read from.
    pub fn source(&self) -> &Arc<Source> {
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
    pub fn style(&self) -> Option<Style> {
        match self.form {
            Form::Scalar(style) => Some(style),
            _ => None,
        }
    }

    /// Whether it is a scalar in quotes or a block scalar, that is certainly meant as text.
    pub fn is_quoted(&self) -> bool {
        self.style().is_some_and(|style| style != Style::Plain)
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
        matches!(self.value, Value::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self.value {
            Value::Int(value) => u64::try_from(value).ok(),
            Value::Uint(value) => Some(value),
            _ => None,
        }
    }

    /// Any number as a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            Value::Int(value) => Some(value as f64),
            Value::Uint(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_seq(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Seq(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Map(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The value of `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// Follows keys and, in sequences, indices: `node.at(["spec", "containers", "0", "image"])`.
    pub fn at<'k>(&self, path: impl IntoIterator<Item = &'k str>) -> Option<&Node> {
        path.into_iter().try_fold(self, |node, step| match &node.value {
            Value::Seq(items) => items.get(step.parse::<usize>().ok()?),
            _ => node.get(step),
        })
    }

    /// A scalar as text: strings as they are, numbers as written (`1.10` stays `1.10`), no collections.
    pub fn scalar_text(&self) -> Option<Cow<'_, str>> {
        Some(match &self.value {
            Value::String(text) => Cow::Borrowed(text),
            Value::Bool(true) => Cow::Borrowed("true"),
            Value::Bool(false) => Cow::Borrowed("false"),
            Value::Null => Cow::Borrowed(""),
            Value::Int(_) | Value::Uint(_) | Value::Float(_) if !self.is_quoted() => {
                Cow::Borrowed(self.raw())
            }
            Value::Int(value) => Cow::Owned(value.to_string()),
            Value::Uint(value) => Cow::Owned(value.to_string()),
            Value::Float(value) => Cow::Owned(number::go_json_float(*value)),
            Value::Seq(_) | Value::Map(_) => return None,
        })
    }

    /// This node as a mapping key: text, with numbers and booleans as JSON would spell them.
    pub fn key_text(&self) -> Cow<'_, str> {
        match &self.value {
            Value::String(text) => Cow::Borrowed(text),
            Value::Null => Cow::Borrowed("null"),
            Value::Bool(true) => Cow::Borrowed("true"),
            Value::Bool(false) => Cow::Borrowed("false"),
            Value::Int(value) => Cow::Owned(value.to_string()),
            Value::Uint(value) => Cow::Owned(value.to_string()),
            Value::Float(value) => Cow::Owned(number::go_float32(*value)),
            Value::Seq(_) | Value::Map(_) => Cow::Borrowed(self.raw()),
        }
    }

    /// What kind of thing it is, with its article, for messages: `a string`, `an integer`.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Uint(_) => "an integer",
            Value::Float(_) => "a number",
            Value::String(_) => "a string",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The same as JSON. Floats without a fraction become integers, as they do in Go; `.inf` and
    /// `.nan`, which JSON lacks, become text.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Uint(value) => Json::from(*value),
            Value::Float(value) => match whole(*value) {
                Some(integer) => Json::from(integer),
                None => serde_json::Number::from_f64(*value)
                    .map_or_else(|| Json::String(self.raw().to_owned()), Json::Number),
            },
            Value::String(text) => Json::String(text.clone()),
            Value::Seq(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(mapping) => Json::Object(
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
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl Mapping {
    pub(crate) fn from_entries(entries: Vec<(Node, Node)>) -> Self {
        Self { entries }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The key as written and the value of `key`.
    pub fn entry(&self, key: &str) -> Option<(&Node, &Node)> {
        self.iter().find(|(candidate, _)| match &candidate.value {
            Value::String(text) => text == key,
            _ => candidate.key_text() == key,
        })
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Keys and values in source order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Node, &Node)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Keys in source order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
