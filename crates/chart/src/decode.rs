//! Decoding of generic values into typed fields the way Go's YAML-through-JSON decoding does it.
//!
//! A string field takes numbers and booleans by writing them out, a key matches exactly or else
//! ignoring case, null leaves the field alone, and a mismatch is worded as Go's `encoding/json` does.

use serde_json::{Map, Value};
use slipway_go::GoError;

/// Returns the name Go gives a JSON value's kind in messages.
fn go_kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

/// The kind without a number's digits, as used where no literal is shown.
fn bare_kind(value: &Value) -> String {
    match value {
        Value::Number(_) => "number".into(),
        other => go_kind(other),
    }
}

/// The wrapping every failure of the typed step gets.
fn decode_failure(message: &str) -> GoError {
    GoError::new(format!("error unmarshaling JSON: while decoding JSON: json: {message}"))
}

/// The value must be a map (or null): gives its entries.
pub(crate) fn expect_object<'v>(
    value: &'v Value,
    go_type: &str,
) -> Result<Option<&'v Map<String, Value>>, GoError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        other => Err(decode_failure(&format!(
            "cannot unmarshal {} into Go value of type {go_type}",
            bare_kind(other)
        ))),
    }
}

/// The fields of one Go struct.
pub(crate) struct StructFields<'v> {
    map: &'v Map<String, Value>,
    owner: &'static str,
    /// The text Go puts before a field's name when the struct has no name of its own.
    prefix: &'static str,
}

impl<'v> StructFields<'v> {
    /// `owner` is how Go names the struct in messages, `Metadata` or `SimpleHead`.
    pub(crate) fn new(map: &'v Map<String, Value>, owner: &'static str) -> Self {
        Self { map, owner, prefix: "" }
    }

    /// The fields of a struct without a name, reached through `prefix`.
    pub(crate) fn for_nested(map: &'v Map<String, Value>, prefix: &'static str) -> Self {
        Self { map, owner: "", prefix }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'v Value> {
        self.map
            .get(name)
            .or_else(|| {
                self.map.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            })
            .filter(|value| !value.is_null())
    }

    fn type_mismatch(&self, value: &Value, name: &str, go_type: &str) -> GoError {
        decode_failure(&format!(
            "cannot unmarshal {} into Go struct field {}.{}{name} of type {go_type}",
            bare_kind(value),
            self.owner,
            self.prefix
        ))
    }

    pub(crate) fn string_field(&self, name: &str) -> Result<String, GoError> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(value) => scalar_text(value).ok_or_else(|| self.type_mismatch(value, name, "string")),
        }
    }

    pub(crate) fn bool_field(&self, name: &str) -> Result<bool, GoError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(value) => Err(self.type_mismatch(value, name, "bool")),
        }
    }

    pub(crate) fn list_field(&self, name: &str, go_type: &str) -> Result<Option<&'v Vec<Value>>, GoError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(value) => Err(self.type_mismatch(value, name, go_type)),
        }
    }

    pub(crate) fn string_list(&self, name: &str) -> Result<Vec<String>, GoError> {
        let items = self.list_field(name, "[]string")?.map(Vec::as_slice).unwrap_or_default();
        items
            .iter()
            .map(|item| match item {
                Value::Null => Ok(String::new()),
                item => scalar_text(item).ok_or_else(|| self.type_mismatch(item, name, "string")),
            })
            .collect()
    }

    pub(crate) fn string_map(&self, name: &str) -> Result<Option<Vec<(String, String)>>, GoError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(key, value)| match value {
                    Value::Null => Ok((key.clone(), String::new())),
                    value => scalar_text(value)
                        .map(|text| (key.clone(), text))
                        .ok_or_else(|| self.type_mismatch(value, name, "string")),
                })
                .collect::<Result<Vec<_>, _>>()
                .map(Some),
            Some(value) => Err(self.type_mismatch(value, name, "map[string]string")),
        }
    }

    /// A nested struct; `go_type` is its Go type for the message.
    pub(crate) fn object_field(
        &self,
        name: &str,
        go_type: &str,
    ) -> Result<Option<&'v Map<String, Value>>, GoError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(value) => Err(self.type_mismatch(value, name, go_type)),
        }
    }

    /// A list of structs where an entry may be null.
    pub(crate) fn object_list(
        &self,
        name: &str,
        go_type: &str,
        item_type: &str,
    ) -> Result<Vec<Option<&'v Map<String, Value>>>, GoError> {
        let items = self.list_field(name, go_type)?.map(Vec::as_slice).unwrap_or_default();
        items
            .iter()
            .map(|item| match item {
                Value::Null => Ok(None),
                Value::Object(map) => Ok(Some(map)),
                item => Err(self.type_mismatch(item, name, item_type)),
            })
            .collect()
    }
}

/// A scalar written out the way the YAML layer hands it to a Go string field.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => number.to_string(),
            (_, Some(number), _) => number.to_string(),
            (.., number) => short_float(number.unwrap_or_default()),
        }),
        _ => None,
    }
}

/// Go's `%g` with the fewest digits that tell 32-bit floats apart.
fn short_float(number: f64) -> String {
    let narrow = number as f32;
    if !narrow.is_finite() {
        return format!("{}Inf", if number < 0.0 { '-' } else { '+' });
    }
    let scientific = format!("{narrow:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        return format!("{narrow}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_are_written_out_for_string_fields() {
        for (value, expected) in [
            (json!(1.10), "1.1"),
            (json!(1.0), "1"),
            (json!(7), "7"),
            (json!(true), "true"),
            (json!(1e30), "1e+30"),
            (json!(0.00001), "1e-05"),
            (json!(16777217.5), "16777218"),
        ] {
            assert_eq!(scalar_text(&value).as_deref(), Some(expected), "{value}");
        }
    }
}
