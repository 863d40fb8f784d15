//! Kubernetes' functions of lists: order, sums, extremes, indexes.

use std::cmp::Ordering;

use jiff::SignedDuration;

use super::Functions;
use crate::error::EvalError;
use crate::eval::Meter;
use crate::library::Answer;
use crate::types::Type;
use crate::value::{List, Value, compare, equal};

pub(super) fn add(functions: &mut Functions) {
    let ordered = [
        Type::Int,
        Type::Uint,
        Type::Double,
        Type::Bool,
        Type::Duration,
        Type::Timestamp,
        Type::String,
        Type::Bytes,
    ];
    for ty in ordered {
        let list = || vec![Type::list(ty.clone())];
        functions
            .method("isSorted", list(), Type::Bool, |meter, args| with(args, |list| sorted(meter, list)));
        functions.method("min", list(), ty.clone(), |meter, args| {
            with(args, |list| extreme(meter, list, "min", Ordering::Less))
        });
        functions.method("max", list(), ty.clone(), |meter, args| {
            with(args, |list| extreme(meter, list, "max", Ordering::Greater))
        });
    }
    for ty in [Type::Int, Type::Uint, Type::Double, Type::Duration] {
        let zero = match ty {
            Type::Uint => Value::Uint(0),
            Type::Double => Value::Double(0.0),
            Type::Duration => Value::Duration(SignedDuration::ZERO),
            _ => Value::Int(0),
        };
        functions.method("sum", vec![Type::list(ty.clone())], ty, move |meter, args| {
            with(args, |list| sum(meter, list, zero.clone()))
        });
    }
    for (name, last) in [("indexOf", false), ("lastIndexOf", true)] {
        let params = vec![Type::list(Type::Param(0)), Type::Param(0)];
        functions.method(name, params, Type::Int, move |meter, args| match args {
            [Value::List(list), item] => {
                let mut found = -1;
                for (at, element) in list.iter().enumerate() {
                    if equal(&element, item, meter)? {
                        found = at as i64;
                        if !last {
                            break;
                        }
                    }
                }
                Ok(Value::Int(found))
            }
            _ => Err(EvalError::no_overload()),
        });
    }
}

fn with<'a>(args: &[Value<'a>], answer: impl Fn(&List<'a>) -> Answer<'a>) -> Answer<'a> {
    match args {
        [Value::List(list)] => answer(list),
        _ => Err(EvalError::no_overload()),
    }
}

fn sorted<'a>(meter: &Meter<'_>, list: &List<'a>) -> Answer<'a> {
    meter.charge(list.len() as u64)?;
    let mut last: Option<Value<'a>> = None;
    for item in list.iter() {
        if let Some(last) = &last {
            match compare(last, &item) {
                Some(Ordering::Greater) => return Ok(Value::Bool(false)),
                Some(_) => {}
                None => return Err(EvalError::no_overload()),
            }
        }
        last = Some(item);
    }
    Ok(Value::Bool(true))
}

fn extreme<'a>(meter: &Meter<'_>, list: &List<'a>, name: &str, wanted: Ordering) -> Answer<'a> {
    meter.charge(list.len() as u64)?;
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let better = match &best {
            None => true,
            Some(best) => compare(&item, best).ok_or_else(EvalError::no_overload)? == wanted,
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::invalid(format!("{name} called on empty list")))
}

fn sum<'a>(meter: &Meter<'_>, list: &List<'a>, zero: Value<'a>) -> Answer<'a> {
    let overflow = || EvalError::overflow("integer");
    let mut total: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.charge(1)?;
        let Some(so_far) = total else {
            total = Some(item);
            continue;
        };
        total = Some(match (&so_far, &item) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
            (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_add(*b).ok_or_else(overflow)?),
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Int(a), Value::Double(b)) | (Value::Double(b), Value::Int(a)) => {
                Value::Double(*a as f64 + b)
            }
            (Value::Duration(a), Value::Duration(b)) => {
                Value::Duration(a.checked_add(*b).ok_or_else(overflow)?)
            }
            _ => return Err(EvalError::no_overload()),
        });
    }
    Ok(total.unwrap_or(zero))
}
