//! The answer of a reconciler: when it wants to look again.

use std::time::Duration;

use jiff::Timestamp;

/// When an object is to be reconciled again; changes of what it reads wake it earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requeue {
    /// Only when something changes.
    #[default]
    Done,
    /// At the latest at this moment.
    At(Timestamp),
}

impl Requeue {
    /// Asks to look again after a time.
    pub fn after(now: Timestamp, delay: Duration) -> Self {
        Self::At(now.saturating_add(delay).unwrap_or(Timestamp::MAX))
    }

    /// Returns whichever comes first.
    #[must_use]
    pub fn or_sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(two)) => Self::At(one.min(two)),
            (Self::At(at), Self::Done) | (Self::Done, Self::At(at)) => Self::At(at),
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}
