//! Time as the sandbox's cluster sees it: real, faster, or moved only by hand.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::setting::SettingError;

/// The speed of simulated time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClockSpeed {
    Real,
    /// This many times as fast as real time.
    Times(f64),
    /// Time jumps to the next timer as soon as nothing else is left to do.
    Max,
    /// Time stands still until [`Clock::advance`].
    Manual,
}

/// `real`, `max`, `manual` or a factor such as `10`.
impl std::str::FromStr for ClockSpeed {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<ClockSpeed, SettingError> {
        match text {
            "real" => Ok(ClockSpeed::Real),
            "max" => Ok(ClockSpeed::Max),
            "manual" => Ok(ClockSpeed::Manual),
            _ => match text.trim_end_matches('x').parse::<f64>() {
                Ok(times) if times.is_finite() && times > 0.0 => Ok(ClockSpeed::Times(times)),
                _ => {
                    Err(format!("`{text}` is no speed: use real, max, manual or a factor such as 10").into())
                }
            },
        }
    }
}

/// The clock every timestamp and every simulated delay is read from.
#[derive(Debug)]
pub struct Clock {
    speed: ClockSpeed,
    started: Instant,
    base: Timestamp,
    /// Nanoseconds jumped or advanced so far.
    jumped: AtomicI64,
}

impl Clock {
    /// A clock that starts now, or at `start` when time is moved by hand.
    pub fn new(speed: ClockSpeed, start: Option<Timestamp>) -> Clock {
        Clock {
            speed,
            started: Instant::now(),
            base: start.unwrap_or_else(Timestamp::now),
            jumped: AtomicI64::new(0),
        }
    }

    pub fn speed(&self) -> ClockSpeed {
        self.speed
    }

    pub fn now(&self) -> Timestamp {
        let passed = self.started.elapsed();
        let flowed = match self.speed {
            ClockSpeed::Real | ClockSpeed::Max => passed,
            ClockSpeed::Times(times) => passed.mul_f64(times),
            ClockSpeed::Manual => Duration::ZERO,
        };
        let jumped = SignedDuration::from_nanos(self.jumped.load(Ordering::Relaxed));
        let flowed = SignedDuration::try_from(flowed).unwrap_or(SignedDuration::ZERO);
        self.base.checked_add(flowed).and_then(|t| t.checked_add(jumped)).unwrap_or(self.base)
    }

    /// Moves time forward at once.
    pub fn advance(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX / 4);
        self.jumped.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns how long to wait, in real time, until `at`. `None` when the time never comes by itself.
    pub fn real_wait(&self, at: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(at.duration_since(self.now())).unwrap_or(Duration::ZERO);
        match self.speed {
            ClockSpeed::Real | ClockSpeed::Max => Some(left),
            ClockSpeed::Times(times) => Some(left.div_f64(times)),
            ClockSpeed::Manual if left.is_zero() => Some(left),
            ClockSpeed::Manual => None,
        }
    }
}

/// `2026-11-15T20:02:25Z`, as `metav1.Time` prints.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An age as the server prints it in tables: two significant units, less when old.
pub(crate) fn human_duration(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    if seconds < -1 {
        return "<invalid>".into();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => match seconds % 60 {
            0 => format!("{minutes}m"),
            s => format!("{minutes}m{s}s"),
        },
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => match minutes % 60 {
            0 => format!("{hours}h"),
            m => format!("{hours}h{m}m"),
        },
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => match hours % 24 {
            0 => format!("{days}d"),
            h => format!("{days}d{h}h"),
        },
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => match days % 365 {
            0 => format!("{}y", days / 365),
            d => format!("{}y{d}d", days / 365),
        },
        _ => format!("{}y", days / 365),
    }
}
