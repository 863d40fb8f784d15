//! Times and durations: their text forms and their parts.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::{Answer, Functions};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// Returns true if a time lies in the years 1 to 9999.
pub(crate) fn in_range(time: Timestamp) -> bool {
    const FIRST: i64 = -62_135_596_800;
    const LAST: i64 = 253_402_300_799;
    (FIRST..=LAST).contains(&time.as_second())
}

/// Reads a time as RFC 3339 writes it.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // The reader takes more forms than the standard allows.
    let shape = bytes.len() >= 20
        && bytes[..19].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T' || *byte == b't',
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
    let zone = text.ends_with(['Z', 'z'])
        || (bytes.len() > 25 - 1
            && matches!(bytes[bytes.len() - 6], b'+' | b'-')
            && bytes[bytes.len() - 3] == b':');
    if !shape || !zone || text.contains('[') {
        return None;
    }
    text.parse().ok().filter(|time| in_range(*time))
}

/// Reads a duration as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<SignedDuration> {
    slipway_go::time::Duration::parse(text.as_bytes()).ok().map(SignedDuration::from)
}

/// A zone by name or by its distance from UTC (`+02:00`, `-8:00`, `02:00`).
fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let Some((hours, minutes)) = name.split_once(':') else { return TimeZone::get(name).ok() };
    let negative = hours.starts_with('-');
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
    Offset::from_seconds(if negative { -seconds } else { seconds }).ok().map(TimeZone::fixed)
}

type Part = fn(&Zoned) -> i64;

const PARTS: &[(&str, Part)] = &[
    ("getFullYear", |time| time.year().into()),
    ("getMonth", |time| i64::from(time.month()) - 1),
    ("getDayOfYear", |time| i64::from(time.day_of_year()) - 1),
    ("getDayOfMonth", |time| i64::from(time.day()) - 1),
    ("getDate", |time| time.day().into()),
    ("getDayOfWeek", |time| time.weekday().to_sunday_zero_offset().into()),
    ("getHours", |time| time.hour().into()),
    ("getMinutes", |time| time.minute().into()),
    ("getSeconds", |time| time.second().into()),
    ("getMilliseconds", |time| time.millisecond().into()),
];

pub(super) fn add(functions: &mut Functions) {
    for (name, part) in PARTS {
        functions.method(name, vec![Type::Timestamp], Type::Int, |_, args| of(*part, args));
        functions.method(name, vec![Type::Timestamp, Type::String], Type::Int, |_, args| of(*part, args));
    }
    type Span = (&'static str, fn(SignedDuration) -> i64);
    let spans: [Span; 4] = [
        ("getHours", |span| span.as_secs() / 3600),
        ("getMinutes", |span| span.as_secs() / 60),
        ("getSeconds", |span| span.as_secs()),
        ("getMilliseconds", |span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
    ];
    for (name, part) in spans {
        functions.method(name, vec![Type::Duration], Type::Int, move |_, args| match args {
            [Value::Duration(span)] => Ok(Value::Int(part(*span))),
            _ => Err(EvalError::no_overload()),
        });
    }
}

fn of<'a>(part: Part, args: &[Value<'a>]) -> Answer<'a> {
    match args {
        [Value::Timestamp(time)] => Ok(Value::Int(part(&time.to_zoned(TimeZone::UTC)))),
        [Value::Timestamp(time), Value::String(name)] => match zone(name) {
            Some(zone) => Ok(Value::Int(part(&time.to_zoned(zone)))),
            None => Err(EvalError::invalid(format!("unknown time zone {name}"))),
        },
        _ => Err(EvalError::no_overload()),
    }
}
