//! Go's `time`: instants in a zone, layouts, parsing and durations.

mod duration;
mod layout;
mod parse;

pub use duration::{Duration, DurationError};
pub use parse::parse;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Where an instant is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum GoZone {
    /// Coordinated Universal Time.
    Utc,
    /// A fixed distance east of UTC in seconds, perhaps without a name.
    Fixed {
        /// Abbreviation, possibly empty.
        name: String,
        /// Seconds east of UTC.
        offset: i32,
    },
    /// A zone of the time zone database.
    Named {
        /// The name it was asked for.
        name: String,
        /// Its rules.
        rules: TimeZone,
    },
}

impl GoZone {
    /// Loads a zone of the time zone database; the empty name is UTC.
    pub fn load(name: &str) -> Option<Self> {
        match name {
            "" | "UTC" => Some(Self::Utc),
            // Go refuses names that could leave the database directory.
            _ if name.contains("..") || name.starts_with('/') || name.contains('\\') => None,
            _ => {
                let rules = TimeZone::get(name).ok()?;
                // The database is looked up without regard to case, files are not.
                (rules.iana_name() == Some(name)).then(|| Self::Named { name: name.to_owned(), rules })
            }
        }
    }

    /// Seconds east of UTC and the abbreviation at an instant.
    pub fn lookup(&self, unix: i64) -> (i32, String) {
        match self {
            Self::Utc => (0, "UTC".to_owned()),
            Self::Fixed { name, offset } => (*offset, name.clone()),
            Self::Named { rules, .. } => {
                let unix = unix.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                let instant = Timestamp::from_second(unix).unwrap_or_default();
                let info = rules.to_offset_info(instant);
                (info.offset().seconds(), info.abbreviation().to_owned())
            }
        }
    }

    /// The offset of the zone's abbreviation `name`, preferring the one in force around `unix`.
    fn lookup_name(&self, name: &str, unix: i64) -> Option<i32> {
        let (offset, current) = self.lookup(unix);
        let (offset, current) =
            if current == name { (offset, current) } else { self.lookup(unix - i64::from(offset)) };
        if current == name {
            return Some(offset);
        }
        // Half a year away the other of summer and winter time is in force.
        [unix - 15_768_000, unix + 15_768_000]
            .into_iter()
            .map(|unix| self.lookup(unix))
            .find_map(|(offset, found)| (found == name).then_some(offset))
    }

    /// What Go calls the location.
    pub fn name(&self) -> &str {
        match self {
            Self::Utc => "UTC",
            Self::Fixed { name, .. } | Self::Named { name, .. } => name,
        }
    }
}

/// An instant shown in a zone.
#[derive(Clone, Debug)]
pub struct GoTime {
    /// Seconds since 1970.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Where it is shown.
    pub zone: GoZone,
    /// Nanoseconds on the process clock, for instants read from the clock.
    pub monotonic: Option<i64>,
}

/// An instant taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CivilTime {
    /// Year, possibly negative.
    pub year: i64,
    /// Month from 1.
    pub month: u32,
    /// Day of the month from 1.
    pub day: u32,
    /// Day of the year from 1.
    pub yday: u32,
    /// Day of the week, Sunday is 0.
    pub weekday: u32,
    /// Hour of the day.
    pub hour: u32,
    /// Minute.
    pub minute: u32,
    /// Second.
    pub second: u32,
    /// Seconds east of UTC.
    pub offset: i32,
    /// Abbreviation of the zone.
    pub abbreviation: String,
}

/// Seconds from 1970 back to Go's zero time, the year 1.
const ZERO_SECS: i64 = -62_135_596_800;

pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

fn days_from_civil(year: i64, month: u32, day: i64) -> i64 {
    // Counts from March, so that leap days end a year.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = i64::from((153 * month + 2) / 5) + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year_of_era, month + 3) } else { (year_of_era + 1, month - 9) };
    (year + era * 400, u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl GoTime {
    /// Go's zero time.
    pub fn zero() -> Self {
        Self::unix(ZERO_SECS, 0, GoZone::Utc)
    }

    /// An instant by its Unix time.
    pub fn unix(secs: i64, nanos: u32, zone: GoZone) -> Self {
        Self { secs, nanos, zone, monotonic: None }
    }

    /// Whether this is Go's zero time.
    pub fn is_zero(&self) -> bool {
        self.secs == ZERO_SECS && self.nanos == 0
    }

    /// An instant by what a clock in `zone` shows.
    #[expect(clippy::too_many_arguments, reason = "the parts of a date are what they are")]
    pub fn date(
        year: i64,
        month: u32,
        day: i64,
        hour: i64,
        minute: i64,
        second: i64,
        nanos: u32,
        zone: GoZone,
    ) -> Self {
        let shown = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        let offset = i64::from(zone.lookup(shown).0);
        let offset = i64::from(zone.lookup(shown - offset).0);
        Self::unix(shown - offset, nanos, zone)
    }

    /// The same instant in another zone.
    pub fn in_zone(&self, zone: GoZone) -> Self {
        Self { zone, ..self.clone() }
    }

    /// The instant taken apart.
    pub fn civil(&self) -> CivilTime {
        let (offset, abbreviation) = self.zone.lookup(self.secs);
        let shown = i128::from(self.secs) + i128::from(offset);
        let days = i64::try_from(shown.div_euclid(86_400)).unwrap_or(0);
        let rest = u32::try_from(shown.rem_euclid(86_400)).unwrap_or(0);
        let (year, month, day) = civil_from_days(days);
        CivilTime {
            year,
            month,
            day,
            yday: u32::try_from(days - days_from_civil(year, 1, 1) + 1).unwrap_or(1),
            weekday: u32::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            offset,
            abbreviation,
        }
    }

    /// The instant `duration` later.
    pub fn add(&self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration.0 % 1_000_000_000;
        Self {
            secs: self
                .secs
                .wrapping_add(duration.0 / 1_000_000_000)
                .wrapping_add(nanos.div_euclid(1_000_000_000)),
            nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0),
            zone: self.zone.clone(),
            monotonic: self.monotonic.map(|at| at.saturating_add(duration.0)),
        }
    }

    /// How much later this instant is than `other`, at most what a duration can hold.
    pub fn since(&self, other: &Self) -> Duration {
        let nanos = (i128::from(self.secs) - i128::from(other.secs)) * 1_000_000_000 + i128::from(self.nanos)
            - i128::from(other.nanos);
        let clamped = nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        Duration(i64::try_from(clamped).unwrap_or(0))
    }

    /// Text by a Go layout.
    pub fn format(&self, layout: &[u8]) -> Vec<u8> {
        layout::format(self, layout)
    }

    /// RFC 3339 with as many fractional digits as needed, as JSON has it.
    pub fn rfc3339(&self) -> String {
        String::from_utf8_lossy(&self.format(b"2006-01-02T15:04:05.999999999Z07:00")).into_owned()
    }
}

impl PartialEq for GoTime {
    fn eq(&self, other: &Self) -> bool {
        self.secs == other.secs && self.nanos == other.nanos && self.zone == other.zone
    }
}

impl std::fmt::Display for GoTime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.format(b"2006-01-02 15:04:05.999999999 -0700 MST");
        out.write_str(&String::from_utf8_lossy(&text))?;
        if let Some(at) = self.monotonic {
            let sign = if at < 0 { '-' } else { '+' };
            let at = at.unsigned_abs();
            write!(out, " m={sign}{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)?;
        }
        Ok(())
    }
}

/// Quotes as error messages about times do.
pub(crate) fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    let mut at = 0;
    while let Some((rune, width, _)) = super::unicode::decode_rune(&text[at..]) {
        match rune {
            '"' | '\\' => {
                out.push('\\');
                out.push(rune);
            }
            ' '..='\u{7e}' => out.push(rune),
            _ => {
                for byte in &text[at..at + width] {
                    out.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
        at += width;
    }
    out.push('"');
    out
}
