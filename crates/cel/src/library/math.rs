//! The math extension.

use std::cmp::Ordering;

use super::{Answer, Functions};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::{Value, compare_numbers};

/// The most arguments `greatest` and `least` take one by one.
const MOST: usize = 8;

pub(super) fn add(functions: &mut Functions) {
    for (name, wanted) in [("math.greatest", Ordering::Greater), ("math.least", Ordering::Less)] {
        for ty in [Type::Int, Type::Uint, Type::Double, Type::Dyn] {
            for count in 1..=MOST {
                functions.function(name, vec![ty.clone(); count], ty.clone(), move |meter, args| {
                    best(meter, args, wanted)
                });
            }
            functions.function(name, vec![Type::list(ty.clone())], ty, move |meter, args| match args {
                [Value::List(list)] => {
                    meter.charge(list.len() as u64)?;
                    best(meter, &list.iter().collect::<Vec<_>>(), wanted)
                }
                _ => Err(EvalError::no_overload()),
            });
        }
    }
    type Compute = (&'static str, fn(f64) -> f64);
    type Test = (&'static str, fn(f64) -> bool);
    let doubles: [Compute; 5] = [
        ("math.ceil", f64::ceil),
        ("math.floor", f64::floor),
        ("math.round", f64::round),
        ("math.trunc", f64::trunc),
        ("math.sqrt", f64::sqrt),
    ];
    for (name, compute) in doubles {
        let run = move |_: &Meter<'_>, number: f64| Value::Double(compute(number));
        functions.function(name, vec![Type::Double], Type::Double, move |meter, args| match args {
            [Value::Double(number)] => Ok(run(meter, *number)),
            _ => Err(EvalError::no_overload()),
        });
    }
    for ty in [Type::Int, Type::Uint] {
        functions.function("math.sqrt", vec![ty], Type::Double, |_, args| match args {
            [Value::Int(number)] => Ok(Value::Double((*number as f64).sqrt())),
            [Value::Uint(number)] => Ok(Value::Double((*number as f64).sqrt())),
            _ => Err(EvalError::no_overload()),
        });
    }
    let tests: [Test; 3] =
        [("math.isNaN", f64::is_nan), ("math.isInf", f64::is_infinite), ("math.isFinite", f64::is_finite)];
    for (name, test) in tests {
        functions.function(name, vec![Type::Double], Type::Bool, move |_, args| match args {
            [Value::Double(number)] => Ok(Value::Bool(test(*number))),
            _ => Err(EvalError::no_overload()),
        });
    }
    for ty in [Type::Int, Type::Uint, Type::Double] {
        functions.function("math.abs", vec![ty.clone()], ty.clone(), abs);
        functions.function("math.sign", vec![ty.clone()], ty, sign);
    }
    for ty in [Type::Int, Type::Uint] {
        for name in ["math.bitAnd", "math.bitOr", "math.bitXor"] {
            functions
                .function(name, vec![ty.clone(), ty.clone()], ty.clone(), move |_, args| bits(name, args));
        }
        for name in ["math.bitShiftLeft", "math.bitShiftRight"] {
            functions
                .function(name, vec![ty.clone(), Type::Int], ty.clone(), move |_, args| shift(name, args));
        }
        functions.function("math.bitNot", vec![ty.clone()], ty, |_, args| match args {
            [Value::Int(number)] => Ok(Value::Int(!number)),
            [Value::Uint(number)] => Ok(Value::Uint(!number)),
            _ => Err(EvalError::no_overload()),
        });
    }
}

fn best<'a>(_: &Meter<'_>, args: &[Value<'a>], wanted: Ordering) -> Answer<'a> {
    let mut best: Option<&Value<'a>> = None;
    for arg in args {
        if compare_numbers(arg, arg).is_none() {
            return Err(EvalError::no_overload());
        }
        if best.is_none_or(|best| compare_numbers(arg, best) == Some(wanted)) {
            best = Some(arg);
        }
    }
    best.cloned().ok_or_else(|| EvalError::invalid("math.@max(list) argument must not be empty"))
}

fn abs<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [Value::Int(number)] => {
            number.checked_abs().map(Value::Int).ok_or_else(|| EvalError::overflow("integer"))
        }
        [value @ Value::Uint(_)] => Ok(value.clone()),
        [Value::Double(number)] => Ok(Value::Double(number.abs())),
        _ => Err(EvalError::no_overload()),
    }
}

fn sign<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [Value::Int(number)] => Ok(Value::Int(number.signum())),
        [Value::Uint(number)] => Ok(Value::Uint((*number).min(1))),
        [Value::Double(number)] if *number == 0.0 || number.is_nan() => Ok(Value::Double(*number)),
        [Value::Double(number)] => Ok(Value::Double(number.signum())),
        _ => Err(EvalError::no_overload()),
    }
}

fn bits<'a>(name: &str, args: &[Value<'a>]) -> Answer<'a> {
    let compute = |a: u64, b: u64| match name {
        "math.bitAnd" => a & b,
        "math.bitOr" => a | b,
        _ => a ^ b,
    };
    match args {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(compute(*a as u64, *b as u64) as i64)),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(compute(*a, *b))),
        _ => Err(EvalError::no_overload()),
    }
}

fn shift<'a>(name: &str, args: &[Value<'a>]) -> Answer<'a> {
    let (bits, by) = match args {
        [Value::Int(bits), Value::Int(by)] => (*bits as u64, *by),
        [Value::Uint(bits), Value::Int(by)] => (*bits, *by),
        _ => return Err(EvalError::no_overload()),
    };
    let by = u32::try_from(by).map_err(|_| EvalError::invalid(format!("{name}() negative offset: {by}")))?;
    let moved = if name == "math.bitShiftLeft" { bits.checked_shl(by) } else { bits.checked_shr(by) };
    let moved = moved.unwrap_or(0);
    Ok(if matches!(args[0], Value::Int(_)) { Value::Int(moved as i64) } else { Value::Uint(moved) })
}
