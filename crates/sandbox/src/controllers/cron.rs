//! Cron schedules: the standard five fields and the `@` words.

use jiff::{ToSpan, Zoned};
use slipway_go::GoError;
use slipway_go::time::Duration;

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
    /// `@every`, in seconds.
    every: Option<i64>,
}

impl CronSchedule {
    /// Reads a schedule; the error is in the words of the library Kubernetes uses.
    pub fn parse(text: &str) -> Result<CronSchedule, GoError> {
        if text.is_empty() {
            return Err("empty spec string".into());
        }
        let mut text = text.trim();
        if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let Some((_, rest)) = rest.split_once(' ') else {
                // The real one panics there, and says so.
                let why = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
                return Err(why.into());
            };
            text = rest.trim();
        }
        if let Some(word) = text.strip_prefix('@') {
            return CronSchedule::parse_word(word, text);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(
                format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")).into()
            );
        };
        let open = |f: &str| f.starts_with('*') || f == "?";
        Ok(CronSchedule {
            minutes: parse_field(minutes, 0, 59, &[])?,
            hours: parse_field(hours, 0, 23, &[])?,
            days: parse_field(days, 1, 31, &[])?,
            months: parse_field(months, 1, 12, &MONTHS)?,
            // Sunday may be written as 7 nowhere in this dialect.
            weekdays: parse_field(weekdays, 0, 6, &WEEKDAYS)?,
            any_day: open(days),
            any_weekday: open(weekdays),
            every: None,
        })
    }

    fn parse_word(word: &str, text: &str) -> Result<CronSchedule, GoError> {
        if let Some(span) = word.strip_prefix("every ") {
            let seconds = whole_seconds(span.trim())
                .ok_or_else(|| format!("failed to parse duration {text}: time: invalid duration {span:?}"))?;
            let mut schedule = CronSchedule::parse("* * * * *")?;
            schedule.every = Some(seconds.max(1));
            return Ok(schedule);
        }
        CronSchedule::parse(match word {
            "yearly" | "annually" => "0 0 1 1 *",
            "monthly" => "0 0 1 * *",
            "weekly" => "0 0 * * 0",
            "daily" | "midnight" => "0 0 * * *",
            "hourly" => "0 * * * *",
            _ => return Err(format!("unrecognized descriptor: {text}").into()),
        })
    }

    /// The next time strictly after `from`, within five years.
    pub fn next_after(&self, from: &Zoned) -> Option<Zoned> {
        if let Some(seconds) = self.every {
            return from.checked_add(seconds.seconds()).ok();
        }
        let mut at = from.checked_add(1.minute()).ok()?.with().second(0).subsec_nanosecond(0).build().ok()?;
        let end = from.checked_add(5.years()).ok()?;
        while at < end {
            if !has_bit(self.months, i64::from(at.month())) {
                at = at.checked_add(1.month()).ok()?.with().day(1).hour(0).minute(0).build().ok()?;
            } else if !self.on_day(&at) {
                at = at.checked_add(1.day()).ok()?.with().hour(0).minute(0).build().ok()?;
            } else if !has_bit(self.hours, i64::from(at.hour())) {
                at = at.checked_add(1.hour()).ok()?.with().minute(0).build().ok()?;
            } else if !has_bit(self.minutes, i64::from(at.minute())) {
                at = at.checked_add(1.minute()).ok()?;
            } else {
                return Some(at);
            }
        }
        None
    }

    fn on_day(&self, at: &Zoned) -> bool {
        let day = has_bit(self.days, i64::from(at.day()));
        let weekday = has_bit(self.weekdays, i64::from(at.weekday().to_sunday_zero_offset()));
        // When both are restricted, either will do.
        if self.any_day || self.any_weekday { day && weekday } else { day || weekday }
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

fn has_bit(bits: u64, n: i64) -> bool {
    u32::try_from(n).is_ok_and(|n| bits & (1 << n) != 0)
}

fn parse_field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<u64, GoError> {
    let number = |word: &str| -> Result<u32, GoError> {
        if let Some(at) = names.iter().position(|n| n.eq_ignore_ascii_case(word)) {
            return Ok(low + u32::try_from(at).unwrap_or(0));
        }
        word.parse().map_err(|_| {
            GoError::new(format!(
                "failed to parse int from {word}: strconv.Atoi: parsing {word:?}: invalid syntax"
            ))
        })
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (part, None),
        };
        let (start, mut end) = if range == "*" || range == "?" {
            (low, high)
        } else if let Some((a, b)) = range.split_once('-') {
            (number(a)?, number(b)?)
        } else {
            let n = number(range)?;
            (n, n)
        };
        if step.is_some() && !range.contains('-') && range != "*" {
            end = high;
        }
        if start < low {
            return Err(format!("beginning of range ({start}) below minimum ({low}): {part}").into());
        }
        if end > high {
            return Err(format!("end of range ({end}) above maximum ({high}): {part}").into());
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}").into());
        }
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}").into());
        }
        let mut n = start;
        while n <= end {
            bits |= 1 << n;
            n += step;
        }
    }
    Ok(bits)
}

/// A Go duration in whole seconds.
fn whole_seconds(text: &str) -> Option<i64> {
    Duration::parse_unsigned(text).and_then(|span| i64::try_from(span.as_secs()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_times() {
        let from: Zoned = "2024-02-28T23:59:30[UTC]".parse().unwrap();
        for (text, next) in [
            ("* * * * *", "2024-02-29T00:00:00[UTC]"),
            ("*/15 3 * * *", "2024-02-29T03:00:00[UTC]"),
            ("0 0 1 1 *", "2025-01-01T00:00:00[UTC]"),
            ("0 12 13 * fri", "2024-03-01T12:00:00[UTC]"),
            ("@hourly", "2024-02-29T00:00:00[UTC]"),
            ("@every 90s", "2024-02-29T00:01:00[UTC]"),
        ] {
            let schedule = CronSchedule::parse(text).unwrap();
            assert_eq!(schedule.next_after(&from), Some(next.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn problems_in_the_librarys_words() {
        for (text, why) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("@often", "unrecognized descriptor: @often"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ] {
            assert_eq!(CronSchedule::parse(text), Err(why.into()), "{text}");
        }
        // Nothing matches: the search must end.
        let never = CronSchedule::parse("0 0 31 2 *").unwrap();
        assert_eq!(never.next_after(&"2024-01-01T00:00:00[UTC]".parse().unwrap()), None);
    }
}
