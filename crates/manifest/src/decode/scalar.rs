//! Single values in the form Kubernetes keeps them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use super::time::{self, TimePrecision};
use crate::object::json_type;
use crate::quantity::Quantity;
use crate::schema::ScalarType;
use slipway_go::GoError;

/// A value of another type than its field, as Go's errors name it.
pub(super) enum TypeMismatch {
    /// `cannot unmarshal <this> into …`
    Value(String),
    /// The same, into another type than the scalar's name says.
    As(String, &'static str),
    /// An error of its own.
    Error(String),
}

/// The Go name of a scalar type.
pub(super) fn go_type(scalar: ScalarType) -> &'static str {
    match scalar {
        ScalarType::String => "string",
        ScalarType::Bool => "bool",
        ScalarType::Int32 => "int32",
        ScalarType::Int64 => "int64",
        ScalarType::Float => "float64",
        ScalarType::Bytes => "[]uint8",
        ScalarType::Time => "v1.Time",
        ScalarType::MicroTime => "v1.MicroTime",
        ScalarType::Duration => "v1.Duration",
        ScalarType::Quantity => "resource.Quantity",
        ScalarType::IntOrString => "intstr.IntOrString",
    }
}

/// Returns true if a Go type has its own code to read a value.
pub(super) fn reads_itself(scalar: ScalarType) -> bool {
    matches!(
        scalar,
        ScalarType::Quantity
            | ScalarType::Time
            | ScalarType::MicroTime
            | ScalarType::Duration
            | ScalarType::IntOrString
    )
}

/// The zero value a null becomes inside a list or map.
pub(super) fn zero_value(scalar: ScalarType) -> Value {
    match scalar {
        ScalarType::Bool => false.into(),
        ScalarType::Int32 | ScalarType::Int64 | ScalarType::Float | ScalarType::IntOrString => 0.into(),
        ScalarType::Quantity => "0".into(),
        ScalarType::Duration => "0s".into(),
        ScalarType::String | ScalarType::Bytes => "".into(),
        ScalarType::Time | ScalarType::MicroTime => Value::Null,
    }
}

/// Returns true if `omitempty` leaves a value out.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Returns the name Go has for the kind of a value in memory.
pub(super) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// Brings a value (not null) of an object that was merged in memory into its form. Go converts such values
/// rather than reading them: what does not fit an integer is cut, and only numbers can be mistaken.
pub(super) fn convert_scalar(
    value: Value,
    scalar: ScalarType,
    go_type: impl Fn() -> &'static str,
) -> Result<Value, GoError> {
    match (scalar, &value) {
        (ScalarType::Int32 | ScalarType::Int64, Value::Number(number)) => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64);
            match (number.as_i64().or(whole), scalar) {
                (Some(whole), ScalarType::Int32) => Ok((whole as i32).into()),
                (Some(whole), _) => Ok(whole.into()),
                (None, _) => Err(format!("cannot convert float64 to {}", go_type()).into()),
            }
        }
        // Go would make a letter of it.
        (ScalarType::String, Value::Number(number)) if number.is_i64() => {
            Err(format!("cannot convert int64 to {}", go_type()).into())
        }
        (
            ScalarType::String | ScalarType::Bool | ScalarType::Int32 | ScalarType::Int64 | ScalarType::Float,
            value,
        ) if json_type(value) != expected_type(scalar) => {
            Err(format!("unrecognized type: {}", self::go_type(scalar)).into())
        }
        (ScalarType::Bytes, value) if !value.is_string() && !value.is_array() => {
            Err(format!("cannot restore slice from {}", go_kind(value)).into())
        }
        _ => normalise_scalar(value, scalar).map_err(|misfit| match misfit {
            TypeMismatch::Error(error) if scalar == ScalarType::Bytes => {
                format!("error decoding from json: {error}").into()
            }
            TypeMismatch::Error(error) => error.into(),
            TypeMismatch::Value(value) => unmarshal_error(&value, go_type()).into(),
            TypeMismatch::As(value, go) => unmarshal_error(&value, go).into(),
        }),
    }
}

fn expected_type(scalar: ScalarType) -> &'static str {
    match scalar {
        ScalarType::String => "string",
        ScalarType::Bool => "bool",
        _ => "number",
    }
}

fn unmarshal_error(value: &str, go: &str) -> String {
    format!("json: cannot unmarshal {value} into Go value of type {go}")
}

/// Brings a value (not null) into its form.
pub(super) fn normalise_scalar(value: Value, scalar: ScalarType) -> Result<Value, TypeMismatch> {
    let misfit = |value: &Value| TypeMismatch::Value(json_type(value).to_owned());
    match (scalar, value) {
        (ScalarType::String | ScalarType::Duration, value @ Value::String(_)) => Ok(value),
        (ScalarType::Bool, value @ Value::Bool(_)) => Ok(value),
        (ScalarType::Int32, Value::Number(number)) => match number.as_i64() {
            Some(value) if i32::try_from(value).is_ok() => Ok(value.into()),
            _ => Err(TypeMismatch::Value(format!("number {number}"))),
        },
        (ScalarType::Int64, Value::Number(number)) => match number.as_i64() {
            Some(value) => Ok(value.into()),
            None => Err(TypeMismatch::Value(format!("number {number}"))),
        },
        (ScalarType::Float, Value::Number(number)) => Ok(round_number(number)),
        (ScalarType::Bytes, Value::String(text)) => normalise_base64(&text).map(Value::String),
        (ScalarType::Bytes, Value::Array(items)) => {
            let byte = |item: &Value| item.as_u64().and_then(|n| u8::try_from(n).ok());
            let data: Option<Vec<u8>> = items.iter().map(byte).collect();
            data.map(|data| STANDARD.encode(data).into()).ok_or(TypeMismatch::As("number".into(), "uint8"))
        }
        (ScalarType::Time, Value::String(text)) => normalise_time(&text, TimePrecision::Seconds),
        (ScalarType::MicroTime, Value::String(text)) => normalise_time(&text, TimePrecision::Micros),
        (ScalarType::Quantity, Value::String(text)) => normalise_quantity(&text),
        (ScalarType::Quantity, Value::Number(number)) => normalise_quantity(&number.to_string()),
        (ScalarType::IntOrString, Value::Number(number)) => {
            match number.as_i64().filter(|n| i32::try_from(*n).is_ok()) {
                Some(number) => Ok(number.into()),
                None => Err(TypeMismatch::As(format!("number {number}"), "int32")),
            }
        }
        (ScalarType::IntOrString, value @ Value::String(_)) => Ok(value),
        (ScalarType::IntOrString, other) => Err(TypeMismatch::As(json_type(&other).to_owned(), "int32")),
        (ScalarType::Quantity, other) => match normalise_quantity(&other.to_string()) {
            Err(error) => Err(error),
            Ok(_) => Err(misfit(&other)),
        },
        (ScalarType::MicroTime, other) => Err(TypeMismatch::As(json_type(&other).to_owned(), "string")),
        (ScalarType::Time, other) => Err(TypeMismatch::Error(unmarshal_error(json_type(&other), "string"))),
        (_, other) => Err(misfit(&other)),
    }
}

/// Rounds a number to a 64-bit float: big integers keep their first digits.
fn round_number(number: Number) -> Value {
    let near = number.as_f64().unwrap_or_default();
    match number.as_i128().filter(|whole| *whole != near as i128) {
        Some(_) => format!("{near}").parse().map_or(Value::Number(number), Value::Number),
        None => Value::Number(number),
    }
}

fn normalise_quantity(text: &str) -> Result<Value, TypeMismatch> {
    match Quantity::parse(text.trim()) {
        Ok(quantity) => Ok(quantity.to_string().into()),
        Err(error) => Err(TypeMismatch::Error(error.to_string())),
    }
}

fn normalise_base64(text: &str) -> Result<String, TypeMismatch> {
    let illegal = |at: usize| TypeMismatch::Error(format!("illegal base64 data at input byte {at}"));
    let kept: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    if let Some(at) = text.bytes().position(|b| !alphabet(b) && !matches!(b, b'=' | b'\r' | b'\n')) {
        return Err(illegal(at));
    }
    match STANDARD.decode(&kept) {
        Ok(data) => Ok(STANDARD.encode(data)),
        Err(_) => {
            let padding = text.bytes().position(|b| b == b'=');
            let after = padding.map(|at| at + text[at..].bytes().take_while(|b| *b == b'=').count());
            Err(illegal(match (padding, after) {
                // Something follows what was whole.
                (Some(_), Some(after)) if after % 4 == 0 && after < text.len() => after,
                (Some(at), _) => at,
                (None, _) => text.len() / 4 * 4,
            }))
        }
    }
}

fn normalise_time(text: &str, precision: TimePrecision) -> Result<Value, TypeMismatch> {
    let instant = time::parse_time(text, precision).map_err(|error| TypeMismatch::Error(error.into()))?;
    let shown = match precision {
        TimePrecision::Micros => {
            let micros = instant.subsec_nanosecond() / 1000;
            format!("{}.{micros:06}Z", instant.strftime("%Y-%m-%dT%H:%M:%S"))
        }
        TimePrecision::Seconds => instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    Ok(shown.into())
}
