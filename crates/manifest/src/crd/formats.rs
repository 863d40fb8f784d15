//! The string and number formats Kubernetes checks.

use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns true if a string is of a format. Unknown formats are not checked.
pub(super) fn matches_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<std::net::IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "uri" => text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty()),
        "hostname" => is_hostname(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !user.contains(char::is_whitespace) && is_hostname(host)
        }),
        "hexcolor" => text
            .strip_prefix('#')
            .is_some_and(|hex| matches!(hex.len(), 3 | 6) && hex.bytes().all(|b| b.is_ascii_hexdigit())),
        "rgbcolor" => {
            let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
            inner
                .is_some_and(|inner| inner.split(',').filter(|n| n.trim().parse::<u8>().is_ok()).count() == 3)
        }
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" | "isbn10" | "isbn13" => is_isbn(text, format),
        "ssn" => {
            let digits: Vec<&str> = text.split(['-', ' ']).collect();
            digits.iter().map(|part| part.len()).eq([3, 2, 4])
                && text.bytes().filter(u8::is_ascii_digit).count() == 9
        }
        "creditcard" => {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            (13..=16).contains(&digits)
                && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b' '))
        }
        "k8s-short-name" => crate::names::check_label_1123(text).is_ok(),
        "k8s-long-name" => crate::names::check_subdomain(text).is_ok(),
        _ => true,
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn is_hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => bits <= 32,
        Ok(std::net::IpAddr::V6(_)) => bits <= 128,
        Err(_) => false,
    }
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    hex.len() == 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && version.is_none_or(|version| hex.chars().nth(12) == Some(version))
}

fn is_isbn(text: &str, format: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let of_ten = digits.len() == 10 && digits[..9].iter().all(char::is_ascii_digit);
    let of_thirteen = digits.len() == 13 && digits.iter().all(char::is_ascii_digit);
    match format {
        "isbn10" => of_ten,
        "isbn13" => of_thirteen,
        _ => of_ten || of_thirteen,
    }
}

/// A Go duration, `1h30m`, or words, `3 days`.
fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text == "0" {
        return true;
    }
    let mut rest = text.trim();
    if rest.is_empty() {
        return false;
    }
    const UNITS: [&str; 22] = [
        "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "hr", "hrs", "sec", "secs", "min", "mins",
        "hour", "hours", "day", "days", "week", "weeks",
    ];
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if number == 0 || rest[..number].parse::<f64>().is_err() {
            return false;
        }
        rest = rest[number..].trim_start();
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').unwrap_or(rest.len());
        if !UNITS.contains(&&rest[..unit]) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Returns true if a server knows a format for values of a type; others are not checked.
pub(super) fn is_known(json_type: &str, format: &str) -> bool {
    match json_type {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns the unknown formats in a schema, which a server warns of.
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut out = Vec::new();
    // Schemas nested deeper than this are refused.
    collect_unknown(schema, 128, &mut out);
    out
}

fn collect_unknown(schema: &Value, depth: usize, out: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let text = |key: &str| schema[key].as_str().unwrap_or_default();
    let format = text("format");
    if !format.is_empty() && !is_known(text("type"), format) {
        out.push(format.to_owned());
    }
    for inner in schema["properties"].as_object().into_iter().flat_map(|map| map.values()) {
        collect_unknown(inner, depth, out);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            collect_unknown(&schema[key], depth, out);
        }
    }
}
