//! Settings of a sandbox as they are written, and those that cannot be used.

use std::fmt;
use std::time::Duration;

use slipway_go::time::Duration as GoDuration;

/// The reason a setting cannot be used, for whoever gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError(String);

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

impl<T: Into<String>> From<T> for SettingError {
    fn from(text: T) -> SettingError {
        SettingError(text.into())
    }
}

/// `200ms`, `3s`, `10m`, `1h30m`, `2d`, or a number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, SettingError> {
    let text = text.trim();
    let parsed = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => GoDuration::parse_days(text),
    };
    parsed.ok_or_else(|| format!("`{text}` is no duration: write 200ms, 3s, 10m, 1h30m or 2d").into())
}
