//! Go's layouts: the reference time `Mon Jan 2 15:04:05 MST 2006` spelled out as a pattern.

use super::{DAYS, GoTime, MONTHS};

/// How an offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetFormat {
    /// `Z` stands for a zero offset.
    pub(super) zulu: bool,
    pub(super) colon: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
}

/// One element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayoutElement {
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
    Offset(OffsetFormat),
    /// Fractional seconds with their separator and number of digits.
    Fraction {
        trim: bool,
        digits: usize,
        separator: u8,
    },
}

/// An element and its own text.
type Found<'a> = (LayoutElement, &'a [u8]);

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
fn element_at(text: &[u8]) -> Option<(LayoutElement, usize, usize)> {
    let lower_follows = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
    let found = match text[0] {
        b'J' if text.starts_with(b"January") => (LayoutElement::LongMonth, 7),
        b'J' if text.starts_with(b"Jan") && !lower_follows(3) => (LayoutElement::Month, 3),
        b'M' if text.starts_with(b"Monday") => (LayoutElement::LongWeekDay, 6),
        b'M' if text.starts_with(b"Mon") && !lower_follows(3) => (LayoutElement::WeekDay, 3),
        b'M' if text.starts_with(b"MST") => (LayoutElement::Zone, 3),
        b'0' => match text.get(1)? {
            b'1' => (LayoutElement::ZeroMonth, 2),
            b'2' => (LayoutElement::ZeroDay, 2),
            b'3' => (LayoutElement::ZeroHour12, 2),
            b'4' => (LayoutElement::ZeroMinute, 2),
            b'5' => (LayoutElement::ZeroSecond, 2),
            b'6' => (LayoutElement::Year, 2),
            b'0' if text.get(2) == Some(&b'2') => (LayoutElement::ZeroYearDay, 3),
            _ => return None,
        },
        b'1' if text.get(1) == Some(&b'5') => (LayoutElement::Hour, 2),
        b'1' => (LayoutElement::NumMonth, 1),
        b'2' if text.starts_with(b"2006") => (LayoutElement::LongYear, 4),
        b'2' => (LayoutElement::Day, 1),
        b'_' if text.starts_with(b"_2006") => return Some((LayoutElement::LongYear, 1, 4)),
        b'_' if text.starts_with(b"_2") => (LayoutElement::UnderDay, 2),
        b'_' if text.starts_with(b"__2") => (LayoutElement::UnderYearDay, 3),
        b'3' => (LayoutElement::Hour12, 1),
        b'4' => (LayoutElement::Minute, 1),
        b'5' => (LayoutElement::Second, 1),
        b'P' if text.starts_with(b"PM") => (LayoutElement::UpperPm, 2),
        b'p' if text.starts_with(b"pm") => (LayoutElement::LowerPm, 2),
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
            (LayoutElement::Offset(OffsetFormat { zulu: text[0] == b'Z', colon, minutes, seconds }), len)
        }
        b'.' | b',' => {
            let digit = *text.get(1).filter(|digit| matches!(digit, b'0' | b'9'))?;
            let digits = text[1..].iter().take_while(|&&byte| byte == digit).count();
            if text.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            (LayoutElement::Fraction { trim: digit == b'9', digits, separator: text[0] }, 1 + digits)
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
            LayoutElement::Year => format!("{:02}", civil.year.unsigned_abs() % 100),
            LayoutElement::LongYear if civil.year < 0 => format!("-{:04}", civil.year.unsigned_abs()),
            LayoutElement::LongYear => format!("{:04}", civil.year),
            LayoutElement::LongMonth => month(civil.month).to_owned(),
            LayoutElement::Month => month(civil.month)[..3].to_owned(),
            LayoutElement::NumMonth => civil.month.to_string(),
            LayoutElement::ZeroMonth => format!("{:02}", civil.month),
            LayoutElement::LongWeekDay => day(civil.weekday).to_owned(),
            LayoutElement::WeekDay => day(civil.weekday)[..3].to_owned(),
            LayoutElement::Day => civil.day.to_string(),
            LayoutElement::UnderDay => format!("{:2}", civil.day),
            LayoutElement::ZeroDay => format!("{:02}", civil.day),
            LayoutElement::UnderYearDay => format!("{:3}", civil.yday),
            LayoutElement::ZeroYearDay => format!("{:03}", civil.yday),
            LayoutElement::Hour => format!("{:02}", civil.hour),
            LayoutElement::Hour12 => hour12(civil.hour).to_string(),
            LayoutElement::ZeroHour12 => format!("{:02}", hour12(civil.hour)),
            LayoutElement::Minute => civil.minute.to_string(),
            LayoutElement::ZeroMinute => format!("{:02}", civil.minute),
            LayoutElement::Second => civil.second.to_string(),
            LayoutElement::ZeroSecond => format!("{:02}", civil.second),
            LayoutElement::UpperPm => if civil.hour >= 12 { "PM" } else { "AM" }.to_owned(),
            LayoutElement::LowerPm => if civil.hour >= 12 { "pm" } else { "am" }.to_owned(),
            LayoutElement::Zone if civil.abbreviation.is_empty() => {
                let style = OffsetFormat { zulu: false, colon: false, minutes: true, seconds: false };
                offset(civil.offset, style)
            }
            LayoutElement::Zone => civil.abbreviation.clone(),
            LayoutElement::Offset(style) => offset(civil.offset, style),
            LayoutElement::Fraction { trim, digits, separator } => {
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

fn offset(seconds: i32, style: OffsetFormat) -> String {
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
