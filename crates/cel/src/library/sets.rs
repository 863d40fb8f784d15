//! Lists as sets.

use super::{Answer, Functions};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::{List, Value, equal};

pub(super) fn add(functions: &mut Functions) {
    let two = || vec![Type::list(Type::Param(0)), Type::list(Type::Param(0))];
    functions
        .function("sets.contains", two(), Type::Bool, |meter, args| with(args, |a, b| subset(b, a, meter)));
    functions.function("sets.equivalent", two(), Type::Bool, |meter, args| {
        with(args, |a, b| Ok(subset(a, b, meter)? && subset(b, a, meter)?))
    });
    functions.function("sets.intersects", two(), Type::Bool, |meter, args| {
        with(args, |a, b| {
            for item in a.iter() {
                if has(b, &item, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    });
}

fn with<'a>(
    args: &[Value<'a>],
    test: impl Fn(&List<'a>, &List<'a>) -> Result<bool, EvalError>,
) -> Answer<'a> {
    match args {
        [Value::List(a), Value::List(b)] => test(a, b).map(Value::Bool),
        _ => Err(EvalError::no_overload()),
    }
}

fn has(list: &List<'_>, item: &Value<'_>, meter: &Meter<'_>) -> Result<bool, EvalError> {
    for other in list.iter() {
        if equal(&other, item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn subset(small: &List<'_>, large: &List<'_>, meter: &Meter<'_>) -> Result<bool, EvalError> {
    for item in small.iter() {
        if !has(large, &item, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
