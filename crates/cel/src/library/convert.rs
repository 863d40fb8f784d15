//! Conversions between types.

use super::{Answer, Functions, parse_duration, parse_timestamp};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::{Value, duration_text, go_float};

pub(super) fn add(functions: &mut Functions) {
    for from in [Type::Int, Type::Uint, Type::Double, Type::String, Type::Timestamp] {
        functions.function("int", vec![from], Type::Int, to_int);
    }
    for from in [Type::Int, Type::Uint, Type::Double, Type::String] {
        functions.function("uint", vec![from.clone()], Type::Uint, to_uint);
        functions.function("double", vec![from], Type::Double, to_double);
    }
    for from in [
        Type::String,
        Type::Bool,
        Type::Int,
        Type::Uint,
        Type::Double,
        Type::Bytes,
        Type::Timestamp,
        Type::Duration,
    ] {
        functions.function("string", vec![from], Type::String, to_string);
    }
    functions.function("bytes", vec![Type::String], Type::Bytes, to_bytes);
    functions.function("bytes", vec![Type::Bytes], Type::Bytes, to_bytes);
    functions.function("bool", vec![Type::String], Type::Bool, to_bool);
    functions.function("bool", vec![Type::Bool], Type::Bool, to_bool);
    for from in [Type::String, Type::Timestamp, Type::Int] {
        functions.function("timestamp", vec![from], Type::Timestamp, to_timestamp);
    }
    for from in [Type::String, Type::Duration] {
        functions.function("duration", vec![from], Type::Duration, to_duration);
    }
}

fn fails<'a>(from: &str, to: &str) -> Answer<'a> {
    Err(EvalError::invalid(format!("type conversion error from '{from}' to '{to}'")))
}

fn to_int<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    Ok(Value::Int(match args {
        [Value::Int(number)] => *number,
        [Value::Uint(number)] => i64::try_from(*number).map_err(|_| EvalError::overflow("integer"))?,
        [Value::Double(number)] if *number > -9.223372036854775e18 && *number < 9.223372036854775e18 => {
            *number as i64
        }
        [Value::Double(_)] => return Err(EvalError::overflow("integer")),
        [Value::String(text)] => match text.parse() {
            Ok(number) => number,
            Err(_) => return fails("string", "int"),
        },
        [Value::Timestamp(time)] => time.as_second(),
        _ => return Err(EvalError::no_overload()),
    }))
}

fn to_uint<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let overflow = || EvalError::overflow("unsigned integer");
    Ok(Value::Uint(match args {
        [Value::Int(number)] => u64::try_from(*number).map_err(|_| overflow())?,
        [Value::Uint(number)] => *number,
        [Value::Double(number)] if *number >= 0.0 && *number < 1.8446744073709552e19 => *number as u64,
        [Value::Double(_)] => return Err(overflow()),
        [Value::String(text)] => match text.parse() {
            Ok(number) if !text.starts_with('+') => number,
            _ => return fails("string", "uint"),
        },
        _ => return Err(EvalError::no_overload()),
    }))
}

fn to_double<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    Ok(Value::Double(match args {
        [Value::Int(number)] => *number as f64,
        [Value::Uint(number)] => *number as f64,
        [Value::Double(number)] => *number,
        [Value::String(text)] => match text.parse::<f64>() {
            Ok(number) => number,
            Err(_) => return fails("string", "double"),
        },
        _ => return Err(EvalError::no_overload()),
    }))
}

fn to_string<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    Ok(match args {
        [value @ Value::String(_)] => value.clone(),
        [Value::Bool(truth)] => Value::string(truth.to_string()),
        [Value::Int(number)] => Value::string(number.to_string()),
        [Value::Uint(number)] => Value::string(number.to_string()),
        [Value::Double(number)] => Value::string(go_float(*number)),
        [Value::Timestamp(time)] => Value::string(time.to_string()),
        [Value::Duration(duration)] => Value::string(duration_text(*duration)),
        [Value::Bytes(bytes)] => {
            meter.charge_bytes(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Value::string(text.to_owned()),
                Err(_) => return Err(EvalError::invalid("invalid UTF-8 in bytes, cannot convert to string")),
            }
        }
        _ => return Err(EvalError::no_overload()),
    })
}

fn to_bytes<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_bool<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => fails("string", "bool"),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_timestamp<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => {
            match jiff::Timestamp::from_second(*seconds).ok().filter(|t| super::in_range(*t)) {
                Some(time) => Ok(Value::Timestamp(time)),
                None => Err(EvalError::overflow("timestamp")),
            }
        }
        [Value::String(text)] => match parse_timestamp(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => fails("string", "google.protobuf.Timestamp"),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_duration<'a>(_: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::String(text)] => match parse_duration(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => fails("string", "google.protobuf.Duration"),
        },
        _ => Err(EvalError::no_overload()),
    }
}
