//! Reads an object as a server does: types checked, unknown and duplicate fields noticed, every field in
//! its place and form.

mod names;
mod node;
mod protobuf;
mod scalar;
mod time;
mod typed;

use serde_json::Value;

pub use names::VOLUME_FIELDS;
pub use node::{JsonError, JsonNode};
pub use protobuf::{MAGIC as PROTOBUF_MAGIC, ProtobufError, decode_protobuf};

use self::typed::InputOrigin;
use crate::depth::{self, TooDeep};
use crate::schema::TypeRef;

/// The reason an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A value does not fit its field; the text is that of Go's JSON library.
    #[error("{0}")]
    Type(String),
}

impl DecodeError {
    /// Words it as a server answers: `ConfigMap in version "v1" cannot be handled as a ConfigMap: …`.
    pub fn cannot_be_handled(&self, kind: &str, version: &str) -> String {
        cannot_be_handled(kind, version, &self.to_string())
    }
}

fn cannot_be_handled(kind: &str, version: &str, why: &str) -> String {
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")
}

/// An object that was read, with its strict-decoding errors.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedObject {
    /// The object in Kubernetes' own form: fields in order, maps sorted, zero values as Go prints them.
    pub object: Value,
    /// `unknown field "spec.foo"`, `duplicate field "data.a"`, in the order of the document.
    pub strict: Vec<String>,
}

impl DecodedObject {
    /// Returns the answer of `fieldValidation=Strict`, if it has one: `strict decoding error: …`.
    pub fn strict_error(&self) -> Option<String> {
        (!self.strict.is_empty()).then(|| format!("strict decoding error: {}", self.strict.join(", ")))
    }

    /// [`DecodedObject::strict_error`] as a server answers a create or a replace.
    pub fn strict_answer(&self, kind: &str, version: &str) -> Option<String> {
        self.strict_error().map(|error| cannot_be_handled(kind, version, &error))
    }
}

/// Reads JSON text of a type. Unknown fields are dropped and reported; the last of duplicates wins.
pub fn decode_json(json: &[u8], kind: TypeRef<'_>) -> Result<DecodedObject, DecodeError> {
    typed::decode_node(JsonNode::parse(json)?, kind, InputOrigin::Text)
}

/// Reads a value of a type.
pub fn decode_value(value: Value, kind: TypeRef<'_>) -> Result<DecodedObject, DecodeError> {
    depth::check_depth(&value)?;
    typed::decode_node(JsonNode::from(value), kind, InputOrigin::Text)
}

/// Converts an object merged in memory, as server-side apply leaves it, to a type. Numbers too big for their
/// field are cut, as Go's conversions do; errors are worded without a place.
pub fn convert_value(value: Value, kind: TypeRef<'_>) -> Result<DecodedObject, DecodeError> {
    depth::check_depth(&value)?;
    typed::decode_node(JsonNode::from(value), kind, InputOrigin::Memory)
}

/// Names the fields of a value its type does not have, in the order of the document.
pub fn unknown_fields(value: &Value, kind: TypeRef<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if depth::check_depth(value).is_ok() {
        typed::collect_unknown(value, kind, &mut String::new(), &mut found);
    }
    found
}
