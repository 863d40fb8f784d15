//! The age of a gate's result: an old one counts as closed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::kinds::PolicyGate;

/// Results from farther in the future come from a clock that is wrong.
const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Returns true if a gate is open and was evaluated within twice its interval.
pub fn is_open(gate: &PolicyGate, now: Timestamp) -> bool {
    gate.status.ready && is_fresh(gate, now)
}

/// Returns true if the last evaluation is not too old, and not from the future.
pub fn is_fresh(gate: &PolicyGate, now: Timestamp) -> bool {
    let Some(evaluated) = gate.status.last_evaluated_at else { return false };
    let age = now.duration_since(evaluated);
    let longest = SignedDuration::try_from(freshness(gate)).unwrap_or(SignedDuration::MAX);
    age < longest && age >= -SKEW
}

fn freshness(gate: &PolicyGate) -> Duration {
    gate.spec.recheck_interval.0.saturating_mul(2)
}
