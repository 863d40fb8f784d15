//! Named formats: what names of objects and labels must look like.

use std::fmt;

use super::{Functions, inside, opaque, opaque_type};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Str, Value};

/// A format by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format(&'static str);

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

opaque_type!(Format, "kubernetes.NamedFormat");

const NAMES: &[&str] = &[
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "qualifiedName",
    "uuid",
    "byte",
    "date",
    "datetime",
    "uri",
];

fn label(text: &str, letter_first: bool) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let end = |b: Option<u8>| b.is_some_and(|b| inner(b) && b != b'-');
    let first = text.bytes().next();
    let first_fits = if letter_first { first.is_some_and(|b| b.is_ascii_lowercase()) } else { end(first) };
    first_fits && end(text.bytes().last()) && text.bytes().all(inner)
}

fn word(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let end = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    end(text.bytes().next()) && end(text.bytes().last()) && text.bytes().all(inner)
}

fn subdomain(text: &str) -> bool {
    text.split('.').all(|part| label(part, false))
}

/// Returns the problems of a text; none when it fits.
fn problems(format: Format, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A prefix may end with the hyphen that joins what follows.
    let prefix = |text: &str| text.strip_suffix('-').unwrap_or(text).to_owned();
    let longest = match format.0 {
        "dns1123Subdomain" | "dns1123SubdomainPrefix" => Some(253),
        "dns1123Label" | "dns1035Label" | "dns1123LabelPrefix" | "dns1035LabelPrefix" | "labelValue" => {
            Some(63)
        }
        _ => None,
    };
    if let Some(longest) = longest
        && text.len() > longest
    {
        found.push(format!("must be no more than {longest} characters"));
    }
    let (fits, wording) = match format.0 {
        "dns1123Label" => (
            label(text, false),
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
        ),
        "dns1123LabelPrefix" => (
            label(&prefix(text), false),
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
        ),
        "dns1123Subdomain" => (
            subdomain(text),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ),
        "dns1123SubdomainPrefix" => (
            subdomain(&prefix(text)),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ),
        "dns1035Label" => (
            label(text, true),
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        ),
        "dns1035LabelPrefix" => (
            label(&prefix(text), true),
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        ),
        "labelValue" => (
            text.is_empty() || word(text),
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        ),
        "qualifiedName" => {
            let (domain, name) = text.split_once('/').map_or((None, text), |(a, b)| (Some(a), b));
            let fits = domain.is_none_or(|domain| subdomain(domain) && domain.len() <= 253);
            (
                fits && word(name) && name.len() <= 63,
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            )
        }
        "uuid" => {
            let bytes = text.as_bytes();
            let at = |place: usize, byte: u8| {
                if [8, 13, 18, 23].contains(&place) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            };
            let fits = bytes.len() == 36 && bytes.iter().enumerate().all(|(place, byte)| at(place, *byte));
            (fits, "does not match the UUID format")
        }
        "byte" => {
            use base64::Engine as _;
            (base64::engine::general_purpose::STANDARD.decode(text).is_ok(), "invalid base64")
        }
        "date" => (text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10, "invalid date"),
        "datetime" => (crate::library::parse_timestamp(text).is_some(), "invalid datetime"),
        _ => (super::url::is_url(text), "invalid URI"),
    };
    if !fits {
        found.push(wording.to_owned());
    }
    found
}

pub(super) fn add(functions: &mut Functions) {
    let format = || Type::opaque("kubernetes.NamedFormat");
    for name in NAMES {
        functions.function(&format!("format.{name}"), vec![], format(), |_, _| Ok(opaque(Format(name))));
    }
    functions.function("format.named", vec![Type::String], Type::optional(format()), |_, args| match args {
        [Value::String(wanted)] => Ok(match NAMES.iter().find(|name| **name == &**wanted) {
            Some(name) => Value::some(opaque(Format(name))),
            None => Value::Optional(None),
        }),
        _ => Err(EvalError::no_overload()),
    });
    let answer = Type::optional(Type::list(Type::String));
    functions.method("validate", vec![format(), Type::String], answer, |meter, args| match args {
        [format, Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            let found = problems(*inside::<Format>(format)?, text);
            if found.is_empty() {
                return Ok(Value::Optional(None));
            }
            let texts = found.into_iter().map(|text| Value::String(Str::from(text)));
            Ok(Value::some(Value::list(texts.collect::<Vec<_>>())))
        }
        _ => Err(EvalError::no_overload()),
    });
}
