//! The type a value alone gives a parameter, and the node every later phase adds to.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::overlay::TextFormat;
use crate::params::{ParamData, ParamValue};

/// The schema of one parameter while it is being put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaNode {
    /// JSON Schema keywords other than those below.
    pub(crate) keywords: Map<String, Json>,
    pub(crate) properties: BTreeMap<String, SchemaNode>,
    pub(crate) items: Option<Box<SchemaNode>>,
    /// The schema of keys the package does not name.
    pub(crate) rest: Option<Box<SchemaNode>>,
    /// Keys a Kubernetes type declares besides those the package names.
    pub(crate) declared: Vec<String>,
    /// Keys the package does not name are welcome.
    pub(crate) open: bool,
    /// Keys the package does not name are a mistake.
    pub(crate) closed: bool,
    pub(crate) required: Vec<String>,
    pub(crate) traced: bool,
    pub(crate) manual: bool,
    pub(crate) used_by: Vec<String>,
    /// The type the fields it goes to ask for, and the usage that asked first.
    pub(crate) demand: Option<(DemandedType, String)>,
    /// The form its text must have.
    pub(crate) format: Option<TextFormat>,
}

/// A type a field needs and no cast can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemandedType {
    Boolean,
    Integer,
    Number,
    Map,
    List,
}

impl DemandedType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Map => "object",
            Self::List => "array",
        }
    }
}

/// Guesses from the resolved package value. Depth is limited when parameters are resolved.
pub(crate) fn infer_node(key: &str, param: &ParamValue) -> SchemaNode {
    let mut node = SchemaNode::default();
    let secret = {
        let key = key.to_ascii_lowercase();
        ["password", "token", "secret"].iter().any(|word| key.contains(word))
    };
    match &param.data {
        ParamData::Map(map) => {
            node.keywords.insert("type".to_owned(), json!("object"));
            node.open = map.is_empty();
            node.properties = map.iter().map(|(key, value)| (key.clone(), infer_node(key, value))).collect();
            return node;
        }
        ParamData::List(items) => {
            node.keywords.insert("type".to_owned(), json!("array"));
            let nodes: Vec<SchemaNode> = items.iter().map(|item| infer_node(key, item)).collect();
            let mut types = nodes.iter().map(|node| node.keywords.get("type"));
            let first = types.next().flatten();
            let uniform = first.is_some() && types.all(|kind| kind == first);
            node.items = Some(Box::new(if uniform { union_of(nodes) } else { SchemaNode::default() }));
        }
        ParamData::Bool(_) => {
            node.keywords.insert("type".to_owned(), json!("boolean"));
        }
        ParamData::Number(number) => {
            let kind = if number.float { "number" } else { "integer" };
            node.keywords.insert("type".to_owned(), json!(kind));
        }
        ParamData::Text(text) => {
            node.keywords.insert("type".to_owned(), json!("string"));
            if is_quantity(key, text) {
                node.format = Some(TextFormat::Quantity);
            } else if is_duration(text) {
                node.keywords.insert("pattern".to_owned(), json!(r"^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$"));
            }
        }
        ParamData::Null | ParamData::Broken => return node,
    }
    if !secret {
        node.keywords.insert("default".to_owned(), param.to_json());
    }
    node
}

fn union_of(nodes: Vec<SchemaNode>) -> SchemaNode {
    let mut nodes = nodes.into_iter();
    let mut all = nodes.next().unwrap_or_default();
    all.keywords.shift_remove("default");
    for node in nodes {
        if node.format != all.format {
            all.format = None;
        }
        for (key, value) in node.properties {
            all.properties.entry(key).or_insert(value);
        }
    }
    for property in all.properties.values_mut() {
        property.keywords.shift_remove("default");
    }
    all
}

/// A binary suffix is a quantity everywhere, other forms only under a telling key.
fn is_quantity(key: &str, text: &str) -> bool {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().any(|suffix| text.ends_with(suffix));
    let key = key.to_ascii_lowercase();
    let telling = ["cpu", "memory", "storage", "size"].iter().any(|word| key.contains(word));
    (binary || telling) && !text.is_empty() && TextFormat::Quantity.check(text).is_none()
}

/// `5m` could be minutes or a thousandth: only what is certain counts.
fn is_duration(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && matches!(unit, "ns" | "us" | "ms" | "s" | "h")
}
