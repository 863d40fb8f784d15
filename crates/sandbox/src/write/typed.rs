//! Decoding into a built-in type: what Go's decoder would keep, refuse and print back.

use serde_json::Value;
use slipway_go::GoError;
use slipway_manifest::decode::{self, DecodeError, convert_value, decode_value};
use slipway_manifest::schema::TypeRef;

/// A decoded object and what strict decoding has to say about it.
#[derive(Debug)]
pub(crate) struct DecodedObject {
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "data.a"`.
    pub strict: Vec<String>,
}

/// Decodes `value` as `kind`. The error is the text Go's decoder gives.
pub(crate) fn decode_typed(
    value: Value,
    kind: TypeRef<'_>,
    duplicates: &[String],
) -> Result<DecodedObject, GoError> {
    with_duplicates(decode_value(value, kind), duplicates)
}

/// The same of a value that was merged in memory: Go converts it, and words its errors differently.
pub(crate) fn convert_merged(
    value: Value,
    kind: TypeRef<'_>,
    duplicates: &[String],
) -> Result<DecodedObject, GoError> {
    with_duplicates(convert_value(value, kind), duplicates)
}

fn with_duplicates(
    decoded: Result<decode::DecodedObject, DecodeError>,
    duplicates: &[String],
) -> Result<DecodedObject, GoError> {
    let decode::DecodedObject { object, mut strict } = decoded.map_err(|e| e.to_string())?;
    strict.extend(duplicates.iter().map(|path| format!("duplicate field {path:?}")));
    Ok(DecodedObject { value: object, strict })
}
