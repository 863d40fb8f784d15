//! Arithmetic that fails instead of wrapping around.

use jiff::{SignedDuration, Timestamp};

use super::Meter;
use crate::error::EvalError;
use crate::library::Answer;
use crate::parse::Binary;
use crate::value::{List, Value};

pub(super) fn negate<'a>(value: &Value<'a>) -> Answer<'a> {
    match value {
        Value::Int(number) => {
            number.checked_neg().map(Value::Int).ok_or_else(|| EvalError::overflow("integer"))
        }
        Value::Double(number) => Ok(Value::Double(-number)),
        _ => Err(EvalError::no_overload()),
    }
}

pub(super) fn binary<'a>(operator: Binary, a: &Value<'a>, b: &Value<'a>, meter: &Meter<'_>) -> Answer<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(operator, *a, *b).map(Value::Int),
        (Value::Uint(a), Value::Uint(b)) => uint(operator, *a, *b).map(Value::Uint),
        (Value::Double(a), Value::Double(b)) => double(operator, *a, *b).map(Value::Double),
        _ if operator == Binary::Add => add(a, b, meter),
        _ if operator == Binary::Subtract => subtract(a, b),
        _ => Err(EvalError::no_overload()),
    }
}

fn int(operator: Binary, a: i64, b: i64) -> Result<i64, EvalError> {
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide if b == 0 => return Err(EvalError::division()),
        Binary::Divide => a.checked_div(b),
        Binary::Modulo if b == 0 => return Err(EvalError::modulus()),
        Binary::Modulo => a.checked_rem(b),
        _ => return Err(EvalError::no_overload()),
    };
    result.ok_or_else(|| EvalError::overflow("integer"))
}

fn uint(operator: Binary, a: u64, b: u64) -> Result<u64, EvalError> {
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide if b == 0 => return Err(EvalError::division()),
        Binary::Divide => a.checked_div(b),
        Binary::Modulo if b == 0 => return Err(EvalError::modulus()),
        Binary::Modulo => a.checked_rem(b),
        _ => return Err(EvalError::no_overload()),
    };
    result.ok_or_else(|| EvalError::overflow("unsigned integer"))
}

fn double(operator: Binary, a: f64, b: f64) -> Result<f64, EvalError> {
    Ok(match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        _ => return Err(EvalError::no_overload()),
    })
}

fn add<'a>(a: &Value<'a>, b: &Value<'a>, meter: &Meter<'_>) -> Answer<'a> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => {
            meter.charge_bytes(a.len() + b.len())?;
            Ok(Value::string([&**a, &**b].concat()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.charge_bytes(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => join(a, b, meter),
        (Value::Duration(a), Value::Duration(b)) => span(a.checked_add(*b)),
        (Value::Timestamp(time), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(time)) => {
            moment(time.checked_add(*by).ok())
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn join<'a>(a: &List<'a>, b: &List<'a>, meter: &Meter<'_>) -> Answer<'a> {
    if a.is_empty() {
        return Ok(Value::List(b.clone()));
    }
    if b.is_empty() {
        return Ok(Value::List(a.clone()));
    }
    meter.charge((a.len() + b.len()) as u64)?;
    Ok(Value::list(a.iter().chain(b.iter()).collect::<Vec<_>>()))
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Answer<'a> {
    match (a, b) {
        (Value::Duration(a), Value::Duration(b)) => span(a.checked_sub(*b)),
        (Value::Timestamp(time), Value::Duration(by)) => moment(time.checked_sub(*by).ok()),
        (Value::Timestamp(a), Value::Timestamp(b)) => span(Some(a.duration_since(*b))),
        _ => Err(EvalError::no_overload()),
    }
}

/// A duration within what 64 bits of nanoseconds hold.
fn span<'a>(duration: Option<SignedDuration>) -> Answer<'a> {
    match duration {
        Some(duration) if i64::try_from(duration.as_nanos()).is_ok() => Ok(Value::Duration(duration)),
        _ => Err(EvalError::overflow("integer")),
    }
}

/// A time within the years 1 to 9999.
fn moment<'a>(time: Option<Timestamp>) -> Answer<'a> {
    match time {
        Some(time) if crate::library::in_range(time) => Ok(Value::Timestamp(time)),
        _ => Err(EvalError::overflow("timestamp")),
    }
}
