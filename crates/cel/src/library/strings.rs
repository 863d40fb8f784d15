//! The strings extension.

use super::{Answer, Functions, format};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::{Str, Value};

const S: Type = Type::String;
const I: Type = Type::Int;

pub(super) fn add(functions: &mut Functions) {
    functions.method("charAt", vec![S, I], S, char_at);
    functions.method("indexOf", vec![S, S], I, |meter, args| index_of(meter, args, false));
    functions.method("indexOf", vec![S, S, I], I, |meter, args| index_of(meter, args, false));
    functions.method("lastIndexOf", vec![S, S], I, |meter, args| index_of(meter, args, true));
    functions.method("lastIndexOf", vec![S, S, I], I, |meter, args| index_of(meter, args, true));
    functions.method("join", vec![Type::list(S)], S, join);
    functions.method("join", vec![Type::list(S), S], S, join);
    functions.method("lowerAscii", vec![S], S, |meter, args| one(meter, args, str::to_ascii_lowercase));
    functions.method("upperAscii", vec![S], S, |meter, args| one(meter, args, str::to_ascii_uppercase));
    functions.method("trim", vec![S], S, |meter, args| one(meter, args, |text| text.trim().to_owned()));
    functions
        .method("reverse", vec![S], S, |meter, args| one(meter, args, |text| text.chars().rev().collect()));
    functions.function("strings.quote", vec![S], S, |meter, args| one(meter, args, quote));
    functions.method("replace", vec![S, S, S], S, replace);
    functions.method("replace", vec![S, S, S, I], S, replace);
    functions.method("split", vec![S, S], Type::list(S), split);
    functions.method("split", vec![S, S, I], Type::list(S), split);
    functions.method("substring", vec![S, I], S, substring);
    functions.method("substring", vec![S, I, I], S, substring);
    functions.method("format", vec![S, Type::list(Type::Dyn)], S, format::format);
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn one<'a>(meter: &Meter<'_>, args: &[Value<'a>], make: fn(&str) -> String) -> Answer<'a> {
    match args {
        [Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            Ok(Value::string(make(text)))
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// The byte where the character `at` stands; the end for one past the last.
fn place(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(at)
}

fn out_of_range(at: i64) -> EvalError {
    EvalError::invalid(format!("index out of range: {at}"))
}

fn char_at<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let [Value::String(text), Value::Int(at)] = args else { return Err(EvalError::no_overload()) };
    meter.charge_bytes(text.len())?;
    let start = place(text, *at).ok_or_else(|| out_of_range(*at))?;
    let found = text[start..].chars().next().map(String::from).unwrap_or_default();
    Ok(Value::string(found))
}

fn index_of<'a>(meter: &Meter<'_>, args: &[Value<'a>], last: bool) -> Answer<'a> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return Err(EvalError::no_overload()),
    };
    meter.charge_bytes(text.len())?;
    let found = match (last, from) {
        (false, None) => text.find(&**part),
        (true, None) => text.rfind(&**part),
        (false, Some(from)) => {
            let start = place(text, from).ok_or_else(|| out_of_range(from))?;
            text[start..].find(&**part).map(|at| at + start)
        }
        (true, Some(from)) => {
            let start = place(text, from).ok_or_else(|| out_of_range(from))?;
            // The match must not start after `from`.
            let mut end = (start + part.len()).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text[..end].rfind(&**part).filter(|at| *at <= start)
        }
    };
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn join<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(EvalError::no_overload()),
    };
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        let Value::String(text) = item else { return Err(EvalError::no_overload()) };
        if at > 0 {
            out.push_str(separator);
        }
        meter.charge_bytes(text.len() + separator.len() + 16)?;
        out.push_str(&text);
    }
    Ok(Value::string(out))
}

fn replace<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let (text, from, to, count) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(count)] => {
            (text, from, to, *count)
        }
        _ => return Err(EvalError::no_overload()),
    };
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let found = text.matches(&**from).count().min(most);
    meter.charge_bytes(text.len().saturating_add(found.saturating_mul(to.len())))?;
    Ok(Value::string(text.replacen(&**from, to, most)))
}

fn split<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let (text, by, count) = match args {
        [Value::String(text), Value::String(by)] => (text, by, -1),
        [Value::String(text), Value::String(by), Value::Int(count)] => (text, by, *count),
        _ => return Err(EvalError::no_overload()),
    };
    meter.charge_bytes(text.len())?;
    let part = |text: &str| Value::String(Str::from(text.to_owned()));
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let parts: Vec<Value<'a>> = if by.is_empty() {
        // Nothing stands between any two characters.
        let mut parts = Vec::new();
        let mut rest = &**text;
        while let Some(first) = rest.chars().next() {
            if parts.len() + 1 == most {
                break;
            }
            parts.push(part(&rest[..first.len_utf8()]));
            rest = &rest[first.len_utf8()..];
        }
        if !rest.is_empty() {
            parts.push(part(rest));
        }
        parts
    } else {
        text.splitn(most, &**by).map(part).collect()
    };
    meter.charge(parts.len() as u64)?;
    Ok(Value::list(parts))
}

fn substring<'a>(meter: &Meter<'_>, args: &[Value<'a>]) -> Answer<'a> {
    let (text, from, to) = match args {
        [Value::String(text), Value::Int(from)] => (text, *from, None),
        [Value::String(text), Value::Int(from), Value::Int(to)] => (text, *from, Some(*to)),
        _ => return Err(EvalError::no_overload()),
    };
    meter.charge_bytes(text.len())?;
    let start = place(text, from).ok_or_else(|| out_of_range(from))?;
    let end = match to {
        None => text.len(),
        Some(to) => place(text, to).ok_or_else(|| out_of_range(to))?,
    };
    if start > end {
        let to = to.unwrap_or_default();
        return Err(EvalError::invalid(format!("invalid substring range. start: {from}, end: {to}")));
    }
    Ok(Value::string(text[start..end].to_owned()))
}
