//! The rate limit of bundles: 100 requests a minute and pipeline, on each replica.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// Requests a pipeline may have within a minute.
const MOST_A_MINUTE: i64 = 100;
/// The time one request takes up.
const COST: SignedDuration = SignedDuration::from_millis(60_000 / MOST_A_MINUTE);
const MINUTE: SignedDuration = SignedDuration::from_secs(60);
/// Pipelines from which on those that are not limited are forgotten.
const MOST_KNOWN: usize = 10_000;

/// Counts requests. A full bucket is the moment from which on a request fits again, so that idle pipelines cost nothing.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    /// When the bucket of a pipeline is empty again.
    empty_at: Mutex<HashMap<(String, String), Timestamp>>,
}

impl RateLimit {
    /// Takes a place; returns the time to wait where there is none.
    pub(crate) fn admit(
        &self,
        namespace: &str,
        pipeline: &str,
        now: Timestamp,
    ) -> Result<(), SignedDuration> {
        let mut all = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_KNOWN {
            all.retain(|_, empty| *empty > now);
        }
        let key = (namespace.to_owned(), pipeline.to_owned());
        let start = all.get(&key).copied().filter(|empty| *empty > now).unwrap_or(now);
        let next = start.saturating_add(COST).unwrap_or(Timestamp::MAX);
        let full = now.saturating_add(MINUTE).unwrap_or(Timestamp::MAX);
        if next > full {
            return Err(next.duration_since(full));
        }
        all.insert(key, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hundred_and_first_request_of_a_minute_waits() {
        let (limit, now) = (RateLimit::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..100 {
            limit.admit("default", "app", now).expect("fits");
        }
        let wait = limit.admit("default", "app", now).expect_err("is too many");
        assert_eq!(wait, SignedDuration::from_millis(600));
        limit.admit("default", "other", now).expect("is counted by itself");
        limit.admit("default", "app", now + SignedDuration::from_secs(1)).expect("fits after a while");
        let later = now + SignedDuration::from_secs(120);
        assert_eq!((0..150).filter(|_| limit.admit("default", "app", later).is_ok()).count(), 100);
    }
}
