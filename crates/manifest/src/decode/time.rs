//! Times as Go reads them: element by element, so that an error names the one that does not fit.

use jiff::civil;
use jiff::tz::Offset;
use slipway_go::GoError;

/// The precision of the seconds of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimePrecision {
    Seconds,
    /// Six digits, always.
    Micros,
}

impl TimePrecision {
    fn layout(self) -> &'static str {
        match self {
            TimePrecision::Seconds => "2006-01-02T15:04:05Z07:00",
            TimePrecision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Reads a time; the error is the text of Go's.
pub(super) fn parse_time(text: &str, precision: TimePrecision) -> Result<jiff::Timestamp, GoError> {
    let mut reader = TimeReader { text, rest: text, layout: precision.layout() };
    let year = reader.read_year()?;
    reader.read_literal("-")?;
    let month = reader.read_number("01", true, 1..=12, "month")?;
    reader.read_literal("-")?;
    let day = reader.read_number("02", true, 0..=99, "day")?;
    reader.read_literal("T")?;
    let hour = reader.read_number("15", false, 0..=23, "hour")?;
    reader.read_literal(":")?;
    let minute = reader.read_number("04", true, 0..=59, "minute")?;
    reader.read_literal(":")?;
    let second = reader.read_number("05", true, 0..=59, "second")?;
    let nanos = match precision {
        TimePrecision::Seconds => reader.read_fraction(),
        TimePrecision::Micros => reader.read_micros()?,
    };
    let offset = reader.read_zone()?;
    if !reader.rest.is_empty() {
        return Err(reader.parse_failure(&format!("extra text: {}", quote_bytes(reader.rest))));
    }
    let date = civil::Date::new(year, month, day).map_err(|_| reader.parse_failure("day out of range"))?;
    let time =
        civil::Time::new(hour, minute, second, nanos).map_err(|e| reader.parse_failure(&e.to_string()))?;
    offset.to_timestamp(date.to_datetime(time)).map_err(|e| reader.parse_failure(&e.to_string()))
}

struct TimeReader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl TimeReader<'_> {
    fn mismatch(&self, element: &str) -> GoError {
        let (text, layout, rest) = (quote_bytes(self.text), quote_bytes(self.layout), quote_bytes(self.rest));
        let element = quote_bytes(element);
        GoError::new(format!("parsing time {text} as {layout}: cannot parse {rest} as {element}"))
    }

    fn parse_failure(&self, why: &str) -> GoError {
        GoError::new(format!("parsing time {}: {why}", quote_bytes(self.text)))
    }

    fn digit_at(&self, at: usize) -> Option<i8> {
        let byte = *self.rest.as_bytes().get(at)?;
        byte.is_ascii_digit().then(|| (byte - b'0').cast_signed())
    }

    fn read_literal(&mut self, element: &str) -> Result<(), GoError> {
        self.rest = self.rest.strip_prefix(element).ok_or_else(|| self.mismatch(element))?;
        Ok(())
    }

    fn read_year(&mut self) -> Result<i16, GoError> {
        let digits = self.rest.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let year = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| self.mismatch("2006"))?;
        self.rest = &self.rest[4..];
        Ok(year)
    }

    /// Two digits, or one where the element does not insist.
    fn read_number(
        &mut self,
        element: &str,
        fixed: bool,
        range: std::ops::RangeInclusive<i8>,
        name: &str,
    ) -> Result<i8, GoError> {
        let (number, length) = match (self.digit_at(0), self.digit_at(1)) {
            (Some(tens), Some(ones)) => (tens * 10 + ones, 2),
            (Some(ones), None) if !fixed => (ones, 1),
            _ => return Err(self.mismatch(element)),
        };
        self.rest = &self.rest[length..];
        if !range.contains(&number) {
            return Err(self.parse_failure(&format!("{name} out of range")));
        }
        Ok(number)
    }

    /// Digits after a point that the layout does not ask for.
    fn read_fraction(&mut self) -> i32 {
        if !self.rest.starts_with(['.', ',']) || self.digit_at(1).is_none() {
            return 0;
        }
        let length = self.rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        let nanos: String = self.rest[1..=length].chars().chain("000000000".chars()).take(9).collect();
        self.rest = &self.rest[1 + length..];
        nanos.parse().unwrap_or(0)
    }

    fn read_micros(&mut self) -> Result<i32, GoError> {
        let digits = (1..=6).map(|at| self.digit_at(at)).collect::<Option<Vec<_>>>();
        match digits.filter(|_| self.rest.starts_with(['.', ','])) {
            Some(digits) => {
                self.rest = &self.rest[7..];
                Ok(digits.into_iter().fold(0, |sum, digit| sum * 10 + i32::from(digit)) * 1000)
            }
            None => Err(self.mismatch(".000000")),
        }
    }

    fn read_zone(&mut self) -> Result<Offset, GoError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(Offset::UTC);
        }
        let bad = || self.mismatch("Z07:00");
        let sign = match self.rest.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(bad()),
        };
        let digits = [1, 2, 4, 5].map(|at| self.digit_at(at).map(i32::from));
        let [Some(a), Some(b), Some(c), Some(d)] = digits else { return Err(bad()) };
        if self.rest.as_bytes().get(3) != Some(&b':') {
            return Err(bad());
        }
        let seconds = sign * ((a * 10 + b) * 3600 + (c * 10 + d) * 60);
        let offset = Offset::from_seconds(seconds)
            .map_err(|_| self.parse_failure("time zone offset hour out of range"))?;
        self.rest = &self.rest[6..];
        Ok(offset)
    }
}

/// Quotes as Go's package of times does: whatever is not plain ASCII by its bytes.
fn quote_bytes(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_element_that_does_not_fit() {
        let layout = r#" as "2006-01-02T15:04:05Z07:00": cannot parse "#;
        for (text, why) in [
            ("", format!("{layout}\"\" as \"2006\"")),
            ("é", format!("{layout}\"\\xc3\\xa9\" as \"2006\"")),
            ("2024-01-01", format!("{layout}\"\" as \"T\"")),
            ("2024-1-01T00:00:00Z", format!("{layout}\"1-01T00:00:00Z\" as \"01\"")),
            ("2024-01-01 00:00:00Z", format!("{layout}\" 00:00:00Z\" as \"T\"")),
            ("2024-01-01T00:00:00", format!("{layout}\"\" as \"Z07:00\"")),
            ("2024-13-01T00:00:00Z", ": month out of range".into()),
            ("2024-02-30T00:00:00Z", ": day out of range".into()),
            ("2024-01-01T00:00:00Zx", ": extra text: \"x\"".into()),
        ] {
            let quoted = quote_bytes(text);
            assert_eq!(
                parse_time(text, TimePrecision::Seconds),
                Err(format!("parsing time {quoted}{why}").into())
            );
        }
    }

    #[test]
    fn what_go_takes_is_read() {
        for (text, precision, shown) in [
            ("2024-01-01T00:00:00Z", TimePrecision::Seconds, "2024-01-01T00:00:00Z"),
            ("2024-01-01T02:00:00.25+02:00", TimePrecision::Seconds, "2024-01-01T00:00:00.25Z"),
            ("2024-01-01T7:00:00Z", TimePrecision::Seconds, "2024-01-01T07:00:00Z"),
            ("2024-01-01T00:00:00.123456Z", TimePrecision::Micros, "2024-01-01T00:00:00.123456Z"),
        ] {
            assert_eq!(parse_time(text, precision).map(|time| time.to_string()), Ok(shown.to_owned()));
        }
        let short = parse_time("2024-01-01T00:00:00Z", TimePrecision::Micros);
        assert!(short.is_err_and(|e| e.as_str().ends_with(r#"cannot parse "Z" as ".000000""#)));
    }
}
