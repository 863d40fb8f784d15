//! Addresses of resources: absolute ones, or absolute paths.

use std::fmt;

use super::{Functions, inside, opaque, opaque_type};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Key, Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    text: String,
    scheme: String,
    /// With the port.
    host: String,
    path: String,
    query: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

opaque_type!(Url, "kubernetes.URL");

fn parse(text: &str) -> Option<Url> {
    if text.is_empty() || text.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return None;
    }
    let (front, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = if front.starts_with('/') {
        ("", front)
    } else {
        let (scheme, rest) = front.split_once(':')?;
        let mut letters = scheme.bytes();
        let good = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
            && letters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        if !good {
            return None;
        }
        (scheme, rest)
    };
    let (host, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() => {
            let end = after.find('/').unwrap_or(after.len());
            after.split_at(end)
        }
        _ => ("", rest),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let port = split_port(host)?.1;
    if !port.bytes().all(|b| b.is_ascii_digit()) || !escapes_are_whole(path) || !escapes_are_whole(host) {
        return None;
    }
    Some(Url {
        text: text.to_owned(),
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    })
}

/// The name without brackets and the port; none when a bracket does not close.
fn split_port(host: &str) -> Option<(&str, &str)> {
    if let Some(inner) = host.strip_prefix('[') {
        let (name, rest) = inner.split_once(']')?;
        return match rest {
            "" => Some((name, "")),
            rest => rest.strip_prefix(':').map(|port| (name, port)),
        };
    }
    Some(host.rsplit_once(':').unwrap_or((host, "")))
}

fn escapes_are_whole(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().all(|(at, byte)| *byte != b'%' || (hex(at + 1) && hex(at + 2)))
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(code)) => {
                out.push(code);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn query<'a>(url: &Url) -> Value<'a> {
    let mut found: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (unescape(key), Value::string(unescape(value)));
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => found.push((key, vec![value])),
        }
    }
    let entry = |(key, values): (String, Vec<Value<'a>>)| (Key::String(key.into()), Value::list(values));
    Value::Map(found.into_iter().map(entry).collect::<Map<'a>>())
}

pub(super) fn add(functions: &mut Functions) {
    let url = || Type::opaque("kubernetes.URL");
    functions.function("url", vec![Type::String], url(), |meter, args| match args {
        [Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            parse(text).map(opaque).ok_or_else(|| {
                EvalError::invalid(format!("URL parse error during conversion from string: {text:?}"))
            })
        }
        _ => Err(EvalError::no_overload()),
    });
    functions.function("isURL", vec![Type::String], Type::Bool, |meter, args| match args {
        [Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            Ok(Value::Bool(parse(text).is_some()))
        }
        _ => Err(EvalError::no_overload()),
    });
    type Part = (&'static str, fn(&Url) -> &str);
    let parts: [Part; 5] = [
        ("getScheme", |url| &url.scheme),
        ("getHost", |url| &url.host),
        ("getHostname", |url| split_port(&url.host).map_or("", |(name, _)| name)),
        ("getPort", |url| split_port(&url.host).map_or("", |(_, port)| port)),
        ("getEscapedPath", |url| &url.path),
    ];
    for (name, part) in parts {
        functions.method(name, vec![url()], Type::String, move |_, args| {
            Ok(Value::string(part(inside::<Url>(&args[0])?).to_owned()))
        });
    }
    let queries = Type::map(Type::String, Type::list(Type::String));
    functions.method("getQuery", vec![url()], queries, |meter, args| {
        let url = inside::<Url>(&args[0])?;
        meter.charge(url.query.len() as u64)?;
        Ok(query(url))
    });
}

/// Returns true if a text is a URL.
pub(super) fn is_url(text: &str) -> bool {
    parse(text).is_some()
}
