//! Change windows: times in which nothing may be promoted.

use globset::{Glob, GlobSet, GlobSetBuilder};
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::gate::find_zone;
use crate::kinds::{ChangeWindowSpec, WeekDay, WindowType};

mod reconcile;

pub use reconcile::WindowReconciler;

/// A change window that can be used.
#[derive(Clone, Debug)]
pub struct Window {
    times: WindowTimes,
    /// The names it is meant for; all where there is no set.
    pipelines: Option<GlobSet>,
    environments: Option<GlobSet>,
}

#[derive(Clone, Debug, PartialEq)]
enum WindowTimes {
    /// Active from the start until the end.
    Blackout { start: Timestamp, end: Timestamp },
    /// Active outside of the allowed hours of the allowed days.
    Recurring { zone: TimeZone, days: [bool; 7], hours: AllowedHours },
}

/// The minutes of a day from `start` on and before `end`; past midnight where the end is not after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AllowedHours {
    start: u32,
    end: u32,
}

const DAY: u32 = 24 * 60;
/// The days ahead in which the next transition is looked for.
const AHEAD: i64 = 366;

impl AllowedHours {
    const WHOLE_DAY: Self = Self { start: 0, end: DAY };

    fn parse(text: &str) -> Option<Self> {
        let (start, end) = text.split_once('-')?;
        let hours = Self { start: minute_of_day(start)?, end: minute_of_day(end)? };
        (hours.start < DAY && hours.start != hours.end).then_some(hours)
    }

    fn passes_midnight(self) -> bool {
        self.end < self.start
    }
}

fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    (minute < 60 && hour * 60 + minute <= DAY).then_some(hour * 60 + minute)
}

/// Why a change window cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    #[error("a blackout needs `start` and `end`")]
    NoBounds,
    #[error("the end {end} is not after the start {start}")]
    Backwards { start: Timestamp, end: Timestamp },
    #[error("a recurring window needs `schedule`")]
    NoSchedule,
    #[error("unknown time zone `{0}`")]
    UnknownZone(String),
    #[error("`{0}` are no hours such as `09:00-17:00`")]
    BadHours(String),
    #[error("`{0}` is no pattern for names")]
    BadPattern(String),
}

impl Window {
    /// Reads a window; gives every problem there is.
    pub fn parse(spec: &ChangeWindowSpec) -> Result<Self, Vec<WindowError>> {
        let mut errors = Vec::new();
        let pipelines = parse_names(&spec.pipelines, &mut errors);
        let environments = parse_names(&spec.environments, &mut errors);
        let times = match spec.kind {
            WindowType::Blackout => parse_blackout(spec).map_err(|error| errors.push(error)).ok(),
            WindowType::Recurring => parse_recurring(spec, &mut errors),
        };
        match times {
            Some(times) if errors.is_empty() => Ok(Self { times, pipelines, environments }),
            _ => Err(errors),
        }
    }

    /// Returns true if the window is meant for a pipeline and an environment.
    pub fn holds(&self, pipeline: &str, environment: &str) -> bool {
        let among = |names: &Option<GlobSet>, name: &str| names.as_ref().is_none_or(|set| set.is_match(name));
        among(&self.pipelines, pipeline) && among(&self.environments, environment)
    }

    /// Returns true if nothing may be promoted at a moment.
    pub fn is_active(&self, at: Timestamp) -> bool {
        match &self.times {
            WindowTimes::Blackout { start, end } => *start <= at && at < *end,
            WindowTimes::Recurring { zone, days, hours } => {
                let local = at.to_zoned(zone.clone());
                let minute = local.hour() as u32 * 60 + local.minute() as u32;
                let today = local.weekday().to_monday_zero_offset() as usize;
                // The hours after midnight belong to the day on which they began.
                let yesterday = (today + 6) % 7;
                let allowed = if hours.passes_midnight() {
                    (days[today] && minute >= hours.start) || (days[yesterday] && minute < hours.end)
                } else {
                    days[today] && (hours.start..hours.end).contains(&minute)
                };
                !allowed
            }
        }
    }

    /// The moments after `from`, until `until`, at which the window begins or ends.
    pub fn transitions(&self, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let mut found = self.candidates(from, until);
        found.retain(|at| from < *at && *at <= until);
        found.sort_unstable();
        found.dedup();
        let mut active = self.is_active(from);
        found.retain(|at| {
            let changed = self.is_active(*at) != active;
            active ^= changed;
            changed
        });
        found
    }

    /// The next moment the window begins or ends.
    pub fn next_transition(&self, from: Timestamp) -> Option<Timestamp> {
        if let WindowTimes::Blackout { start, end } = &self.times {
            return [*start, *end].into_iter().find(|at| *at > from);
        }
        // Most windows change within a week; one with a rare zone rule may not.
        [8, AHEAD].into_iter().find_map(|days| {
            let until = from.checked_add(jiff::SignedDuration::from_hours(days * 24)).ok()?;
            self.transitions(from, until).first().copied()
        })
    }

    /// Every moment at which the answer can change.
    fn candidates(&self, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        match &self.times {
            WindowTimes::Blackout { start, end } => vec![*start, *end],
            WindowTimes::Recurring { zone, hours, .. } => {
                // Clocks that are set forward or back leave hours out or repeat them.
                let shifts =
                    zone.following(from).map(|shift| shift.timestamp()).take_while(|at| *at <= until);
                let mut found: Vec<Timestamp> = shifts.take(64).collect();
                let first = from.to_zoned(zone.clone()).date();
                let last = until.to_zoned(zone.clone()).date();
                let mut day = first.checked_sub(Span::new().days(1)).unwrap_or(first);
                while day <= last {
                    for minute in [0, hours.start, hours.end] {
                        found.extend(instants(zone, day, minute));
                    }
                    let Ok(next) = day.tomorrow() else { break };
                    day = next;
                }
                found
            }
        }
    }
}

/// The moments a minute of a day has: two where clocks are set back, that of the shift where they are set forward.
fn instants(zone: &TimeZone, day: Date, minute: u32) -> Vec<Timestamp> {
    let (day, minute) = match minute {
        DAY => match day.tomorrow() {
            Ok(next) => (next, 0),
            Err(_) => return Vec::new(),
        },
        minute => (day, minute),
    };
    let Ok(time) = Time::new((minute / 60) as i8, (minute % 60) as i8, 0, 0) else { return Vec::new() };
    let civil = zone.to_ambiguous_timestamp(day.to_datetime(time));
    [civil.earlier(), civil.later()].into_iter().flatten().collect()
}

fn parse_blackout(spec: &ChangeWindowSpec) -> Result<WindowTimes, WindowError> {
    let (Some(start), Some(end)) = (spec.start, spec.end) else { return Err(WindowError::NoBounds) };
    if end <= start {
        return Err(WindowError::Backwards { start, end });
    }
    Ok(WindowTimes::Blackout { start, end })
}

fn parse_recurring(spec: &ChangeWindowSpec, errors: &mut Vec<WindowError>) -> Option<WindowTimes> {
    let Some(schedule) = &spec.schedule else {
        errors.push(WindowError::NoSchedule);
        return None;
    };
    let name = schedule.timezone.as_deref().filter(|name| !name.is_empty()).unwrap_or("UTC");
    let zone = find_zone(name);
    if zone.is_none() {
        errors.push(WindowError::UnknownZone(name.to_owned()));
    }
    let hours = match &schedule.allowed_hours {
        None => Some(AllowedHours::WHOLE_DAY),
        Some(text) => AllowedHours::parse(text).or_else(|| {
            errors.push(WindowError::BadHours(text.clone()));
            None
        }),
    };
    let mut days = [schedule.allowed_days.is_empty(); 7];
    for day in &schedule.allowed_days {
        days[day_index(*day)] = true;
    }
    Some(WindowTimes::Recurring { zone: zone?, days, hours: hours? })
}

fn day_index(day: WeekDay) -> usize {
    match day {
        WeekDay::Mon => 0,
        WeekDay::Tue => 1,
        WeekDay::Wed => 2,
        WeekDay::Thu => 3,
        WeekDay::Fri => 4,
        WeekDay::Sat => 5,
        WeekDay::Sun => 6,
    }
}

fn parse_names(patterns: &[String], errors: &mut Vec<WindowError>) -> Option<GlobSet> {
    if patterns.is_empty() {
        return None;
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        match Glob::new(pattern) {
            Ok(glob) => {
                set.add(glob);
            }
            Err(_) => errors.push(WindowError::BadPattern(pattern.clone())),
        }
    }
    // A set that cannot be built holds everything: a broken window lets nothing through.
    set.build().ok()
}
