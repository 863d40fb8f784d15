//! Settings of a sandbox that cannot be used.

use std::fmt;

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
