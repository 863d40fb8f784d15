//! Durations: `1h2m3.5s` in and out.

use std::fmt;

use super::quote_text;

/// A signed number of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Duration(pub i64);

/// A text that is not a duration; prints as Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a sequence of numbers with units, or longer than 292 years.
    #[error("time: invalid duration {}", quote_text(.text))]
    Invalid {
        /// The whole text.
        text: Vec<u8>,
    },
    /// A number other than `0` without a unit.
    #[error("time: missing unit in duration {}", quote_text(.text))]
    MissingUnit {
        /// The whole text.
        text: Vec<u8>,
    },
    /// A unit Go does not know, such as `d`.
    #[error("time: unknown unit {} in duration {}", quote_text(.unit), quote_text(.text))]
    UnknownUnit {
        /// The unit as written.
        unit: Vec<u8>,
        /// The whole text.
        text: Vec<u8>,
    },
}

const SECOND: u64 = 1_000_000_000;
const LIMIT: u64 = 1 << 63;

impl Duration {
    /// Parses a sequence of decimal numbers with units.
    pub fn parse(text: &[u8]) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid { text: text.to_vec() };
        let (negative, mut rest) = match text.first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == b"0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_u64;
        while let Some(&first) = rest.first() {
            if first != b'.' && !first.is_ascii_digit() {
                return Err(invalid());
            }
            let (whole, digits) = leading_int(rest).ok_or_else(invalid)?;
            rest = &rest[digits..];
            let mut has_digits = digits > 0;
            let (mut fraction, mut scale) = (0, 1.0);
            if rest.first() == Some(&b'.') {
                rest = &rest[1..];
                let digits;
                (fraction, scale, digits) = leading_fraction(rest);
                has_digits |= digits > 0;
                rest = &rest[digits..];
            }
            if !has_digits {
                return Err(invalid());
            }
            let len = rest.iter().take_while(|&&byte| byte != b'.' && !byte.is_ascii_digit()).count();
            if len == 0 {
                return Err(DurationError::MissingUnit { text: text.to_vec() });
            }
            let name = &rest[..len];
            let unit = unit_nanos(name)
                .ok_or_else(|| DurationError::UnknownUnit { unit: name.to_vec(), text: text.to_vec() })?;
            rest = &rest[len..];
            if whole > LIMIT / unit {
                return Err(invalid());
            }
            let mut value = whole * unit;
            if fraction > 0 {
                #[expect(clippy::cast_precision_loss, reason = "Go computes the fraction in floats")]
                let part = fraction as f64 * (unit as f64 / scale);
                value = value.saturating_add(part as u64);
            }
            total = total.saturating_add(value);
            if value > LIMIT || total > LIMIT {
                return Err(invalid());
            }
        }
        if negative {
            return Ok(Self(0_i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }

    /// Parses a duration that is not negative, as settings are.
    pub fn parse_unsigned(text: &str) -> Option<std::time::Duration> {
        let Self(nanos) = Self::parse(text.as_bytes()).ok()?;
        u64::try_from(nanos).ok().map(std::time::Duration::from_nanos)
    }

    /// As [`Duration::parse_unsigned`], with whole days allowed in front: `14d`, `1d12h`. Go has no days; settings do.
    pub fn parse_days(text: &str) -> Option<std::time::Duration> {
        const DAY: u64 = 24 * 60 * 60;
        let Some((days, rest)) = text.split_once('d') else { return Self::parse_unsigned(text) };
        if days.is_empty() || !days.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let seconds = days.parse::<u64>().ok()?.checked_mul(DAY)?;
        let rest = if rest.is_empty() { std::time::Duration::ZERO } else { Self::parse_unsigned(rest)? };
        std::time::Duration::from_secs(seconds).checked_add(rest)
    }

    /// The nearest multiple of `unit`, halves away from zero.
    pub fn round(self, unit: Self) -> Self {
        if unit.0 <= 0 {
            return self;
        }
        let rest = self.0 % unit.0;
        let down = self.0 - rest;
        if rest.unsigned_abs() * 2 < unit.0.unsigned_abs() {
            Self(down)
        } else {
            Self(down.saturating_add(if self.0 < 0 { -unit.0 } else { unit.0 }))
        }
    }
}

impl From<Duration> for jiff::SignedDuration {
    fn from(Duration(nanos): Duration) -> Self {
        Self::from_nanos(nanos)
    }
}

fn unit_nanos(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"ns" => 1,
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1000,
        b"ms" => 1_000_000,
        b"s" => SECOND,
        b"m" => 60 * SECOND,
        b"h" => 3600 * SECOND,
        _ => return None,
    })
}

fn leading_int(text: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut digits = 0;
    for &byte in text.iter().take_while(|byte| byte.is_ascii_digit()) {
        if value > LIMIT / 10 {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
        if value > LIMIT {
            return None;
        }
        digits += 1;
    }
    Some((value, digits))
}

fn leading_fraction(text: &[u8]) -> (u64, f64, usize) {
    let (mut value, mut scale, mut digits, mut full) = (0_u64, 1.0, 0, false);
    for &byte in text.iter().take_while(|byte| byte.is_ascii_digit()) {
        digits += 1;
        if full {
            continue;
        }
        if value > (LIMIT - 1) / 10 {
            full = true;
            continue;
        }
        let next = value * 10 + u64::from(byte - b'0');
        if next > LIMIT {
            full = true;
            continue;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale, digits)
}

impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if total == 0 {
            return out.write_str("0s");
        }
        if self.0 < 0 {
            out.write_str("-")?;
        }
        let (unit, suffix) = match total {
            ..1000 => (1, "ns"),
            1000..1_000_000 => (1000, "µs"),
            1_000_000..SECOND => (1_000_000, "ms"),
            _ => {
                let seconds = total / SECOND;
                if seconds >= 3600 {
                    write!(out, "{}h", seconds / 3600)?;
                }
                if seconds >= 60 {
                    write!(out, "{}m", seconds / 60 % 60)?;
                }
                write!(out, "{}", seconds % 60)?;
                return write_fraction(out, total % SECOND, 9, "s");
            }
        };
        write!(out, "{}", total / unit)?;
        let width = match unit {
            1 => 0,
            1000 => 3,
            _ => 6,
        };
        write_fraction(out, total % unit, width, suffix)
    }
}

fn write_fraction(out: &mut fmt::Formatter<'_>, fraction: u64, width: usize, suffix: &str) -> fmt::Result {
    if fraction > 0 {
        let digits = format!("{fraction:0width$}");
        write!(out, ".{}", digits.trim_end_matches('0'))?;
    }
    out.write_str(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("300ms", 300_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1h2m3.5s", 3_723_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("0.1s", 100_000_000),
            ("-1.5s", -1_500_000_000),
            ("3µs", 3_000),
            ("3μs", 3_000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("0.3333333333333333333h", 1_200_000_000_000),
        ] {
            assert_eq!(Duration::parse(text.as_bytes()), Ok(Duration(nanos)), "{text}");
        }
    }

    #[test]
    fn refuses_in_gos_words() {
        for (text, message) in [
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("999999999999h", "time: invalid duration \"999999999999h\""),
            ("99999999999999999999999s", "time: invalid duration \"99999999999999999999999s\""),
            ("10", "time: missing unit in duration \"10\""),
            ("1h5", "time: missing unit in duration \"1h5\""),
            ("3d", "time: unknown unit \"d\" in duration \"3d\""),
            ("5 m", "time: unknown unit \" m\" in duration \"5 m\""),
            ("5msx", "time: unknown unit \"msx\" in duration \"5msx\""),
            ("", "time: invalid duration \"\""),
            ("s", "time: invalid duration \"s\""),
            (".s", "time: invalid duration \".s\""),
            ("-", "time: invalid duration \"-\""),
        ] {
            let refused = Duration::parse(text.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(refused, Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn settings_are_not_negative() {
        assert_eq!(Duration::parse_unsigned("90s"), Some(std::time::Duration::from_secs(90)));
        assert_eq!(Duration::parse_unsigned("-5s"), None);
        assert_eq!(Duration::parse_unsigned("soon"), None);
    }

    #[test]
    fn settings_may_count_days() {
        let hours = |hours: u64| Some(std::time::Duration::from_secs(hours * 3600));
        for (text, expected) in
            [("14d", hours(336)), ("1d12h", hours(36)), ("2h", hours(2)), ("0d", hours(0))]
        {
            assert_eq!(Duration::parse_days(text), expected, "{text}");
        }
        for text in ["d", "-1d", "1.5d", "1d2d", "99999999999999999999d", "1dx"] {
            assert_eq!(Duration::parse_days(text), None, "{text}");
        }
    }
}
