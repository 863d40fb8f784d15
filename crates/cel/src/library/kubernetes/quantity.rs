//! Quantities (`100m`, `1.5Gi`), compared and added.

use std::fmt;

use super::{Functions, inside, opaque, opaque_type};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

const NANOS: i128 = 1_000_000_000;

/// An amount in billionths, with the text it came from when it has one.
#[derive(Clone, Debug)]
struct Quantity {
    nanos: i128,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The coarsest unit that keeps the amount whole.
        for (unit, suffix) in [(NANOS, ""), (1_000_000, "m"), (1_000, "u"), (1, "n")] {
            if self.nanos % unit == 0 {
                return write!(f, "{}{suffix}", self.nanos / unit);
            }
        }
        Ok(())
    }
}

opaque_type!(Quantity, "kubernetes.Quantity");

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 25 {
        return None;
    }
    let (binary, power) = match suffix {
        "n" => (false, -9),
        "u" => (false, -6),
        "m" => (false, -3),
        "" => (false, 0),
        "k" => (false, 3),
        "M" => (false, 6),
        "G" => (false, 9),
        "T" => (false, 12),
        "P" => (false, 15),
        "E" => (false, 18),
        "Ki" => (true, 10),
        "Mi" => (true, 20),
        "Gi" => (true, 30),
        "Ti" => (true, 40),
        "Pi" => (true, 50),
        "Ei" => (true, 60),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            (false, digits.parse::<i32>().ok().filter(|power| (-30..=30).contains(power))?)
        }
    };
    let digits: String = whole.chars().chain(fraction.chars().take(18)).collect();
    let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let places = fraction.len().min(18) as i32;
    let scaled = if binary {
        mantissa.checked_mul(1 << power)?.checked_mul(NANOS)? / 10_i128.checked_pow(places as u32)?
    } else {
        let shift = power + 9 - places;
        if shift >= 0 {
            mantissa.checked_mul(10_i128.checked_pow(shift as u32)?)?
        } else {
            let unit = 10_i128.checked_pow(shift.unsigned_abs())?;
            // What is finer than a billionth is rounded up.
            mantissa / unit + i128::from(mantissa % unit != 0)
        }
    };
    // What is larger than 64 bits hold becomes the largest.
    let largest = i128::from(i64::MAX) * NANOS;
    let nanos = scaled.min(largest);
    Some(Quantity { nanos: if negative { -nanos } else { nanos } })
}

fn read(text: &str) -> Result<Quantity, EvalError> {
    parse(text).ok_or_else(|| {
        EvalError::invalid(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    })
}

/// The amount of an argument: a quantity or a whole number.
fn amount(value: &Value<'_>) -> Result<i128, EvalError> {
    match value {
        Value::Int(number) => Ok(i128::from(*number) * NANOS),
        other => inside::<Quantity>(other).map(|found| found.nanos),
    }
}

pub(super) fn add(functions: &mut Functions) {
    let quantity = || Type::opaque("kubernetes.Quantity");
    functions.function("quantity", vec![Type::String], quantity(), |_, args| match args {
        [Value::String(text)] => Ok(opaque(read(text)?)),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("isQuantity", vec![Type::String], Type::Bool, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse(text).is_some())),
        _ => Err(EvalError::no_overload()),
    });
    functions.method("isInteger", vec![quantity()], Type::Bool, |_, args| {
        Ok(Value::Bool(amount(&args[0])? % NANOS == 0))
    });
    functions.method("asInteger", vec![quantity()], Type::Int, |_, args| {
        let nanos = amount(&args[0])?;
        match i64::try_from(nanos / NANOS) {
            Ok(number) if nanos % NANOS == 0 => Ok(Value::Int(number)),
            _ => Err(EvalError::invalid("cannot convert value to integer")),
        }
    });
    functions.method("asApproximateFloat", vec![quantity()], Type::Double, |_, args| {
        Ok(Value::Double(amount(&args[0])? as f64 / NANOS as f64))
    });
    functions.method("sign", vec![quantity()], Type::Int, |_, args| {
        Ok(Value::Int(amount(&args[0])?.signum() as i64))
    });
    for other in [quantity(), Type::Int] {
        functions.method("add", vec![quantity(), other.clone()], quantity(), |_, args| {
            let sum = amount(&args[0])?.checked_add(amount(&args[1])?);
            sum.map(|nanos| opaque(Quantity { nanos })).ok_or_else(|| EvalError::overflow("quantity"))
        });
        functions.method("sub", vec![quantity(), other], quantity(), |_, args| {
            let rest = amount(&args[0])?.checked_sub(amount(&args[1])?);
            rest.map(|nanos| opaque(Quantity { nanos })).ok_or_else(|| EvalError::overflow("quantity"))
        });
    }
    functions.method("isLessThan", vec![quantity(), quantity()], Type::Bool, |_, args| {
        Ok(Value::Bool(amount(&args[0])? < amount(&args[1])?))
    });
    functions.method("isGreaterThan", vec![quantity(), quantity()], Type::Bool, |_, args| {
        Ok(Value::Bool(amount(&args[0])? > amount(&args[1])?))
    });
    functions.method("compareTo", vec![quantity(), quantity()], Type::Int, |_, args| {
        Ok(Value::Int(amount(&args[0])?.cmp(&amount(&args[1])?) as i64))
    });
}
