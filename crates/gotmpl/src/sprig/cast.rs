//! Sprig's conversions: anything to text, integers, floats; what counts as empty.

use crate::func::{FuncContext, FuncError};
use crate::str::GoString;
use crate::value::GoValue;
use slipway_go::strconv;

/// Text of a value: strings and byte slices as they are, the rest as `%v` prints it.
pub(super) fn strval(ctx: &mut FuncContext<'_>, value: &GoValue) -> Result<GoString, FuncError> {
    match value {
        GoValue::Str(text) | GoValue::Bytes(text) => Ok(text.clone()),
        _ => ctx.sprint_value(value).map(GoString::from),
    }
}

/// The elements of a list as text, nils left out; anything else as a single text.
pub(super) fn strings(ctx: &mut FuncContext<'_>, value: &GoValue) -> Result<Vec<GoString>, FuncError> {
    match value.elements() {
        Some(list) => {
            list.to_vec().iter().filter(|item| !item.is_nil()).map(|item| strval(ctx, item)).collect()
        }
        None if value.is_nil() => Ok(Vec::new()),
        None => Ok(vec![strval(ctx, value)?]),
    }
}

/// An integer from anything; what cannot be read is zero.
pub(super) fn to_int(value: &GoValue) -> i64 {
    match value {
        GoValue::Bool(yes) => i64::from(*yes),
        GoValue::Float64(number) => float_to_int(*number),
        GoValue::Str(text) => {
            let Some(text) = text.utf8() else { return 0 };
            strconv::parse_int(without_zero_fraction(text), 0).unwrap_or(0)
        }
        // Named integers are left alone, but for these two.
        GoValue::Object(object) if !matches!(&*object.type_name(), "time.Month" | "time.Weekday") => 0,
        _ => match (value.as_int(), value.as_uint()) {
            (Some(number), _) => number,
            (_, Some(number)) => number as i64,
            _ => 0,
        },
    }
}

/// What amd64 makes of a float: out of range is the smallest integer.
pub(super) fn float_to_int(number: f64) -> i64 {
    if number.is_nan() || number >= 9_223_372_036_854_775_808.0 { i64::MIN } else { number as i64 }
}

/// `12.000` reads as `12`; `.0` stays.
fn without_zero_fraction(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
        _ => text,
    }
}

/// A float from anything; what cannot be read is zero.
pub(super) fn to_float(value: &GoValue) -> f64 {
    match value {
        GoValue::Bool(yes) => f64::from(u8::from(*yes)),
        GoValue::Float64(number) => *number,
        GoValue::Str(text) => text.utf8().and_then(|text| strconv::parse_float(text).ok()).unwrap_or(0.0),
        GoValue::Object(object) if !matches!(&*object.type_name(), "time.Month" | "time.Weekday") => 0.0,
        _ => match (value.as_int(), value.as_uint()) {
            (Some(number), _) => number as f64,
            (_, Some(number)) => number as f64,
            _ => 0.0,
        },
    }
}

/// Whether `default` would replace the value.
pub(super) fn is_empty(value: &GoValue) -> bool {
    !value.truth()
}
