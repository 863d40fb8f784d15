//! Moments as people say them: `Saturday 3pm`, `+2h`, `2026-04-11T15:00:00Z`.

use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use slipway_go::time::Duration as GoSpan;

/// Why a text is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no moment; write a day and a time (`Saturday 3pm`, `Mon 09:30`), a distance (`+2h`, `+3d`) or a date with a time (`2026-04-11T15:00:00Z`)"
)]
pub struct WhenError(pub String);

/// Reads a moment after `now`; days and times are those of the zone.
///
/// A day of the week is the next one with that time, today included.
pub fn parse_when(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, WhenError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let found = match words[..] {
        ["now"] => Some(now),
        [one] if one.starts_with('+') => {
            parse_distance(&one[1..]).and_then(|ahead| now.checked_add(ahead).ok())
        }
        [one] => match (parse_day(one), parse_time(one)) {
            (Some(day), _) => next_day(day, Time::midnight(), now, zone),
            (None, Some(time)) => next_time(time, now, zone),
            (None, None) => parse_date(one, zone),
        },
        [day, time] => match (parse_day(day), parse_time(time)) {
            (Some(day), Some(time)) => next_day(day, time, now, zone),
            (None, Some(_)) => parse_date(&format!("{day}T{time}"), zone),
            _ => None,
        },
        // `Saturday 3 pm`
        [day, hour, half] => {
            let time = parse_time(&format!("{hour}{half}"));
            parse_day(day).zip(time).and_then(|(day, time)| next_day(day, time, now, zone))
        }
        _ => None,
    };
    found.ok_or_else(|| WhenError(text.to_owned()))
}

fn parse_day(text: &str) -> Option<Weekday> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let text = text.to_ascii_lowercase();
    DAYS.iter().find(|(name, _)| *name == text || name[..3] == text).map(|(_, day)| *day)
}

/// A time of day: `3pm`, `12am`, `3:30pm`, `15:30`.
fn parse_time(text: &str) -> Option<Time> {
    let text = text.to_ascii_lowercase();
    let (digits, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (None, Some(digits)) => (digits, Some(12)),
        (None, None) => (text.as_str(), None),
    };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) if minute.len() == 2 => (number(hour)?, number(minute)?),
        Some(_) => return None,
        // A number alone is no time.
        None => (number(digits)?, half.map(|_| 0)?),
    };
    let hour = match half {
        // Twelve is the first hour of its half.
        Some(half) => (1..=12).contains(&hour).then_some(hour % 12 + half)?,
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn number(text: &str) -> Option<i8> {
    let plain = !text.is_empty() && text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A duration as Go writes it, with days before it: `2h`, `3d`, `1d12h`.
fn parse_distance(text: &str) -> Option<SignedDuration> {
    if text.is_empty() {
        return None;
    }
    let (days, rest) = match text.split_once('d') {
        Some((days, rest)) => (days.parse::<u32>().ok()?, rest),
        None => (0, text),
    };
    let days = SignedDuration::from_hours(i64::from(days) * 24);
    if rest.is_empty() {
        return Some(days);
    }
    let span = GoSpan::parse_unsigned(rest)?;
    days.checked_add(SignedDuration::try_from(span).ok()?)
}

/// RFC 3339, or a date with a time in the zone.
fn parse_date(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let local: DateTime = text.parse().ok()?;
    zone.to_timestamp(local).ok()
}

fn next_day(day: Weekday, time: Time, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = now.to_zoned(zone.clone()).date();
    let ahead = today.weekday().until(day);
    [ahead, ahead + 7].into_iter().find_map(|days| {
        let date = today.checked_add(jiff::Span::new().days(days)).ok()?;
        zone.to_timestamp(date.to_datetime(time)).ok().filter(|at| *at >= now)
    })
}

fn next_time(time: Time, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = now.to_zoned(zone.clone()).date();
    [Some(today), today.tomorrow().ok()]
        .into_iter()
        .flatten()
        .find_map(|date| zone.to_timestamp(date.to_datetime(time)).ok().filter(|at| *at >= now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_say_them() {
        // A Friday.
        let now: Timestamp = "2026-04-10T12:00:00Z".parse().expect("is a time");
        for (text, expected) in [
            ("Saturday 3pm", "2026-04-11T15:00:00Z"),
            ("saturday 3 PM", "2026-04-11T15:00:00Z"),
            ("sat 15:30", "2026-04-11T15:30:00Z"),
            ("Sat 12am", "2026-04-11T00:00:00Z"),
            ("Sat 12pm", "2026-04-11T12:00:00Z"),
            ("Sat 12:30am", "2026-04-11T00:30:00Z"),
            ("Monday", "2026-04-13T00:00:00Z"),
            ("Friday 13:00", "2026-04-10T13:00:00Z"),
            ("Friday 11:00", "2026-04-17T11:00:00Z"),
            ("Friday 12:00", "2026-04-10T12:00:00Z"),
            ("9am", "2026-04-11T09:00:00Z"),
            ("+2h", "2026-04-10T14:00:00Z"),
            ("+1d12h", "2026-04-12T00:00:00Z"),
            ("+3d", "2026-04-13T12:00:00Z"),
            ("2026-05-01T08:00:00+02:00", "2026-05-01T06:00:00Z"),
            ("2026-05-01 08:00", "2026-05-01T08:00:00Z"),
            ("now", "2026-04-10T12:00:00Z"),
        ] {
            let found = parse_when(text, now, &TimeZone::UTC).map(|at| at.to_string());
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
        let berlin = TimeZone::get("Europe/Berlin").expect("is known");
        let found = parse_when("Saturday 3pm", now, &berlin).expect("is read");
        assert_eq!(found.to_string(), "2026-04-11T13:00:00Z");
        for text in [
            "",
            "Caturday 3pm",
            "Saturday 3",
            "Saturday 13pm",
            "Saturday 0am",
            "25:00",
            "15:5",
            "3",
            "+",
            "+2x",
            "next week",
            "Saturday 3pm UTC now",
            "Saturday 24:00",
            "2026-13-01T00:00:00Z",
            "12:60",
            "+1d-2h",
        ] {
            assert!(parse_when(text, now, &TimeZone::UTC).is_err(), "{text}");
        }
    }
}
