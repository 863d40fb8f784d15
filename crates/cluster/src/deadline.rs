//! A point in time after which the requests of a handle give up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Error;

/// Time limit shared by every request of a [`Cluster`](crate::Cluster) handle. Keeps the last error a request
/// was repeated for, so that whoever runs out of time can report the cause.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    trouble: Arc<Mutex<Option<Error>>>,
}

impl Deadline {
    /// A deadline that passes after `time`; never, if that is longer than a clock can count.
    pub fn after(time: Duration) -> Deadline {
        let now = Instant::now();
        Deadline::at(now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86400)))
    }

    pub fn at(at: Instant) -> Deadline {
        Deadline { at, trouble: Arc::default() }
    }

    /// The time at which it passes.
    pub fn instant(&self) -> Instant {
        self.at
    }

    /// The time that is left.
    pub fn time_left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub fn has_passed(&self) -> bool {
        self.time_left().is_zero()
    }

    /// The error that requests were last repeated for, unless one has succeeded since.
    pub fn last_error(&self) -> Option<Error> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn record_error(&self, error: Option<&Error>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = error.cloned();
    }
}
