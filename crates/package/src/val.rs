//! Values as their files write them: numbers with their text, strings with their references, places.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;
use slipway_problem::{Location, Problems};
use slipway_yaml::{NodeForm, NodeValue as Yaml, YamlNode};

use crate::report::coded_error;
use crate::template::Template;

/// The place of a value: a line and column of the file or flag its layer was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuePos {
    pub line: u32,
    pub column: u32,
    /// The parameter layer; 0 outside of parameters.
    pub layer: u16,
}

/// A number and how it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenNumber {
    pub text: Arc<str>,
    pub json: serde_json::Number,
    /// Has a point or an exponent, so its text may say more than its value (`1.10`).
    pub float: bool,
}

/// A value of a file, not yet resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenValue {
    pub data: ValueData,
    pub pos: ValuePos,
    /// Written in quotes or as a block of text.
    pub quoted: bool,
    pub tag: Option<ForcedType>,
}

/// The content of a [`WrittenValue`].
#[derive(Clone, Debug, PartialEq)]
pub enum ValueData {
    Null,
    Bool(bool),
    Number(WrittenNumber),
    Text(Template),
    List(Vec<WrittenValue>),
    Map(IndexMap<String, WrittenValue>),
}

/// A type a YAML tag asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedType {
    Str,
    Int,
    Float,
    Bool,
}

/// The three shapes a value can have, besides null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueShape {
    Null,
    Scalar,
    Map,
    List,
}

impl fmt::Display for ValueShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Scalar => "a single value",
            Self::Map => "a map",
            Self::List => "a list",
        })
    }
}

/// The shape of a JSON value.
pub(crate) fn json_shape(value: &Json) -> ValueShape {
    match value {
        Json::Null => ValueShape::Null,
        Json::Object(_) => ValueShape::Map,
        Json::Array(_) => ValueShape::List,
        _ => ValueShape::Scalar,
    }
}

/// The type of a JSON value in words: `a string`, `an integer`.
pub(crate) fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(number) if number.is_f64() => "a number",
        Json::Number(_) => "an integer",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}

/// Reads a tree, given its place in its file and the treatment of references.
pub(crate) struct ValueReader<'a> {
    pub(crate) file: &'a str,
    /// Added to every line.
    pub(crate) lines: u32,
    /// Added to the columns of the first line.
    pub(crate) columns: u32,
    pub(crate) layer: u16,
}

impl ValueReader<'_> {
    fn pos(&self, node: &YamlNode) -> ValuePos {
        let column = if node.span.line == 1 { node.span.column + self.columns } else { node.span.column };
        ValuePos { line: node.span.line + self.lines, column, layer: self.layer }
    }

    fn at(&self, pos: ValuePos) -> Location {
        Location::new(self.file, pos.line, pos.column)
    }

    /// Turns a tree into a value. Depth is limited by the reader that made the tree.
    pub(crate) fn value(&self, node: &YamlNode, problems: &mut Problems) -> WrittenValue {
        let pos = self.pos(node);
        let data = match &node.value {
            Yaml::Null => ValueData::Null,
            Yaml::Bool(value) => ValueData::Bool(*value),
            Yaml::Int(value) => ValueData::Number(written_number(node.raw(), (*value).into())),
            Yaml::Uint(value) => ValueData::Number(written_number(node.raw(), (*value).into())),
            Yaml::Float(value) => match serde_json::Number::from_f64(*value) {
                Some(json) => ValueData::Number(written_number(node.raw(), json)),
                None => {
                    let message = format!("`{}` is no number Kubernetes can store", node.raw());
                    problems.push(coded_error("KR008", message).at(self.at(pos)));
                    ValueData::Null
                }
            },
            Yaml::String(text) => ValueData::Text(self.template(text, pos, problems)),
            Yaml::Seq(items) => {
                ValueData::List(items.iter().map(|item| self.value(item, problems)).collect())
            }
            Yaml::Map(mapping) => {
                let mut map = IndexMap::with_capacity(mapping.len());
                for (key, value) in mapping.iter() {
                    let mut read = self.value(value, problems);
                    // A block below its key is found by the line of the key.
                    if value.form == NodeForm::Block {
                        read.pos = self.pos(key);
                    }
                    map.insert(key_text(key), read);
                }
                ValueData::Map(map)
            }
        };
        let tag = match node.tag() {
            Some("tag:yaml.org,2002:str") => Some(ForcedType::Str),
            Some("tag:yaml.org,2002:int") => Some(ForcedType::Int),
            Some("tag:yaml.org,2002:float") => Some(ForcedType::Float),
            Some("tag:yaml.org,2002:bool") => Some(ForcedType::Bool),
            Some(other) if !other.starts_with("tag:yaml.org,2002:") => {
                problems.push(
                    coded_error("KP020", format!("the tag `{other}` means nothing here")).at(self.at(pos)),
                );
                None
            }
            _ => None,
        };
        WrittenValue { data, pos, quoted: node.is_quoted(), tag }
    }

    pub(crate) fn template(&self, text: &str, pos: ValuePos, problems: &mut Problems) -> Template {
        Template::parse(text).unwrap_or_else(|wrong| {
            problems.push(
                coded_error(wrong.code, wrong.message)
                    .at(self.at(pos))
                    .hint("write `$${` for a literal `${`"),
            );
            Template::Literal(text.to_owned())
        })
    }
}

/// A key as text; numbers keep theirs.
fn key_text(key: &YamlNode) -> String {
    let text = if key.is_null() { None } else { key.scalar_text() };
    text.unwrap_or_else(|| key.key_text()).into_owned()
}

/// A number whose text is `raw`.
pub(crate) fn written_number(raw: &str, json: serde_json::Number) -> WrittenNumber {
    let float = json.is_f64() && raw.contains(['.', 'e', 'E']);
    // `3.0` is the integer 3 to Kubernetes, but its text is kept.
    let json = match json.as_f64() {
        Some(value) if json.is_f64() && value.fract() == 0.0 && value.abs() < 9.0e15 => (value as i64).into(),
        _ => json,
    };
    WrittenNumber { text: raw.into(), json, float }
}

impl WrittenValue {
    /// Its shape.
    pub(crate) fn shape(&self) -> ValueShape {
        match self.data {
            ValueData::Null => ValueShape::Null,
            ValueData::Map(_) => ValueShape::Map,
            ValueData::List(_) => ValueShape::List,
            _ => ValueShape::Scalar,
        }
    }

    /// Calls `visit` with every text in it and its place.
    pub(crate) fn visit_templates<'v>(&'v self, visit: &mut dyn FnMut(&'v Template, ValuePos)) {
        match &self.data {
            ValueData::Text(template) => visit(template, self.pos),
            ValueData::List(items) => items.iter().for_each(|item| item.visit_templates(visit)),
            ValueData::Map(map) => map.values().for_each(|value| value.visit_templates(visit)),
            _ => {}
        }
    }

    /// As JSON, with references as their source text.
    pub(crate) fn to_json(&self) -> Json {
        match &self.data {
            ValueData::Null => Json::Null,
            ValueData::Bool(value) => Json::Bool(*value),
            ValueData::Number(number) => Json::Number(number.json.clone()),
            ValueData::Text(template) => Json::String(template.to_string()),
            ValueData::List(items) => Json::Array(items.iter().map(WrittenValue::to_json).collect()),
            ValueData::Map(map) => map.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
        }
    }

    /// A value of its own, without a place.
    pub(crate) fn from_json(value: &Json, pos: ValuePos) -> Self {
        let data = match value {
            Json::Null => ValueData::Null,
            Json::Bool(value) => ValueData::Bool(*value),
            Json::Number(json) => ValueData::Number(written_number(&json.to_string(), json.clone())),
            Json::String(text) => {
                ValueData::Text(Template::parse(text).unwrap_or_else(|_| Template::Literal(text.clone())))
            }
            Json::Array(items) => {
                ValueData::List(items.iter().map(|item| Self::from_json(item, pos)).collect())
            }
            Json::Object(map) => ValueData::Map(
                map.iter().map(|(key, value)| (key.clone(), Self::from_json(value, pos))).collect(),
            ),
        };
        Self { data, pos, quoted: matches!(value, Json::String(_)), tag: None }
    }
}
