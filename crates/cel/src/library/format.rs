//! `"…".format([…])`.

use std::fmt::Write as _;

use super::Answer;
use crate::error::EvalError;
use crate::eval::Meter;
use crate::value::{Value, duration_text, go_float};

/// Values nested deeper are not shown.
const DEEPEST: usize = 100;
/// The most digits after a point.
const PRECISION: usize = 100;

pub(super) fn format<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let [Value::String(text), Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    meter.charge_bytes(text.len())?;
    let mut out = String::new();
    let mut next = 0;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        let mut verb = characters.next();
        if verb == Some('.') {
            let mut digits = String::new();
            verb = characters.next();
            while let Some(digit) = verb.filter(char::is_ascii_digit) {
                digits.push(digit);
                verb = characters.next();
            }
            let wanted = digits.parse().ok().filter(|wanted| *wanted <= PRECISION);
            precision = Some(wanted.ok_or_else(|| EvalError::invalid("error while parsing precision"))?);
        }
        let Some(verb) = verb else { return Err(EvalError::invalid("unexpected end of string")) };
        if verb == '%' {
            out.push('%');
            continue;
        }
        let value = list.get(next).ok_or_else(|| EvalError::invalid(format!("index {next} out of range")))?;
        next += 1;
        let before = out.len();
        clause(&mut out, verb, precision, &value, meter)?;
        meter.charge_bytes(out.len() - before + 16)?;
    }
    Ok(Value::string(out))
}

fn clause(
    out: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value<'_>,
    meter: &Meter<'_>,
) -> Result<(), EvalError> {
    let wrong = |what: &str| {
        let found = value.type_name();
        Err(EvalError::invalid(format!("{what} clause can only be used on numbers, was given {found}")))
    };
    let digits = precision.unwrap_or(6);
    // Writing to a string cannot fail.
    let _ = match (verb, value) {
        ('s', value) => return show(out, value, meter, 0),
        ('d', Value::Int(number)) => write!(out, "{number}"),
        ('d', Value::Uint(number)) => write!(out, "{number}"),
        ('d', Value::Double(number)) if !number.is_finite() => write!(out, "{}", special(*number)),
        ('d', _) => return wrong("decimal"),
        ('f' | 'e', Value::Double(number)) if !number.is_finite() => write!(out, "{}", special(*number)),
        ('f', value) => match as_double(value) {
            Some(number) => write!(out, "{number:.digits$}"),
            None => return wrong("fixed-point"),
        },
        ('e', value) => match as_double(value) {
            Some(number) => {
                let text = format!("{number:.digits$e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, exponent) = match exponent.strip_prefix('-') {
                    Some(rest) => ('-', rest),
                    None => ('+', exponent),
                };
                write!(out, "{mantissa}e{sign}{exponent:0>2}")
            }
            None => return wrong("scientific"),
        },
        ('b', Value::Bool(truth)) => write!(out, "{}", u8::from(*truth)),
        ('b', Value::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        ('b', Value::Uint(number)) => write!(out, "{number:b}"),
        ('x', Value::Int(number)) => write!(out, "{}{:x}", sign(*number), number.unsigned_abs()),
        ('X', Value::Int(number)) => write!(out, "{}{:X}", sign(*number), number.unsigned_abs()),
        ('o', Value::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        ('x', Value::Uint(number)) => write!(out, "{number:x}"),
        ('X', Value::Uint(number)) => write!(out, "{number:X}"),
        ('o', Value::Uint(number)) => write!(out, "{number:o}"),
        ('x' | 'X', Value::String(text)) => {
            hex(out, text.as_bytes(), verb);
            Ok(())
        }
        ('x' | 'X', Value::Bytes(bytes)) => {
            hex(out, bytes, verb);
            Ok(())
        }
        ('b', _) => return wrong("binary"),
        ('o', _) => return wrong("octal"),
        ('x' | 'X', _) => return wrong("hex"),
        _ => {
            return Err(EvalError::invalid(format!("unrecognized formatting clause \"{verb}\"")));
        }
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

fn hex(out: &mut String, bytes: &[u8], verb: char) {
    for byte in bytes {
        let _ = if verb == 'x' { write!(out, "{byte:02x}") } else { write!(out, "{byte:02X}") };
    }
}

fn special(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Int(number) => Some(*number as f64),
        Value::Uint(number) => Some(*number as f64),
        _ => None,
    }
}

fn show(out: &mut String, value: &Value<'_>, meter: &Meter<'_>, depth: usize) -> Result<(), EvalError> {
    if depth > DEEPEST {
        return Err(EvalError::invalid("value is nested too deep"));
    }
    meter.charge(1)?;
    match value {
        Value::Double(number) if !number.is_finite() => out.push_str(special(*number)),
        Value::Double(number) => out.push_str(&go_float(*number)),
        Value::Duration(duration) => out.push_str(&duration_text(*duration)),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                show(out, &item, meter, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            let mut entries = map.entries();
            entries.sort_by_key(|(key, _)| key.show());
            for (at, (key, item)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&key.show());
                out.push_str(": ");
                show(out, item, meter, depth + 1)?;
            }
            out.push('}');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
    Ok(())
}
