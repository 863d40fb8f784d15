//! YAML at the edges: bodies come in it, answers go out in it.

use serde_json::Value;

/// Reads one document by the rules of Kubernetes' YAML library.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    slipway_yaml::from_str_helm(text).map_err(|e| e.to_string())
}

/// Prints a value.
pub(crate) fn write(value: &Value) -> String {
    slipway_yaml::to_string(value).unwrap_or_default()
}
