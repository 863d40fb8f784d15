//! Trees to typed values and back to serde: mistakes carry the place of the node they are about.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer as _, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use slipway_problem::{Problem, Problems};

use crate::node::{NodeValue, YamlNode};
use crate::number;

/// Builds a value from a node; a mistake becomes a problem at the innermost node it is about.
pub fn from_node<'de, T: Deserialize<'de>>(node: &'de YamlNode) -> Result<T, Problems> {
    T::deserialize(node).map_err(|error| error.into_problem(node).into())
}

/// The reason a node does not have the requested type.
#[derive(Debug)]
pub struct NodeError {
    message: String,
    problem: Option<Box<Problem>>,
}

impl NodeError {
    /// The same as a problem, at `node` unless a more exact place is known.
    pub fn into_problem(self, node: &YamlNode) -> Problem {
        self.problem.map_or_else(|| node.problem(self.message), |problem| *problem)
    }

    fn located_at(mut self, node: &YamlNode) -> Self {
        if self.problem.is_none() {
            self.problem = Some(Box::new(node.problem(self.message.clone())));
        }
        self
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => problem.fmt(f),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), problem: None }
    }
}

fn visit_node<'de, V: Visitor<'de>>(node: &'de YamlNode, visitor: V) -> Result<V::Value, NodeError> {
    match &node.value {
        NodeValue::Null => visitor.visit_unit(),
        NodeValue::Bool(value) => visitor.visit_bool(*value),
        NodeValue::Int(value) => visitor.visit_i64(*value),
        NodeValue::Uint(value) => visitor.visit_u64(*value),
        NodeValue::Float(value) => visitor.visit_f64(*value),
        NodeValue::String(text) => visitor.visit_borrowed_str(text),
        NodeValue::Seq(items) => visitor.visit_seq(Items(items.iter())),
        NodeValue::Map(mapping) => visitor.visit_map(Pairs { entries: mapping.iter(), value: None }),
    }
}

impl<'de> Deserializer<'de> for &'de YamlNode {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visit_node(self, visitor).map_err(|error| error.located_at(self))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self).map_err(|error: NodeError| error.located_at(self))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let result = match &self.value {
            NodeValue::Map(mapping) => visitor.visit_enum(de::value::MapAccessDeserializer::new(Pairs {
                entries: mapping.iter(),
                value: None,
            })),
            _ => visitor.visit_enum(self.key_text().into_deserializer()),
        };
        result.map_err(|error: NodeError| error.located_at(self))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> de::IntoDeserializer<'de, NodeError> for &'de YamlNode {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

struct Items<'de>(std::slice::Iter<'de, YamlNode>);

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, NodeError> {
        self.0.next().map(|node| seed.deserialize(node).map_err(|error| error.located_at(node))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Pairs<'de, I> {
    entries: I,
    value: Option<&'de YamlNode>,
}

impl<'de, I: Iterator<Item = (&'de YamlNode, &'de YamlNode)>> de::MapAccess<'de> for Pairs<'de, I> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, NodeError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Key(key)).map(Some).map_err(|error| error.located_at(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NodeError> {
        let Some(value) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(value).map_err(|error| error.located_at(value))
    }
}

/// A key: text for those who take text, a number for those who ask for one.
struct Key<'de>(&'de YamlNode);

macro_rules! numeric_keys {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
            visit_node(self.0, visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.0.key_text() {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_enum(self.0.key_text().into_deserializer())
    }

    numeric_keys! {
        deserialize_bool, deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64, deserialize_u8,
        deserialize_u16, deserialize_u32, deserialize_u64, deserialize_f32, deserialize_f64
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// A node is written as what it says; floats JSON lacks become text.
impl Serialize for YamlNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            NodeValue::Null => serializer.serialize_unit(),
            NodeValue::Bool(value) => serializer.serialize_bool(*value),
            NodeValue::Int(value) => serializer.serialize_i64(*value),
            NodeValue::Uint(value) => serializer.serialize_u64(*value),
            NodeValue::Float(value) if value.is_finite() => serializer.serialize_f64(*value),
            NodeValue::Float(value) => serializer.serialize_str(&number::go_float(*value)),
            NodeValue::String(text) => serializer.serialize_str(text),
            NodeValue::Seq(items) => serializer.collect_seq(items),
            NodeValue::Map(mapping) => {
                let mut map = serializer.serialize_map(Some(mapping.len()))?;
                for (key, value) in mapping.iter() {
                    map.serialize_entry(&key.key_text(), value)?;
                }
                map.end()
            }
        }
    }
}
