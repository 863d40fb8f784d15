//! Makes JSON fit the declared type: JSON has one kind of number and writes times as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;

use crate::check::Coerce;
use crate::library::{parse_duration, parse_timestamp};
use crate::value::Value;

/// The value as declared, or as it is when it cannot be made so.
pub(super) fn coerce(value: Value<'_>, to: Coerce) -> Value<'_> {
    match (&value, to) {
        (Value::Int(number), Coerce::Double) => Value::Double(*number as f64),
        (Value::Double(number), Coerce::Int) if number.trunc() == *number && number.abs() < 9.2e18 => {
            Value::Int(*number as i64)
        }
        (Value::String(text), Coerce::Timestamp) => match parse_timestamp(text) {
            Some(time) => Value::Timestamp(time),
            // A day is its first instant.
            None => match text.parse::<Date>().ok().and_then(|day| day.in_tz("UTC").ok()) {
                Some(start) => Value::Timestamp(start.timestamp()),
                None => value,
            },
        },
        (Value::String(text), Coerce::Duration) => match parse_duration(text) {
            Some(duration) => Value::Duration(duration),
            None => value,
        },
        (Value::String(text), Coerce::Bytes) => match STANDARD.decode(text.as_bytes()) {
            Ok(bytes) => Value::Bytes(bytes.into()),
            Err(_) => value,
        },
        _ => value,
    }
}
