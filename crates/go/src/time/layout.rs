//! Go's layouts: the reference time `Mon Jan 2 15:04:05 MST 2006` spelled out as a pattern.

use super::{DAYS, GoTime, MONTHS};

/// How an offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// `Z` stands for a zero offset.
    pub(super) zulu: bool,
    pub(super) colon: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
}

/// One element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    Zone,
    Offset(Offset),
    /// Fractional seconds with their separator and number of digits.
    Fraction {
        trim: bool,
        digits: usize,
        separator: u8,
    },
}

/// An element and its own text.
type Found<'a> = (Element, &'a [u8]);

/// The text before the first element, the element with its own text, and what follows.
pub(super) fn next(layout: &[u8]) -> (&[u8], Option<Found<'_>>, &[u8]) {
    for at in 0..layout.len() {
        if let Some((element, skip, len)) = element_at(&layout[at..]) {
            let start = at + skip;
            return (&layout[..start], Some((element, &layout[start..start + len])), &layout[start + len..]);
        }
    }
    (layout, None, b"")
}

/// The element at the start, how many bytes come before it, and its length.
fn element_at(text: &[u8]) -> Option<(Element, usize, usize)> {
    let lower_follows = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
    let found = match text[0] {
        b'J' if text.starts_with(b"January") => (Element::LongMonth, 7),
        b'J' if text.starts_with(b"Jan") && !lower_follows(3) => (Element::Month, 3),
        b'M' if text.starts_with(b"Monday") => (Element::LongWeekDay, 6),
        b'M' if text.starts_with(b"Mon") && !lower_follows(3) => (Element::WeekDay, 3),
        b'M' if text.starts_with(b"MST") => (Element::Zone, 3),
        b'0' => match text.get(1)? {
            b'1' => (Element::ZeroMonth, 2),
            b'2' => (Element::ZeroDay, 2),
            b'3' => (Element::ZeroHour12, 2),
            b'4' => (Element::ZeroMinute, 2),
            b'5' => (Element::ZeroSecond, 2),
            b'6' => (Element::Year, 2),
            b'0' if text.get(2) == Some(&b'2') => (Element::ZeroYearDay, 3),
            _ => return None,
        },
        b'1' if text.get(1) == Some(&b'5') => (Element::Hour, 2),
        b'1' => (Element::NumMonth, 1),
        b'2' if text.starts_with(b"2006") => (Element::LongYear, 4),
        b'2' => (Element::Day, 1),
        b'_' if text.starts_with(b"_2006") => return Some((Element::LongYear, 1, 4)),
        b'_' if text.starts_with(b"_2") => (Element::UnderDay, 2),
        b'_' if text.starts_with(b"__2") => (Element::UnderYearDay, 3),
        b'3' => (Element::Hour12, 1),
        b'4' => (Element::Minute, 1),
        b'5' => (Element::Second, 1),
        b'P' if text.starts_with(b"PM") => (Element::UpperPm, 2),
        b'p' if text.starts_with(b"pm") => (Element::LowerPm, 2),
        b'-' | b'Z' => {
            let rest = &text[1..];
            let (colon, minutes, seconds, len) = if rest.starts_with(b"070000") {
                (false, true, true, 7)
            } else if rest.starts_with(b"07:00:00") {
                (true, true, true, 9)
            } else if rest.starts_with(b"0700") {
                (false, true, false, 5)
            } else if rest.starts_with(b"07:00") {
                (true, true, false, 6)
            } else if rest.starts_with(b"07") {
                (false, false, false, 3)
            } else {
                return None;
            };
            (Element::Offset(Offset { zulu: text[0] == b'Z', colon, minutes, seconds }), len)
        }
        b'.' | b',' => {
            let digit = *text.get(1).filter(|digit| matches!(digit, b'0' | b'9'))?;
            let digits = text[1..].iter().take_while(|&&byte| byte == digit).count();
            if text.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            (Element::Fraction { trim: digit == b'9', digits, separator: text[0] }, 1 + digits)
        }
        _ => return None,
    };
    Some((found.0, 0, found.1))
}

/// Writes an instant by a layout.
pub(super) fn format(time: &GoTime, layout: &[u8]) -> Vec<u8> {
    let civil = time.civil();
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut rest = layout;
    loop {
        let (prefix, element, suffix) = next(rest);
        out.extend_from_slice(prefix);
        let Some((element, _)) = element else { return out };
        rest = suffix;
        let text = match element {
            Element::Year => format!("{:02}", civil.year.unsigned_abs() % 100),
            Element::LongYear if civil.year < 0 => format!("-{:04}", civil.year.unsigned_abs()),
            Element::LongYear => format!("{:04}", civil.year),
            Element::LongMonth => month(civil.month).to_owned(),
            Element::Month => month(civil.month)[..3].to_owned(),
            Element::NumMonth => civil.month.to_string(),
            Element::ZeroMonth => format!("{:02}", civil.month),
            Element::LongWeekDay => day(civil.weekday).to_owned(),
            Element::WeekDay => day(civil.weekday)[..3].to_owned(),
            Element::Day => civil.day.to_string(),
            Element::UnderDay => format!("{:2}", civil.day),
            Element::ZeroDay => format!("{:02}", civil.day),
            Element::UnderYearDay => format!("{:3}", civil.yday),
            Element::ZeroYearDay => format!("{:03}", civil.yday),
            Element::Hour => format!("{:02}", civil.hour),
            Element::Hour12 => hour12(civil.hour).to_string(),
            Element::ZeroHour12 => format!("{:02}", hour12(civil.hour)),
            Element::Minute => civil.minute.to_string(),
            Element::ZeroMinute => format!("{:02}", civil.minute),
            Element::Second => civil.second.to_string(),
            Element::ZeroSecond => format!("{:02}", civil.second),
            Element::UpperPm => if civil.hour >= 12 { "PM" } else { "AM" }.to_owned(),
            Element::LowerPm => if civil.hour >= 12 { "pm" } else { "am" }.to_owned(),
            Element::Zone if civil.abbreviation.is_empty() => {
                let style = Offset { zulu: false, colon: false, minutes: true, seconds: false };
                offset(civil.offset, style)
            }
            Element::Zone => civil.abbreviation.clone(),
            Element::Offset(style) => offset(civil.offset, style),
            Element::Fraction { trim, digits, separator } => {
                let all = format!("{:09}", time.nanos);
                let mut shown: String = all.chars().chain(std::iter::repeat('0')).take(digits).collect();
                if trim {
                    shown.truncate(shown.trim_end_matches('0').len());
                }
                if shown.is_empty() { shown } else { format!("{}{shown}", char::from(separator)) }
            }
        };
        out.extend_from_slice(text.as_bytes());
    }
}

fn month(month: u32) -> &'static str {
    MONTHS[(month as usize + 11) % 12]
}

fn day(weekday: u32) -> &'static str {
    DAYS[weekday as usize % 7]
}

fn hour12(hour: u32) -> u32 {
    if hour.is_multiple_of(12) { 12 } else { hour % 12 }
}

fn offset(seconds: i32, style: Offset) -> String {
    if style.zulu && seconds == 0 {
        return "Z".to_owned();
    }
    let minutes = seconds / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.abs();
    let colon = if style.colon { ":" } else { "" };
    let mut out = format!("{sign}{:02}", minutes / 60);
    if style.minutes {
        out.push_str(&format!("{colon}{:02}", minutes % 60));
    }
    if style.seconds {
        out.push_str(&format!("{colon}{:02}", seconds.abs() % 60));
    }
    out
}
