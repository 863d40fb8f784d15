//! Single values in the form Kubernetes keeps them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use super::time::{self, Precision};
use crate::object::json_type;
use crate::quantity::Quantity;
use crate::schema::Scalar;

/// What a value that does not fit is called in Go's errors, or the whole error.
pub(super) enum Misfit {
    /// `cannot unmarshal <this> into …`
    Value(String),
    /// The same, into another type than the scalar's name says.
    As(String, &'static str),
    /// An error of its own.
    Error(String),
}

/// The Go name of a scalar type.
pub(super) fn go_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "string",
        Scalar::Bool => "bool",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Float => "float64",
        Scalar::Bytes => "[]uint8",
        Scalar::Time => "v1.Time",
        Scalar::MicroTime => "v1.MicroTime",
        Scalar::Duration => "v1.Duration",
        Scalar::Quantity => "resource.Quantity",
        Scalar::IntOrString => "intstr.IntOrString",
    }
}

/// Whether a type has its own way to read a value.
pub(super) fn reads_itself(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::Duration | Scalar::IntOrString
    )
}

/// The zero value a null becomes inside a list or map.
pub(super) fn zero(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Bool => false.into(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float | Scalar::IntOrString => 0.into(),
        Scalar::Quantity => "0".into(),
        Scalar::Duration => "0s".into(),
        Scalar::String | Scalar::Bytes => "".into(),
        Scalar::Time | Scalar::MicroTime => Value::Null,
    }
}

/// Whether `omitempty` leaves a value out.
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

/// What Go calls the kind of a value in memory.
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
pub(super) fn convert(
    value: Value,
    scalar: Scalar,
    go_type: impl Fn() -> &'static str,
) -> Result<Value, String> {
    match (scalar, &value) {
        (Scalar::Int32 | Scalar::Int64, Value::Number(number)) => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64);
            match (number.as_i64().or(whole), scalar) {
                (Some(whole), Scalar::Int32) => Ok((whole as i32).into()),
                (Some(whole), _) => Ok(whole.into()),
                (None, _) => Err(format!("cannot convert float64 to {}", go_type())),
            }
        }
        // Go would make a letter of it.
        (Scalar::String, Value::Number(number)) if number.is_i64() => {
            Err(format!("cannot convert int64 to {}", go_type()))
        }
        (Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float, value)
            if json_type(value) != expected(scalar) =>
        {
            Err(format!("unrecognized type: {}", self::go_type(scalar)))
        }
        (Scalar::Bytes, value) if !value.is_string() && !value.is_array() => {
            Err(format!("cannot restore slice from {}", go_kind(value)))
        }
        _ => normalise(value, scalar).map_err(|misfit| match misfit {
            Misfit::Error(error) if scalar == Scalar::Bytes => format!("error decoding from json: {error}"),
            Misfit::Error(error) => error,
            Misfit::Value(value) => unread(&value, go_type()),
            Misfit::As(value, go) => unread(&value, go),
        }),
    }
}

fn expected(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "string",
        Scalar::Bool => "bool",
        _ => "number",
    }
}

fn unread(value: &str, go: &str) -> String {
    format!("json: cannot unmarshal {value} into Go value of type {go}")
}

/// Brings a value (not null) into its form.
pub(super) fn normalise(value: Value, scalar: Scalar) -> Result<Value, Misfit> {
    let misfit = |value: &Value| Misfit::Value(json_type(value).to_owned());
    match (scalar, value) {
        (Scalar::String | Scalar::Duration, value @ Value::String(_)) => Ok(value),
        (Scalar::Bool, value @ Value::Bool(_)) => Ok(value),
        (Scalar::Int32, Value::Number(number)) => match number.as_i64() {
            Some(value) if i32::try_from(value).is_ok() => Ok(value.into()),
            _ => Err(Misfit::Value(format!("number {number}"))),
        },
        (Scalar::Int64, Value::Number(number)) => match number.as_i64() {
            Some(value) => Ok(value.into()),
            None => Err(Misfit::Value(format!("number {number}"))),
        },
        (Scalar::Float, Value::Number(number)) => Ok(rounded(number)),
        (Scalar::Bytes, Value::String(text)) => bytes(&text).map(Value::String),
        (Scalar::Bytes, Value::Array(items)) => {
            let byte = |item: &Value| item.as_u64().and_then(|n| u8::try_from(n).ok());
            let data: Option<Vec<u8>> = items.iter().map(byte).collect();
            data.map(|data| STANDARD.encode(data).into()).ok_or(Misfit::As("number".into(), "uint8"))
        }
        (Scalar::Time, Value::String(text)) => time(&text, Precision::Seconds),
        (Scalar::MicroTime, Value::String(text)) => time(&text, Precision::Micros),
        (Scalar::Quantity, Value::String(text)) => quantity(&text),
        (Scalar::Quantity, Value::Number(number)) => quantity(&number.to_string()),
        (Scalar::IntOrString, Value::Number(number)) => {
            match number.as_i64().filter(|n| i32::try_from(*n).is_ok()) {
                Some(number) => Ok(number.into()),
                None => Err(Misfit::As(format!("number {number}"), "int32")),
            }
        }
        (Scalar::IntOrString, value @ Value::String(_)) => Ok(value),
        (Scalar::IntOrString, other) => Err(Misfit::As(json_type(&other).to_owned(), "int32")),
        (Scalar::Quantity, other) => match quantity(&other.to_string()) {
            Err(error) => Err(error),
            Ok(_) => Err(misfit(&other)),
        },
        (Scalar::MicroTime, other) => Err(Misfit::As(json_type(&other).to_owned(), "string")),
        (Scalar::Time, other) => Err(Misfit::Error(unread(json_type(&other), "string"))),
        (_, other) => Err(misfit(&other)),
    }
}

/// What is left of a number in 64 bits with a point: of big integers the first digits.
fn rounded(number: Number) -> Value {
    let near = number.as_f64().unwrap_or_default();
    match number.as_i128().filter(|whole| *whole != near as i128) {
        Some(_) => format!("{near}").parse().map_or(Value::Number(number), Value::Number),
        None => Value::Number(number),
    }
}

fn quantity(text: &str) -> Result<Value, Misfit> {
    match Quantity::parse(text.trim()) {
        Ok(quantity) => Ok(quantity.to_string().into()),
        Err(error) => Err(Misfit::Error(error.to_string())),
    }
}

fn bytes(text: &str) -> Result<String, Misfit> {
    let illegal = |at: usize| Misfit::Error(format!("illegal base64 data at input byte {at}"));
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

fn time(text: &str, precision: Precision) -> Result<Value, Misfit> {
    let instant = time::parse(text, precision).map_err(Misfit::Error)?;
    let shown = match precision {
        Precision::Micros => {
            let micros = instant.subsec_nanosecond() / 1000;
            format!("{}.{micros:06}Z", instant.strftime("%Y-%m-%dT%H:%M:%S"))
        }
        Precision::Seconds => instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    Ok(shown.into())
}
