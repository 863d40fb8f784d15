//! `fieldsV1`: field sets as they stand in `metadata.managedFields`.

use serde_json::{Map, Value};

use super::PathElement;
use super::set::FieldSet;
use crate::depth;

/// The reason a `fieldsV1` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsV1Error {
    #[error(transparent)]
    TooDeep(#[from] depth::TooDeep),
    #[error("fieldsV1: `{0}` must be a map")]
    NotAMap(String),
    #[error("fieldsV1: `{0}` does not parse")]
    Element(String),
}

impl FieldSet {
    /// Reads `fieldsV1`. Elements of a kind this program does not know are left out, as Kubernetes does.
    pub fn from_fields_v1(fields: &Value) -> Result<FieldSet, FieldsV1Error> {
        depth::check_depth(fields)?;
        match fields {
            Value::Null => Ok(FieldSet::new()),
            Value::Object(map) => parse_fields(map),
            _ => Err(FieldsV1Error::NotAMap("fieldsV1".to_owned())),
        }
    }

    /// Writes `fieldsV1`, ordered exactly as a server writes it.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(write_fields(self, false))
    }
}

fn parse_fields(map: &Map<String, Value>) -> Result<FieldSet, FieldsV1Error> {
    let mut parts = Vec::with_capacity(map.len());
    for (text, below) in map {
        if text == "." {
            continue;
        }
        let Some(element) = parse_element(text)? else { continue };
        let below = match below {
            Value::Object(below) => below,
            Value::Null => &Map::new(),
            _ => return Err(FieldsV1Error::NotAMap(text.clone())),
        };
        let member = below.is_empty() || below.contains_key(".");
        parts.push((element, member, parse_fields(below)?));
    }
    Ok(FieldSet::from_parts(parts))
}

fn parse_element(text: &str) -> Result<Option<PathElement>, FieldsV1Error> {
    let bad = || FieldsV1Error::Element(text.to_owned());
    let Some((kind, rest)) = text.split_once(':') else { return Err(bad()) };
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::value(serde_json::from_str(rest).map_err(|_| bad())?),
        "i" => PathElement::Index(rest.parse().map_err(|_| bad())?),
        "k" => {
            let key: Map<String, Value> = serde_json::from_str(rest).map_err(|_| bad())?;
            PathElement::key(key.into_iter().collect())
        }
        _ => return Ok(None),
    }))
}

fn element_text(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Key(fields) => {
            let key: Map<String, Value> = fields.iter().cloned().collect();
            format!("k:{}", Value::Object(key))
        }
    }
}

fn write_fields(set: &FieldSet, own: bool) -> Map<String, Value> {
    let mut map = Map::new();
    if own && !set.is_empty() {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for node in set.nodes() {
        map.insert(element_text(&node.element), Value::Object(write_fields(&node.children, node.member)));
    }
    map
}
