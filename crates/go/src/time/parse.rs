//! Reading a time by a Go layout, with Go's error texts.

use super::layout::{LayoutElement, OffsetFormat, next};
use super::{DAYS, GoTime, GoZone, MONTHS, days_in, is_leap, quote};

/// A text that does not follow its layout; prints as Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// What went wrong with one element.
enum Fault {
    Bad,
    Range(&'static str),
}

type Taken<'a, T> = Result<(T, &'a [u8]), Fault>;

#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    yday: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    pm: Option<bool>,
    utc: bool,
    offset: Option<i32>,
    zone: Vec<u8>,
}

/// Parses `value` by `layout`; without a zone in the text the time is in `local`.
pub fn parse(layout: &[u8], value: &[u8], local: &GoZone) -> Result<GoTime, ParseError> {
    let with = |message: &str| ParseError(format!("parsing time {}{message}", quote(value)));
    let cannot = |element: &[u8], at: &[u8]| {
        with(&format!(" as {}: cannot parse {} as {}", quote(layout), quote(at), quote(element)))
    };
    let mut fields = Fields::default();
    let mut rest_layout = layout;
    let mut rest = value;
    loop {
        let (prefix, element, suffix) = next(rest_layout);
        rest = skip(rest, prefix).map_err(|at| cannot(prefix, at))?;
        let Some((element, text)) = element else {
            if !rest.is_empty() {
                return Err(with(&format!(": extra text: {}", quote(rest))));
            }
            break;
        };
        rest_layout = suffix;
        rest = match take(&mut fields, element, rest, rest_layout) {
            Ok(rest) => rest,
            Err(Fault::Bad) => return Err(cannot(text, rest)),
            Err(Fault::Range(what)) => return Err(with(&format!(": {what} out of range"))),
        };
    }
    finish(fields, local).map_err(|message| with(&format!(": {message}")))
}

fn finish(mut fields: Fields, local: &GoZone) -> Result<GoTime, &'static str> {
    match fields.pm {
        Some(true) if fields.hour < 12 => fields.hour += 12,
        Some(false) if fields.hour == 12 => fields.hour = 0,
        _ => {}
    }
    let year = fields.year;
    if let Some(yday) = fields.yday {
        if yday < 1 || yday > if is_leap(year) { 366 } else { 365 } {
            return Err("day-of-year out of range");
        }
        let (mut month, mut day) = (1, yday);
        while day > days_in(year, month) {
            day -= days_in(year, month);
            month += 1;
        }
        if fields.month.is_some_and(|seen| seen != month) {
            return Err("day-of-year does not match month");
        }
        if fields.day.is_some_and(|seen| seen != day) {
            return Err("day-of-year does not match day");
        }
        (fields.month, fields.day) = (Some(month), Some(day));
    }
    let (month, day) = (fields.month.unwrap_or(1), fields.day.unwrap_or(1));
    if day < 1 || day > days_in(year, month) {
        return Err("day out of range");
    }
    let at = |zone: GoZone| {
        let (hour, minute, second) = (fields.hour.into(), fields.minute.into(), fields.second.into());
        GoTime::date(year, month, day.into(), hour, minute, second, fields.nanos, zone)
    };
    if fields.utc {
        return Ok(at(GoZone::Utc));
    }
    let name = String::from_utf8_lossy(&fields.zone).into_owned();
    if let Some(offset) = fields.offset {
        let mut time = at(GoZone::Utc);
        time.secs -= i64::from(offset);
        let (local_offset, local_name) = local.lookup(time.secs);
        time.zone = if local_offset == offset && (name.is_empty() || name == local_name) {
            local.clone()
        } else {
            GoZone::Fixed { name, offset }
        };
        return Ok(time);
    }
    if !name.is_empty() {
        let mut time = at(GoZone::Utc);
        if let Some(offset) = local.lookup_name(&name, time.secs) {
            time.secs -= i64::from(offset);
            time.zone = local.clone();
            return Ok(time);
        }
        let hours = name.strip_prefix("GMT").and_then(|hours| hours.parse::<i32>().ok()).unwrap_or(0);
        // Go shifts how the time is shown, not the time.
        time.zone = GoZone::Fixed { name, offset: hours * 3600 };
        return Ok(time);
    }
    Ok(at(local.clone()))
}

fn take<'a>(
    fields: &mut Fields,
    element: LayoutElement,
    text: &'a [u8],
    layout: &[u8],
) -> Result<&'a [u8], Fault> {
    let rest;
    match element {
        LayoutElement::Year => {
            let digits = text.get(..2).ok_or(Fault::Bad)?;
            // Go reads a sign here too.
            let digits = if matches!(digits[0], b'+' | b'-') { &digits[1..] } else { digits };
            let year = i64::from(all_digits(digits)?);
            fields.year = if year >= 69 { year + 1900 } else { year + 2000 };
            rest = &text[2..];
        }
        LayoutElement::LongYear => {
            let digits = text.get(..4).ok_or(Fault::Bad)?;
            fields.year = i64::from(all_digits(digits)?);
            rest = &text[4..];
        }
        LayoutElement::Month | LayoutElement::LongMonth => {
            let found;
            (found, rest) = name(&MONTHS, element == LayoutElement::Month, text)?;
            fields.month = Some(found + 1);
        }
        LayoutElement::WeekDay | LayoutElement::LongWeekDay => {
            (_, rest) = name(&DAYS, element == LayoutElement::WeekDay, text)?;
        }
        LayoutElement::NumMonth | LayoutElement::ZeroMonth => {
            let month;
            (month, rest) = number(text, element == LayoutElement::ZeroMonth)?;
            if !(1..=12).contains(&month) {
                return Err(Fault::Range("month"));
            }
            fields.month = Some(month);
        }
        LayoutElement::Day | LayoutElement::UnderDay | LayoutElement::ZeroDay => {
            let text = if element == LayoutElement::UnderDay {
                text.strip_prefix(b" ").unwrap_or(text)
            } else {
                text
            };
            let day;
            (day, rest) = number(text, element == LayoutElement::ZeroDay)?;
            fields.day = Some(day);
        }
        LayoutElement::UnderYearDay | LayoutElement::ZeroYearDay => {
            let mut text = text;
            if element == LayoutElement::UnderYearDay {
                for _ in 0..2 {
                    text = text.strip_prefix(b" ").unwrap_or(text);
                }
            }
            let digits = text.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || (element == LayoutElement::ZeroYearDay && digits != 3) {
                return Err(Fault::Bad);
            }
            fields.yday = Some(all_digits(&text[..digits])?);
            rest = &text[digits..];
        }
        LayoutElement::Hour => {
            (fields.hour, rest) = number(text, false)?;
            if fields.hour >= 24 {
                return Err(Fault::Range("hour"));
            }
        }
        LayoutElement::Hour12 | LayoutElement::ZeroHour12 => {
            (fields.hour, rest) = number(text, element == LayoutElement::ZeroHour12)?;
            if fields.hour > 12 {
                return Err(Fault::Range("hour"));
            }
        }
        LayoutElement::Minute | LayoutElement::ZeroMinute => {
            (fields.minute, rest) = number(text, element == LayoutElement::ZeroMinute)?;
            if fields.minute >= 60 {
                return Err(Fault::Range("minute"));
            }
        }
        LayoutElement::Second | LayoutElement::ZeroSecond => {
            let after;
            (fields.second, after) = number(text, element == LayoutElement::ZeroSecond)?;
            if fields.second >= 60 {
                return Err(Fault::Range("second"));
            }
            // A fraction may follow even if the layout has none.
            let fraction = after.len() >= 2 && matches!(after[0], b'.' | b',') && after[1].is_ascii_digit();
            if fraction && !matches!(next(layout).1, Some((LayoutElement::Fraction { .. }, _))) {
                let len = 1 + after[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                fields.nanos = nanos(&after[..len])?;
                rest = &after[len..];
            } else {
                rest = after;
            }
        }
        LayoutElement::UpperPm | LayoutElement::LowerPm => {
            let upper = element == LayoutElement::UpperPm;
            fields.pm = Some(match text.get(..2).ok_or(Fault::Bad)? {
                b"PM" if upper => true,
                b"AM" if upper => false,
                b"pm" if !upper => true,
                b"am" if !upper => false,
                _ => return Err(Fault::Bad),
            });
            rest = &text[2..];
        }
        LayoutElement::Zone => {
            if let Some(after) = text.strip_prefix(b"UTC") {
                fields.utc = true;
                return Ok(after);
            }
            let len = zone_len(text).ok_or(Fault::Bad)?;
            fields.zone = text[..len].to_vec();
            rest = &text[len..];
        }
        LayoutElement::Offset(style) => rest = offset(fields, style, text)?,
        LayoutElement::Fraction { trim: false, digits, .. } => {
            let fraction = text.get(..=digits).ok_or(Fault::Bad)?;
            fields.nanos = nanos(fraction)?;
            rest = &text[digits + 1..];
        }
        LayoutElement::Fraction { trim: true, .. } => {
            if text.len() < 2 || !matches!(text[0], b'.' | b',') || !text[1].is_ascii_digit() {
                return Ok(text);
            }
            let len = 1 + text[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            fields.nanos = nanos(&text[..len])?;
            rest = &text[len..];
        }
    }
    Ok(rest)
}

fn offset<'a>(fields: &mut Fields, style: OffsetFormat, text: &'a [u8]) -> Result<&'a [u8], Fault> {
    if style.zulu
        && let Some(rest) = text.strip_prefix(b"Z")
    {
        fields.utc = true;
        return Ok(rest);
    }
    let parts = 1 + usize::from(style.minutes) + usize::from(style.seconds);
    let len = 1 + 2 * parts + if style.colon { parts - 1 } else { 0 };
    let shown = text.get(..len).ok_or(Fault::Bad)?;
    let mut values = [0_u32; 3];
    let mut bad = false;
    for (index, value) in values.iter_mut().enumerate().take(parts) {
        let start = 1 + index * if style.colon { 3 } else { 2 };
        if style.colon && index > 0 && shown[start - 1] != b':' {
            return Err(Fault::Bad);
        }
        match number(&shown[start..start + 2], true) {
            Ok((found, _)) => *value = found,
            Err(_) => {
                // What was read before is still checked, and reported first.
                bad = true;
                break;
            }
        }
    }
    let [hours, minutes, seconds] = values;
    // Offsets of 24 hours and 60 minutes are written by some and accepted.
    if hours > 24 {
        return Err(Fault::Range("time zone offset hour"));
    }
    if minutes > 60 {
        return Err(Fault::Range("time zone offset minute"));
    }
    if seconds > 60 {
        return Err(Fault::Range("time zone offset second"));
    }
    if bad {
        return Err(Fault::Bad);
    }
    let total = i32::try_from((hours * 60 + minutes) * 60 + seconds).unwrap_or(0);
    fields.offset = Some(match shown[0] {
        b'+' => total,
        b'-' => -total,
        _ => return Err(Fault::Bad),
    });
    Ok(&text[len..])
}

fn skip<'a>(value: &'a [u8], prefix: &[u8]) -> Result<&'a [u8], &'a [u8]> {
    let spaces = |text: &[u8]| text.iter().take_while(|&&byte| byte == b' ').count();
    let (mut value, mut prefix) = (value, prefix);
    while let Some(&first) = prefix.first() {
        if first == b' ' {
            if value.first().is_some_and(|&byte| byte != b' ') {
                return Err(value);
            }
            prefix = &prefix[spaces(prefix)..];
            value = &value[spaces(value)..];
            continue;
        }
        if value.first() != Some(&first) {
            return Err(value);
        }
        (value, prefix) = (&value[1..], &prefix[1..]);
    }
    Ok(value)
}

fn all_digits(text: &[u8]) -> Result<u32, Fault> {
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Bad);
    }
    Ok(text.iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0')))
}

fn number(text: &[u8], two_digits: bool) -> Taken<'_, u32> {
    let digits = text.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || (two_digits && digits == 1) {
        return Err(Fault::Bad);
    }
    Ok((all_digits(&text[..digits])?, &text[digits..]))
}

fn name<'a>(names: &[&str], short: bool, text: &'a [u8]) -> Taken<'a, u32> {
    for (index, name) in names.iter().enumerate() {
        let name = if short { &name[..3] } else { name };
        if text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())) {
            return Ok((u32::try_from(index).unwrap_or(0), &text[name.len()..]));
        }
    }
    Err(Fault::Bad)
}

fn nanos(text: &[u8]) -> Result<u32, Fault> {
    if !matches!(text.first(), Some(b'.' | b',')) {
        return Err(Fault::Bad);
    }
    let digits = &text[1..text.len().min(10)];
    let width = u32::try_from(digits.len()).unwrap_or(9);
    Ok(all_digits(digits)? * 10_u32.pow(9 - width))
}

/// The length of a time zone abbreviation.
fn zone_len(text: &[u8]) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_len(rest));
    }
    if matches!(text[0], b'+' | b'-') {
        return Some(signed_offset_len(text)).filter(|&len| len > 0);
    }
    match text.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count() {
        5 if text[4] == b'T' => Some(5),
        4 if text[3] == b'T' || text.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

fn signed_offset_len(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'+' | b'-')) {
        return 0;
    }
    let digits = text[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let hours = std::str::from_utf8(&text[1..=digits]).ok().and_then(|digits| digits.parse::<u32>().ok());
    if hours.is_some_and(|hours| hours <= 23) { digits + 1 } else { 0 }
}
