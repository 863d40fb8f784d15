//! The lists extension; `sortBy` is a macro.

use std::cmp::Ordering;

use super::{Answer, Functions};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::{List, Value, compare, equal};

/// The longest list `lists.range` makes.
const LONGEST: i64 = 1_000_000;

pub(super) fn add(functions: &mut Functions) {
    let list = || Type::list(Type::Param(0));
    functions.method("slice", vec![list(), Type::Int, Type::Int], list(), slice);
    functions.method("flatten", vec![Type::list(list())], list(), flatten);
    functions.method("flatten", vec![Type::list(Type::Dyn), Type::Int], Type::list(Type::Dyn), flatten);
    functions.method("reverse", vec![list()], list(), |meter, args| match args {
        [Value::List(list)] => {
            meter.charge(list.len() as u64)?;
            Ok(Value::list(list.iter().rev().collect::<Vec<_>>()))
        }
        _ => Err(EvalError::no_overload()),
    });
    functions.method("sort", vec![list()], list(), sort);
    functions.method("distinct", vec![list()], list(), distinct);
    functions.function("lists.range", vec![Type::Int], Type::list(Type::Int), |meter, args| match args {
        [Value::Int(count)] if *count > LONGEST => {
            Err(EvalError::invalid("lists.range() size exceeds limit"))
        }
        [Value::Int(count)] => {
            meter.charge(u64::try_from(*count).unwrap_or(0))?;
            Ok(Value::list((0..*count).map(Value::Int).collect::<Vec<_>>()))
        }
        _ => Err(EvalError::no_overload()),
    });
}

fn slice<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let [Value::List(list), Value::Int(from), Value::Int(to)] = args else {
        return Err(EvalError::no_overload());
    };
    let length = list.len();
    if *from < 0 || *to < 0 {
        return Err(EvalError::invalid(format!(
            "cannot slice({from}, {to}), negative indexes not supported"
        )));
    }
    if from > to {
        return Err(EvalError::invalid(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        )));
    }
    let (start, end) = (usize::try_from(*from), usize::try_from(*to));
    match (start, end) {
        (Ok(start), Ok(end)) if end <= length => {
            meter.charge((end - start) as u64)?;
            Ok(Value::list((start..end).filter_map(|at| list.get(at)).collect::<Vec<_>>()))
        }
        _ => Err(EvalError::invalid(format!("cannot slice({from}, {to}), list is length {length}"))),
    }
}

fn flatten<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::no_overload()),
    };
    if depth < 0 {
        return Err(EvalError::invalid("level must be non-negative"));
    }
    let mut out = Vec::new();
    collect(list, depth.min(200), meter, &mut out)?;
    Ok(Value::list(out))
}

fn collect<'a>(
    list: &List<'a>,
    depth: i64,
    meter: &Meter<'_>,
    out: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    for item in list.iter() {
        meter.charge(1)?;
        match item {
            Value::List(inner) if depth > 0 => collect(&inner, depth - 1, meter, out)?,
            other => out.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut values: Vec<Value<'a>> = list.iter().collect();
    let length = values.len() as u64;
    meter.charge(length.saturating_mul(length.max(2).ilog2().into()))?;
    if let Some(first) = values.first() {
        let fits =
            |value: &Value<'_>| value.type_name() == first.type_name() && compare(value, value).is_some();
        if !values.iter().all(fits) {
            return Err(EvalError::invalid("list elements must have the same comparable type"));
        }
    }
    values.sort_by(|a, b| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(values))
}

fn distinct<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut out: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let mut known = false;
        for other in &out {
            known = known || equal(other, &item, meter)?;
        }
        if !known {
            out.push(item);
        }
    }
    Ok(Value::list(out))
}
