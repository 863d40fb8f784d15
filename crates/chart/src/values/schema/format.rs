//! The `format` keyword: what the named formats accept.

use std::net::{Ipv4Addr, Ipv6Addr};

use slipway_go::regexp::Regexp;

/// Returns true if `text` has the named format; unknown formats accept anything.
pub(super) fn matches_format(name: &str, text: &str) -> bool {
    match name {
        "date" => is_date(text),
        "time" => is_time(text),
        "date-time" => date_time(text),
        "hostname" => is_hostname(text),
        "email" | "idn-email" => is_email(text),
        "ipv4" => text.contains('.') && text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "uri" | "iri" => url::Url::parse(text).is_ok() && !text.contains('\\'),
        "uri-reference" | "iri-reference" => {
            !text.contains('\\')
                && url::Url::options()
                    .base_url(url::Url::parse("http://base.invalid/").ok().as_ref())
                    .parse(text)
                    .is_ok()
        }
        "uri-template" => uri_template(text),
        "uuid" => is_uuid(text),
        "regex" => !text.is_empty() && Regexp::compile(text.as_bytes()).is_ok(),
        "json-pointer" => text.is_empty() || is_json_pointer(text),
        "relative-json-pointer" => {
            let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
            rest.len() < text.len() && (rest.is_empty() || rest == "#" || is_json_pointer(rest))
        }
        _ => true,
    }
}

fn parse_digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) =
        (parse_digits(year, 4), parse_digits(month, 2), parse_digits(day, 2))
    else {
        return false;
    };
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last).contains(&day)
}

fn is_clock_time(text: &str) -> bool {
    let whole = text.split_once('.').map_or(Some(text), |(whole, fraction)| {
        (!fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())).then_some(whole)
    });
    let Some(whole) = whole else { return false };
    let parts: Vec<Option<u32>> = whole.split(':').map(|part| parse_digits(part, 2)).collect();
    matches!(parts.as_slice(), [Some(0..=23), Some(0..=59), Some(0..=59)])
}

fn with_zone(text: &str) -> bool {
    if let Some(clock_text) = text.strip_suffix('Z') {
        return is_clock_time(clock_text);
    }
    let Some(at) = text.rfind(['+', '-']) else { return false };
    let parts: Vec<Option<u32>> = text[at + 1..].split(':').map(|part| parse_digits(part, 2)).collect();
    matches!(parts.as_slice(), [Some(0..=23), Some(0..=59)]) && is_clock_time(&text[..at])
}

fn is_time(text: &str) -> bool {
    is_clock_time(text) || with_zone(text)
}

fn date_time(text: &str) -> bool {
    if is_date(text) || is_time(text) {
        return true;
    }
    match text.split_once('T') {
        Some((day, rest)) => is_date(day) && with_zone(rest),
        None => false,
    }
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    !text.is_empty() && text.len() < 256 && text.split('.').all(label)
}

fn is_email(text: &str) -> bool {
    match text.rsplit_once('@') {
        Some((local, domain)) => {
            !local.is_empty()
                && !domain.is_empty()
                && !text.contains([' ', '<', '>', ','])
                && !local.contains('@')
        }
        None => false,
    }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()))
}

fn is_json_pointer(text: &str) -> bool {
    text.starts_with('/')
        && text.split('~').skip(1).all(|rest| rest.starts_with('0') || rest.starts_with('1'))
}

fn uri_template(text: &str) -> bool {
    let mut open = false;
    for letter in text.chars() {
        match (letter, open) {
            ('{', false) => open = true,
            ('}', true) => open = false,
            ('{', true) | ('}', false) => return false,
            _ => {}
        }
    }
    !open
}
