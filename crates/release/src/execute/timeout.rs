//! The time limit of a run.

use std::fmt;
use std::time::Duration;

/// Time limit for a whole run; prints as the user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimeout {
    duration: Duration,
    text: String,
}

impl RunTimeout {
    /// A limit of `duration`, given as `text`. The text may stand for more: a part of it may be used up.
    pub fn new(duration: Duration, text: impl Into<String>) -> Self {
        Self { duration, text: text.into() }
    }

    pub fn duration(&self) -> Duration {
        self.duration
    }
}

impl From<Duration> for RunTimeout {
    /// A limit nobody wrote down; prints in the largest unit that needs no second one.
    fn from(duration: Duration) -> Self {
        let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
        let text = match (seconds, millis) {
            (0, millis) => format!("{millis}ms"),
            (seconds, 0) if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
            (seconds, 0) if seconds % 60 == 0 => format!("{}m", seconds / 60),
            (seconds, 0) => format!("{seconds}s"),
            _ => format!("{}s", duration.as_millis() as f64 / 1000.0),
        };
        Self { duration, text }
    }
}

impl fmt::Display for RunTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_print_as_given() {
        assert_eq!(RunTimeout::new(Duration::from_secs(90), "1m30s").to_string(), "1m30s");
        for (millis, text) in
            [(90_000, "90s"), (300_000, "5m"), (7_200_000, "2h"), (1_500, "1.5s"), (20, "20ms")]
        {
            assert_eq!(RunTimeout::from(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
