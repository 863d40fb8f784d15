//! The name of one run: sortable by time, unique, safe as a file name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::Clock;

/// A run's name; a generated one reads `2026-11-15T21-33-05Z_3f2c9a1`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Arc<str>);

/// A text that cannot name a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRunId(String);

impl RunId {
    /// Makes a new one from the time and seven random hex digits.
    pub fn generate(clock: &dyn Clock) -> Self {
        let stamp = clock.now().strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
        let random: u32 = rand::rng().random_range(0..1 << 28);
        Self(format!("{stamp}_{random:07x}").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        let valid = (1..=64).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if valid { Ok(Self(text.into())) } else { Err(InvalidRunId(text.to_owned())) }
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidRunId;
    fn try_from(text: String) -> Result<Self, InvalidRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidRunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` cannot name a run: expected 1 to 64 letters, digits, `.`, `_` or `-`, starting with a \
             letter or digit",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for InvalidRunId {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn generated_ids_carry_the_time_and_parse() {
        let clock = ManualClock::at("2026-11-15T21:33:05.25Z".parse().unwrap());
        let id = RunId::generate(&clock);
        assert!(id.as_str().starts_with("2026-11-15T21-33-05Z_"), "{id}");
        assert_eq!(id.as_str().len(), "2026-11-15T21-33-05Z_3f2c9a1".len());
        assert_eq!(id.as_str().parse::<RunId>(), Ok(id));
    }

    #[test]
    fn ids_are_safe_file_names() {
        for bad in ["", ".", "..", "../x", "a/b", "a b", "-x", "ü", &"x".repeat(65)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
