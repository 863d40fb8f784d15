//! The functions of every expression: sizes, parts of texts, patterns, types.

use super::{Answer, Functions};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::Value;

pub(super) fn add(functions: &mut Functions) {
    let sized =
        [Type::String, Type::Bytes, Type::list(Type::Param(0)), Type::map(Type::Param(0), Type::Param(1))];
    for ty in sized {
        functions.function("size", vec![ty.clone()], Type::Int, size);
        functions.method("size", vec![ty], Type::Int, size);
    }
    let two = || vec![Type::String, Type::String];
    functions.method("contains", two(), Type::Bool, |meter, args| {
        texts(meter, args, |text, part| text.contains(part))
    });
    functions.method("startsWith", two(), Type::Bool, |meter, args| {
        texts(meter, args, |text, part| text.starts_with(part))
    });
    functions.method("endsWith", two(), Type::Bool, |meter, args| {
        texts(meter, args, |text, part| text.ends_with(part))
    });
    functions.method("matches", two(), Type::Bool, matches);
    functions.function("matches", two(), Type::Bool, matches);
    functions.function("type", vec![Type::Param(0)], Type::Type, |_, args| match args {
        [value] => Ok(Value::Type(value.type_name().into())),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("dyn", vec![Type::Param(0)], Type::Dyn, |_, args| match args {
        [value] => Ok(value.clone()),
        _ => Err(EvalError::no_overload()),
    });
}

fn size<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let size = match args {
        [Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            text.chars().count()
        }
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Int(size as i64))
}

fn texts<'a>(meter: &Meter<'_>, args: &[Value<'a>], test: fn(&str, &str) -> bool) -> Answer<'a> {
    match args {
        [Value::String(text), Value::String(part)] => {
            meter.charge_bytes(text.len())?;
            Ok(Value::Bool(test(text, part)))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn matches<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            meter.charge_bytes(text.len())?;
            Ok(Value::Bool(meter.pattern(pattern)?.is_match(text)))
        }
        _ => Err(EvalError::no_overload()),
    }
}
