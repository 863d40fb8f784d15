//! Walks a document along its type.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::names::{self, NestedSchema};
use super::node::JsonNode;
use super::scalar::{self, TypeMismatch};
use super::{DecodeError, DecodedObject};
use crate::object::json_type;
use crate::schema::{MapShape, OmitRule, ScalarType, Shape, TypeRef, zero_field, zero_value};

/// Kubernetes stops counting here, too.
const MOST_STRICT: usize = 100;

pub(super) fn decode_node(
    node: JsonNode,
    kind: TypeRef<'_>,
    source: InputOrigin,
) -> Result<DecodedObject, DecodeError> {
    let mut walk = TypedDecoder {
        source,
        strict: Vec::new(),
        path: String::new(),
        fields: Vec::new(),
        structs: Vec::new(),
        saved: None,
    };
    let object = walk.decode_value(node, kind)?;
    match walk.saved {
        Some(error) => Err(error),
        None => Ok(DecodedObject { object, strict: walk.strict }),
    }
}

/// The origin of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InputOrigin {
    /// It is read.
    Text,
    /// It was merged in memory and is converted.
    Memory,
}

struct TypedDecoder<'a> {
    source: InputOrigin,
    strict: Vec<String>,
    /// `spec.containers[0].image`
    path: String,
    /// Field names from the root, as Go's errors join them: no indices, no map keys.
    fields: Vec<String>,
    /// Types from the root, with their package.
    structs: Vec<&'a str>,
    /// The first value of another type than its field. Reading goes on after one, since a value its type
    /// reads by itself may be worse.
    saved: Option<DecodeError>,
}

impl<'a> TypedDecoder<'a> {
    fn report_strict(&mut self, what: &str, key: &str) {
        if self.strict.len() < MOST_STRICT {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.strict.push(format!("{what} field \"{}{dot}{key}\"", self.path));
        }
    }

    fn type_mismatch(&self, value: &str, go_type: &str) -> DecodeError {
        let place = match self.structs.last() {
            Some(name) => {
                let name = name.rsplit('.').next().unwrap_or_default();
                format!("Go struct field {name}.{}", self.fields.join("."))
            }
            None => "Go value".to_owned(),
        };
        DecodeError::Type(format!("json: cannot unmarshal {value} into {place} of type {go_type}"))
    }

    /// The Go type of the text at this place, where it has a name of its own.
    fn named_type(&self) -> Option<&'static str> {
        let (owner, field) = (self.structs.last()?, self.fields.last()?);
        names::string_type(owner, field)
    }

    fn decode_value(&mut self, node: JsonNode, kind: TypeRef<'a>) -> Result<Value, DecodeError> {
        match (kind.shape(), node) {
            (Shape::Any(_), node) => Ok(node.into_value()),
            (Shape::Map(shape), JsonNode::Scalar(Value::Null)) => {
                Ok(if shape.name.is_empty() { Value::Null } else { zero_value(kind) })
            }
            (Shape::List(_), JsonNode::Scalar(Value::Null)) => Ok(Value::Null),
            (Shape::Scalar(scalar), JsonNode::Scalar(Value::Null)) => Ok(scalar::zero_value(*scalar)),
            (Shape::Map(shape), JsonNode::Map(pairs)) if shape.rest.is_none() => {
                self.decode_struct(pairs, shape, kind)
            }
            (Shape::Map(shape), JsonNode::Map(pairs)) => self.decode_map(pairs, shape, kind),
            (Shape::List(list), JsonNode::List(items)) => {
                let item_kind = kind.at(list.item);
                let length = self.path.len();
                let mut decoded = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    let _ = write!(self.path, "[{index}]");
                    decoded.push(self.decode_value(item, item_kind)?);
                    self.path.truncate(length);
                }
                Ok(Value::Array(decoded))
            }
            (Shape::Scalar(scalar), node) => {
                let value = node.into_value();
                // Looked up only for an error: it takes longer than all the rest.
                let go_type = || {
                    let named = (*scalar == ScalarType::String).then(|| self.named_type()).flatten();
                    named.unwrap_or(scalar::go_type(*scalar))
                };
                if self.source == InputOrigin::Memory {
                    return scalar::convert_scalar(value, *scalar, go_type)
                        .map_err(|error| DecodeError::Type(error.into()));
                }
                let formed = scalar::normalise_scalar(value, *scalar).map_err(|misfit| match misfit {
                    TypeMismatch::Value(value) => self.type_mismatch(&value, go_type()),
                    TypeMismatch::As(value, go) => self.type_mismatch(&value, go),
                    TypeMismatch::Error(error) => DecodeError::Type(error),
                });
                match formed {
                    Err(error) if !scalar::reads_itself(*scalar) => {
                        self.saved.get_or_insert(error);
                        Ok(Value::Null)
                    }
                    formed => formed,
                }
            }
            (shape, node) if self.source == InputOrigin::Memory => {
                let given = scalar::go_kind(&node.into_value());
                Err(DecodeError::Type(match shape {
                    Shape::List(_) => format!("cannot restore slice from {given}"),
                    Shape::Map(map) if map.name.is_empty() => format!("cannot restore map from {given}"),
                    _ => format!("cannot restore struct from: {given}"),
                }))
            }
            (_, node) => {
                let mut go_type = go_type(kind);
                if let (Some(named), "[]string") = (self.named_type(), &*go_type) {
                    go_type = format!("[]{named}");
                }
                if let (Some(owner), Some(field)) = (self.structs.last(), self.fields.last()) {
                    go_type = names::collection_type(owner, field, go_type);
                }
                let error = self.type_mismatch(json_type(&node.into_value()), &go_type);
                self.saved.get_or_insert(error);
                Ok(Value::Null)
            }
        }
    }

    /// A schema inside of a schema, or what may stand in its place. Strict reading does not look inside.
    fn decode_nested(
        &mut self,
        node: JsonNode,
        nested: NestedSchema,
        schema: TypeRef<'a>,
    ) -> Result<Value, DecodeError> {
        let known = self.strict.len();
        let value = match (nested, node) {
            (_, node @ JsonNode::Map(_)) => self.decode_value(node, schema)?,
            (NestedSchema::OrList, JsonNode::List(items)) => {
                let items: Result<Vec<Value>, DecodeError> =
                    items.into_iter().map(|item| self.decode_value(item, schema)).collect();
                items?.into()
            }
            (NestedSchema::OrList, _) => Value::Null,
            (NestedSchema::OrBool, JsonNode::Scalar(value @ Value::Bool(_))) => value,
            (NestedSchema::OrBool, _) => {
                return Err(DecodeError::Type("boolean or JSON schema expected".to_owned()));
            }
        };
        self.strict.truncate(known);
        Ok(value)
    }

    fn decode_map(
        &mut self,
        pairs: Vec<(String, JsonNode)>,
        shape: &'a MapShape,
        kind: TypeRef<'a>,
    ) -> Result<Value, DecodeError> {
        let mut decoded: Vec<(String, Value)> = Vec::with_capacity(pairs.len());
        let mut places: HashMap<String, usize> = HashMap::with_capacity(pairs.len());
        let length = self.path.len();
        for (key, node) in pairs {
            if places.contains_key(&key) {
                self.report_strict("duplicate", &key);
            }
            let child = shape.field(&key).map(|field| field.shape).or(shape.rest);
            let Some(child) = child else { continue };
            self.push_key(&key);
            let value = self.decode_value(node, kind.at(child))?;
            self.path.truncate(length);
            match places.get(&key) {
                Some(&place) => decoded[place].1 = value,
                None => {
                    places.insert(key.clone(), decoded.len());
                    decoded.push((key, value));
                }
            }
        }
        // Go prints maps by key.
        decoded.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Value::Object(decoded.into_iter().collect()))
    }

    fn push_key(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn decode_struct(
        &mut self,
        pairs: Vec<(String, JsonNode)>,
        shape: &'a MapShape,
        kind: TypeRef<'a>,
    ) -> Result<Value, DecodeError> {
        let mut set: HashMap<&'a str, Value> = HashMap::with_capacity(pairs.len());
        self.structs.push(&shape.name);
        let length = self.path.len();
        let mut seen: Vec<String> = Vec::new();
        for (key, node) in pairs {
            let Some(field) = shape.field(&key) else {
                let what = if seen.contains(&key) { "duplicate" } else { "unknown" };
                self.report_strict(what, &key);
                if what == "unknown" {
                    seen.push(key);
                }
                continue;
            };
            if set.contains_key(field.name.as_str()) {
                self.report_strict("duplicate", &key);
            }
            if matches!(node, JsonNode::Scalar(Value::Null)) {
                set.entry(&field.name).or_insert(Value::Null);
                continue;
            }
            self.push_key(&key);
            let depth = self.fields.len();
            self.fields.extend(names::embedded_struct(&shape.name, &field.name).map(str::to_owned));
            self.fields.push(key);
            let value = match names::nested_schema(&shape.name, &field.name) {
                Some(nested) => self.decode_nested(node, nested, kind)?,
                None => self.decode_value(node, kind.at(field.shape))?,
            };
            self.fields.truncate(depth);
            self.path.truncate(length);
            set.insert(&field.name, value);
        }
        self.structs.pop();
        let mut decoded = Map::new();
        for field in &shape.fields {
            let value = match set.remove(field.name.as_str()) {
                None | Some(Value::Null) => zero_field(kind, field),
                Some(value) => {
                    let is_struct = kind.at(field.shape).as_map().is_some_and(|map| !map.name.is_empty());
                    let omitted = match field.omit {
                        OmitRule::Never => false,
                        OmitRule::Empty => {
                            !field.pointer
                                && !is_struct
                                && is_empty(&value, kind.at(field.shape))
                                && !names::keeps_empty_list(&shape.name, &field.name)
                        }
                        OmitRule::Zero => scalar::is_zero(&value),
                    };
                    (!omitted).then_some(value)
                }
            };
            if let Some(value) = value {
                decoded.insert(field.name.clone(), value);
            }
        }
        Ok(Value::Object(decoded))
    }
}

/// Returns true if `omitempty` drops a value that was set: a struct type such as a quantity never is empty.
fn is_empty(value: &Value, kind: TypeRef<'_>) -> bool {
    match kind.as_scalar() {
        Some(ScalarType::Quantity | ScalarType::IntOrString | ScalarType::Time | ScalarType::MicroTime) => {
            false
        }
        _ => scalar::is_zero(value),
    }
}

fn go_type(kind: TypeRef<'_>) -> String {
    match kind.shape() {
        Shape::Scalar(scalar) => scalar::go_type(*scalar).to_owned(),
        Shape::Any(_) => "interface {}".to_owned(),
        Shape::List(list) => format!("[]{}", go_type(kind.at(list.item))),
        Shape::Map(map) => match map.rest {
            Some(rest) if map.name.is_empty() => match go_type(kind.at(rest)) {
                // The only maps of quantities are amounts of resources.
                item if item == "resource.Quantity" => "v1.ResourceList".to_owned(),
                item => format!("map[string]{item}"),
            },
            _ if map.name.is_empty() => "map[string]interface {}".to_owned(),
            _ => map.name.clone(),
        },
    }
}

pub(super) fn collect_unknown(value: &Value, kind: TypeRef<'_>, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (kind.shape(), value) {
        (Shape::Map(shape), Value::Object(map)) => {
            for (key, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                match shape.field(key).map(|field| field.shape).or(shape.rest) {
                    None => found.push(format!("unknown field \"{path}{dot}{key}\"")),
                    Some(child) => {
                        let _ = write!(path, "{dot}{key}");
                        collect_unknown(value, kind.at(child), path, found);
                        path.truncate(length);
                    }
                }
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                collect_unknown(item, kind.at(list.item), path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
