//! Durations as Go writes them (`300ms`, `1h30m`, `-1.5s`), the form Kubernetes' tools take.

use std::time::Duration;

use jiff::SignedDuration;

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError<'a> {
    #[error("is not a duration")]
    Malformed,
    #[error("a unit is missing")]
    MissingUnit,
    #[error("`{0}` is no unit of time")]
    UnknownUnit(&'a str),
    #[error("is too long")]
    TooLong,
}

/// Reads a duration; every number but `0` needs a unit.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError<'_>> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let whole = take_digits(&mut rest);
        let fraction = match rest.strip_prefix('.') {
            Some(after) => {
                rest = after;
                take_digits(&mut rest)
            }
            None => "",
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Malformed);
        }
        let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let unit = unit(name)?;
        rest = after;
        let whole: u64 = match whole {
            "" => 0,
            digits => digits.parse().map_err(|_| DurationError::TooLong)?,
        };
        // An hour has 13 digits of nanoseconds: finer digits than 18 say nothing.
        let (part, scale) = fraction.bytes().take(18).fold((0_i128, 1_i128), |(part, scale), digit| {
            (part * 10 + i128::from(digit - b'0'), scale * 10)
        });
        nanos += i128::from(whole) * unit + part * unit / scale;
        if nanos > i128::from(i64::MAX) + 1 {
            return Err(DurationError::TooLong);
        }
    }
    let nanos = if negative { -nanos } else { nanos };
    i64::try_from(nanos).map(SignedDuration::from_nanos).map_err(|_| DurationError::TooLong)
}

/// Reads a duration that is not negative, as settings are.
pub fn span(text: &str) -> Option<Duration> {
    parse(text).ok().and_then(|signed| Duration::try_from(signed).ok())
}

fn take_digits<'a>(rest: &mut &'a str) -> &'a str {
    let (digits, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    *rest = after;
    digits
}

/// A unit's length in nanoseconds.
fn unit(name: &str) -> Result<i128, DurationError<'_>> {
    Ok(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(DurationError::MissingUnit),
        _ => return Err(DurationError::UnknownUnit(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("+0", Ok(0)),
            ("-0", Ok(0)),
            ("300ms", Ok(300_000_000)),
            ("1h30m", Ok(5_400_000_000_000)),
            ("1.5h", Ok(5_400_000_000_000)),
            ("1h2m3.5s", Ok(3_723_500_000_000)),
            (".5s", Ok(500_000_000)),
            ("5.s", Ok(5_000_000_000)),
            ("0.1s", Ok(100_000_000)),
            ("-1.5s", Ok(-1_500_000_000)),
            ("3µs", Ok(3_000)),
            ("3μs", Ok(3_000)),
            ("9223372036854775807ns", Ok(i64::MAX)),
            ("-9223372036854775808ns", Ok(i64::MIN)),
            ("0.3333333333333333333h", Ok(1_199_999_999_999)),
            ("9223372036854775808ns", Err(DurationError::TooLong)),
            ("999999999999h", Err(DurationError::TooLong)),
            ("99999999999999999999999s", Err(DurationError::TooLong)),
            ("10", Err(DurationError::MissingUnit)),
            ("1h5", Err(DurationError::MissingUnit)),
            ("3d", Err(DurationError::UnknownUnit("d"))),
            ("5 m", Err(DurationError::UnknownUnit(" m"))),
            ("5msx", Err(DurationError::UnknownUnit("msx"))),
            ("", Err(DurationError::Malformed)),
            ("s", Err(DurationError::Malformed)),
            (".s", Err(DurationError::Malformed)),
            ("-", Err(DurationError::Malformed)),
        ] {
            assert_eq!(parse(text), expected.map(SignedDuration::from_nanos), "{text}");
        }
    }

    #[test]
    fn a_span_is_not_negative() {
        assert_eq!(span("90s"), Some(Duration::from_secs(90)));
        assert_eq!(span("-5s"), None);
        assert_eq!(span("soon"), None);
    }
}
