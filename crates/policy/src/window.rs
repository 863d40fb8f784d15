//! Time windows: `Mon-Thu 08:00-17:00 Europe/Berlin`.

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;

const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

/// Hours of some days of the week in a zone.
#[derive(Clone, Debug)]
pub(crate) struct TimeWindow {
    text: String,
    days: Vec<Weekday>,
    /// Minutes since midnight; `end` is not part of the window and up to 24:00.
    start: u16,
    end: u16,
    zone: TimeZone,
}

/// The part of a window that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowProblem {
    Form,
    Days,
    Hours,
    Zone,
}

impl WindowProblem {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Form => "is no time window",
            Self::Days => "has days that are none",
            Self::Hours => "has hours that are none",
            Self::Zone => "has a time zone that is not known here",
        }
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Form => "write days, hours and a zone: `Mon-Thu 08:00-17:00 Europe/Berlin`",
            Self::Days => "days are Mon Tue Wed Thu Fri Sat Sun, as a range `Mon-Thu` or a list `Mon,Wed`",
            Self::Hours => {
                "write `08:00-17:00`, at most `24:00`; hours that end before they start go past midnight"
            }
            Self::Zone => "write a name of the time zone database, such as `Europe/Berlin` or `UTC`",
        }
    }
}

impl TimeWindow {
    pub(crate) fn parse(text: &str) -> Result<Self, WindowProblem> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let (days, hours, zone) = match parts[..] {
            [days, hours] => (days, hours, "UTC"),
            [days, hours, zone] => (days, hours, zone),
            _ => return Err(WindowProblem::Form),
        };
        let days = parse_days(days).ok_or(WindowProblem::Days)?;
        let (start, end) = hours.split_once('-').ok_or(WindowProblem::Hours)?;
        let minutes = |text: &str| parse_minutes(text).ok_or(WindowProblem::Hours);
        let (start, end) = (minutes(start)?, minutes(end)?);
        if start == end || start == DAY {
            return Err(WindowProblem::Hours);
        }
        let zone = match zone {
            "UTC" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| WindowProblem::Zone)?,
        };
        Ok(Self { text: text.to_owned(), days, start, end, zone })
    }

    /// Tells whether a moment lies in the window.
    pub(crate) fn contains(&self, now: Timestamp) -> bool {
        let local = now.to_zoned(self.zone.clone());
        let minute = minutes_of(local.time());
        let today = local.weekday();
        if self.start < self.end {
            return self.days.contains(&today) && (self.start..self.end).contains(&minute);
        }
        // Past midnight: the hours after it belong to the day before.
        let is_evening = self.days.contains(&today) && minute >= self.start;
        let is_night = self.days.contains(&today.previous()) && minute < self.end;
        is_evening || is_night
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

const DAY: u16 = 24 * 60;

fn minutes_of(time: Time) -> u16 {
    // Hours and minutes of a time of day are never negative.
    u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs())
}

fn parse_minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| (text.len() == 2).then(|| text.parse::<u16>().ok()).flatten();
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= DAY).then_some(total)
}

/// Reads `Mon`, `Mon-Thu`, `Sat,Sun` or `*`.
fn parse_days(text: &str) -> Option<Vec<Weekday>> {
    if text == "*" {
        return Some(DAYS.map(|(_, day)| day).to_vec());
    }
    let day =
        |name: &str| DAYS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, day)| *day);
    let mut days = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => days.push(day(part)?),
            Some((first, last)) => {
                let (mut current, last) = (day(first)?, day(last)?);
                days.push(current);
                while current != last {
                    current = current.next();
                    days.push(current);
                }
            }
        }
    }
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(window: &str, moment: &str) -> bool {
        TimeWindow::parse(window).expect("is a window").contains(moment.parse().expect("is a time"))
    }

    #[test]
    fn a_window_is_held_against_local_time() {
        // 2026-07-06 is a Monday, Berlin is two hours ahead then and one in winter.
        for (window, moment, inside) in [
            ("Mon-Thu 08:00-17:00 Europe/Berlin", "2026-07-06T06:00:00Z", true),
            ("Mon-Thu 08:00-17:00 Europe/Berlin", "2026-07-06T05:59:59Z", false),
            ("Mon-Thu 08:00-17:00 Europe/Berlin", "2026-07-06T15:00:00Z", false),
            ("Mon-Thu 08:00-17:00 Europe/Berlin", "2026-01-05T07:00:00Z", true),
            ("Mon-Thu 08:00-17:00 Europe/Berlin", "2026-01-05T06:59:00Z", false),
            ("Mon-Thu 08:00-17:00 Europe/Berlin", "2026-07-10T10:00:00Z", false),
            ("Fri-Mon 00:00-24:00", "2026-07-05T23:59:59Z", true),
            ("Fri-Mon 00:00-24:00", "2026-07-07T00:00:00Z", false),
            ("sat,SUN 10:00-12:00 UTC", "2026-07-05T11:00:00Z", true),
            ("* 10:00-12:00", "2026-07-08T11:00:00Z", true),
        ] {
            assert_eq!(contains(window, moment), inside, "{window} {moment}");
        }
    }

    #[test]
    fn hours_past_midnight_belong_to_the_day_they_began_on() {
        for (moment, inside) in [
            ("2026-07-10T22:00:00Z", true),
            ("2026-07-11T03:59:00Z", true),
            ("2026-07-11T04:00:00Z", false),
            ("2026-07-11T22:00:00Z", false),
            ("2026-07-10T03:00:00Z", false),
        ] {
            assert_eq!(contains("Fri 22:00-04:00", moment), inside, "{moment}");
        }
    }

    #[test]
    fn what_is_no_window_is_told_by_its_part() {
        for (text, problem) in [
            ("", WindowProblem::Form),
            ("Mon 08:00-17:00 Europe/Berlin x", WindowProblem::Form),
            ("Mon-Thursday 08:00-17:00", WindowProblem::Days),
            ("Mon 8:00-17:00", WindowProblem::Hours),
            ("Mon 08:00-24:30", WindowProblem::Hours),
            ("Mon 08:00-08:00", WindowProblem::Hours),
            ("Mon 08:60-09:00", WindowProblem::Hours),
            ("Mon 08:00-17:00 Europe/Atlantis", WindowProblem::Zone),
        ] {
            assert_eq!(TimeWindow::parse(text).expect_err(text), problem, "{text}");
        }
    }
}
