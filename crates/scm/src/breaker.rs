//! The circuit breaker and the rate limit of one server.

use std::time::Duration;

use jiff::Timestamp;

/// A server as the breaker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    /// Nothing is sent until then.
    Open {
        until: Timestamp,
    },
    /// One request finds out whether the server is well again.
    HalfOpen,
}

/// The state of one server, for conditions and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostReport {
    pub host: String,
    pub breaker: BreakerState,
    /// The end of a rate limit, while there is one.
    pub limited_until: Option<Timestamp>,
    /// Requests the server still allows, where it says so.
    pub remaining: Option<u64>,
    /// The requests sent so far.
    pub requests: Vec<RequestCount>,
}

/// Requests of one kind that had the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCount {
    /// What the request did, without names and numbers.
    pub action: String,
    /// The status of the answer; 0 where there was none.
    pub status: u16,
    pub count: u64,
}

/// Failures in a row after which nothing is sent for a while.
const THRESHOLD: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Counts failures in a row.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    pause: Duration,
    open_until: Option<Timestamp>,
    is_probing: bool,
    pub(crate) limited_until: Option<Timestamp>,
    pub(crate) remaining: Option<u64>,
}

/// The reason nothing may be sent.
pub(crate) enum Halt {
    Open(Timestamp),
    Limited(Timestamp),
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self {
            failures: 0,
            pause: FIRST_PAUSE,
            open_until: None,
            is_probing: false,
            limited_until: None,
            remaining: None,
        }
    }

    /// Asks for leave to send one request.
    pub(crate) fn admit(&mut self, now: Timestamp) -> Result<(), Halt> {
        if let Some(until) = self.limited_until {
            if now < until {
                return Err(Halt::Limited(until));
            }
            self.limited_until = None;
        }
        match self.open_until {
            Some(until) if now < until || self.is_probing => Err(Halt::Open(until)),
            Some(_) => {
                self.is_probing = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The server answered, whatever it said.
    pub(crate) fn succeeded(&mut self) {
        (self.failures, self.pause, self.open_until, self.is_probing) = (0, FIRST_PAUSE, None, false);
    }

    /// The server did not answer, or is in trouble; it may say for how long.
    pub(crate) fn failed(&mut self, now: Timestamp, retry_at: Option<Timestamp>) {
        self.failures += 1;
        let was_probing = std::mem::take(&mut self.is_probing);
        if self.failures >= THRESHOLD || was_probing {
            let until = now.checked_add(self.pause).unwrap_or(now);
            self.open_until = Some(retry_at.map_or(until, |told| told.max(until)));
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A request that was given up: it tells nothing, and another may probe.
    pub(crate) fn abandoned(&mut self) {
        self.is_probing = false;
    }

    pub(crate) fn state(&self, now: Timestamp) -> BreakerState {
        match self.open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open { until },
            Some(_) => BreakerState::HalfOpen,
        }
    }
}
