//! The YAML of charts: read and written as Helm does.

use serde_json::{Map, Value};
use slipway_yaml::helm;

use crate::values::make_floats;
use slipway_go::GoError;

/// Reads the first document; whole numbers stay whole. The error has Helm's words.
pub(crate) fn read_document(bytes: &[u8]) -> Result<Value, GoError> {
    helm::from_str(utf8_text(bytes)?).map_err(|error| GoError::new(error.to_string()))
}

/// Reads into any type; the error has Helm's words.
pub(crate) fn read_as<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, GoError> {
    helm::from_str(utf8_text(bytes)?).map_err(|error| GoError::new(error.to_string()))
}

/// Reads values: a map or nothing, every number a float.
pub(crate) fn read_values(bytes: &[u8]) -> Result<Map<String, Value>, GoError> {
    let mut values = slipway_yaml::map_from_str_helm(utf8_text(bytes)?).map_err(|error| error.to_string())?;
    values.values_mut().for_each(make_floats);
    Ok(values)
}

/// Writes one document as Helm does; what has no YAML form gives nothing.
pub(crate) fn write_document(value: &Value) -> String {
    slipway_yaml::to_string(value).unwrap_or_default()
}

fn utf8_text(bytes: &[u8]) -> Result<&str, GoError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let what = match error.error_len() {
            None => "incomplete UTF-8 octet sequence",
            Some(_) if bytes[error.valid_up_to()] < 0xC2 || bytes[error.valid_up_to()] > 0xF4 => {
                "invalid leading UTF-8 octet"
            }
            Some(_) => "invalid trailing UTF-8 octet",
        };
        GoError::new(format!("error converting YAML to JSON: yaml: {what}"))
    })
}
