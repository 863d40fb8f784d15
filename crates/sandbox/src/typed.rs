//! Decoding into a built-in type: what Go's decoder would keep, refuse and print back.

use serde_json::Value;
use slipway_manifest::decode::{convert_value, decode_value};
use slipway_manifest::schema::TypeRef;

/// A decoded object and what strict decoding has to say about it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "data.a"`.
    pub strict: Vec<String>,
}

/// Decodes `value` as `kind`. The error is the text Go's decoder gives.
pub(crate) fn decode(value: Value, kind: TypeRef<'_>, duplicates: &[String]) -> Result<Decoded, String> {
    let decoded = decode_value(value, kind).map_err(|e| e.to_string())?;
    let mut strict = decoded.strict;
    strict.extend(duplicates.iter().map(|path| format!("duplicate field {path:?}")));
    Ok(Decoded { value: decoded.object, strict })
}

/// Converts an object that was merged in memory to `kind`. The error is the text Go's conversion gives.
pub(crate) fn convert(value: Value, kind: TypeRef<'_>) -> Result<Value, String> {
    convert_value(value, kind).map(|converted| converted.object).map_err(|e| e.to_string())
}
