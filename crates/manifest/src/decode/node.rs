//! JSON with duplicate keys kept, so that they can be reported.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// JSON text that does not parse; the text is that of Go's JSON library where it matters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(pub String);

/// A JSON value in which a key may stand twice.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonNode {
    Scalar(Value),
    List(Vec<JsonNode>),
    Map(Vec<(String, JsonNode)>),
}

impl JsonNode {
    /// Reads JSON text.
    pub fn parse(json: &[u8]) -> Result<JsonNode, JsonError> {
        serde_json::from_slice(json).map_err(|error| {
            if error.is_eof() {
                return JsonError("unexpected end of JSON input".to_owned());
            }
            JsonError(error.to_string())
        })
    }

    /// Forgets duplicates: the last one wins.
    pub fn into_value(self) -> Value {
        match self {
            JsonNode::Scalar(value) => value,
            JsonNode::List(items) => Value::Array(items.into_iter().map(JsonNode::into_value).collect()),
            JsonNode::Map(pairs) => {
                Value::Object(pairs.into_iter().map(|(key, node)| (key, node.into_value())).collect())
            }
        }
    }
}

impl From<Value> for JsonNode {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => JsonNode::List(items.into_iter().map(JsonNode::from).collect()),
            Value::Object(map) => {
                JsonNode::Map(map.into_iter().map(|(key, value)| (key, JsonNode::from(value))).collect())
            }
            scalar => JsonNode::Scalar(scalar),
        }
    }
}

impl<'de> Deserialize<'de> for JsonNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = JsonNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<JsonNode, E> {
        Ok(JsonNode::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(JsonNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<JsonNode, A::Error> {
        let mut map = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            map.push(pair);
        }
        Ok(JsonNode::Map(map))
    }
}
