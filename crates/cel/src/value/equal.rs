//! Equality and order, across numeric types and through nested values.

use std::cmp::Ordering;

use super::Value;
use crate::error::EvalError;
use crate::eval::Meter;

/// Values nested deeper are not equal to anything.
const DEEPEST: usize = 500;

/// Returns true if two values are equal. Values of different kinds are not; numbers are compared as numbers.
/// Comparing nested values is charged to the meter.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>, meter: &Meter<'_>) -> Result<bool, EvalError> {
    equal_at(a, b, meter, 0)
}

fn equal_at(a: &Value<'_>, b: &Value<'_>, meter: &Meter<'_>, depth: usize) -> Result<bool, EvalError> {
    if depth > DEEPEST {
        return Ok(false);
    }
    meter.charge(1)?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            meter.charge_bytes(a.len().min(b.len()))?;
            **a == **b
        }
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal_at(a, b, meter, depth + 1)?,
            _ => false,
        },
        (Value::Opaque(a), Value::Opaque(b)) => a.type_name() == b.type_name() && a.equals(&**b),
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal_at(&a, &b, meter, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.entries() {
                match b.get(&key) {
                    Some(other) if equal_at(&value, &other, meter, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        _ => compare_numbers(a, b) == Some(Ordering::Equal),
    })
}

/// The order of two values, if they have one.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some((**a).cmp(&**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        _ => compare_numbers(a, b),
    }
}

/// The order of two numbers of any types; none for other things and NaN.
pub(crate) fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Int(a), Value::Double(b)) => whole_to_double(i128::from(*a), *b),
        (Value::Uint(a), Value::Double(b)) => whole_to_double(i128::from(*a), *b),
        (Value::Double(a), Value::Int(b)) => whole_to_double(i128::from(*b), *a).map(Ordering::reverse),
        (Value::Double(a), Value::Uint(b)) => whole_to_double(i128::from(*b), *a).map(Ordering::reverse),
        _ => None,
    }
}

/// Compares exactly, where turning the integer into a double would lose digits.
fn whole_to_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double >= 1e20 {
        return Some(Ordering::Less);
    }
    if double <= -1e20 {
        return Some(Ordering::Greater);
    }
    let floor = double.floor();
    match whole.cmp(&(floor as i128)) {
        Ordering::Equal if double > floor => Some(Ordering::Less),
        order => Some(order),
    }
}
