//! YAML at the edges: bodies come in it, answers go out in it.

use serde_json::Value;
use slipway_go::GoError;

/// Reads one document by the rules of Kubernetes' YAML library.
pub(crate) fn read_document(text: &str) -> Result<Value, GoError> {
    slipway_yaml::from_str_helm(text).map_err(|e| GoError::new(e.to_string()))
}

/// The keys that stand twice in one mapping, each in the words of Go's library.
pub(crate) fn repeated_keys(text: &str) -> Vec<String> {
    match slipway_yaml::helm::from_str_strict::<Value>(text) {
        Ok(_) => Vec::new(),
        Err(e) => {
            let said = e.to_string();
            said.lines().map(str::trim).filter(|l| l.starts_with("line ")).map(str::to_owned).collect()
        }
    }
}

/// Prints a value.
pub(crate) fn print_value(value: &Value) -> String {
    slipway_yaml::to_string(value).unwrap_or_default()
}
