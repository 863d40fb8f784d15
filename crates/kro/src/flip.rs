//! The next moment at which a condition changes by time alone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use slipway_cel::Bindings;

use crate::expression::Expression;

/// How often a condition is looked at whose changes cannot be computed.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Functions through which the present enters in a straight line: differences and comparisons only.
const LINEAR: &[&str] = &["duration", "timestamp", "now", "time.now"];
/// The farthest probe: 2^30 seconds are 34 years.
const PROBES: u32 = 30;

/// Finds when a condition that depends on the present next changes, everything it reads staying as it is.
///
/// One that compares a single `now()` changes at most once: probing ever farther ahead finds a moment after the
/// change, and halving the distance finds the change to the millisecond. Others are looked at every half minute too.
pub(crate) fn next_change(condition: &Expression, scope: &Bindings<'_>, now: Timestamp) -> Option<Timestamp> {
    if !condition.is_volatile() {
        return None;
    }
    let change = probe_change(now, |at| condition.holds(scope, at).unwrap_or(false));
    if is_linear(condition) { change } else { change.into_iter().chain(now.checked_add(LOOK_AGAIN)).min() }
}

/// Finds a moment at which a truth changes, by probing ever farther ahead; the first one if it changes only once.
pub fn probe_change(now: Timestamp, truth: impl Fn(Timestamp) -> bool) -> Option<Timestamp> {
    let present = truth(now);
    let mut before = now;
    for probe in 0..=PROBES {
        let at = now.checked_add(SignedDuration::from_secs(1_i64 << probe)).ok()?;
        if truth(at) != present {
            return Some(bisect(before, at, |at| truth(at) == present));
        }
        before = at;
    }
    None
}

/// The first moment at which something no longer holds, between one at which it does and one at which it does not.
fn bisect(mut holds: Timestamp, mut ended: Timestamp, still: impl Fn(Timestamp) -> bool) -> Timestamp {
    while ended.as_millisecond() - holds.as_millisecond() > 1 {
        let middle = holds.as_millisecond().midpoint(ended.as_millisecond());
        let Ok(middle) = Timestamp::from_millisecond(middle) else { break };
        if still(middle) {
            holds = middle;
        } else {
            ended = middle;
        }
    }
    ended
}

/// Whether the present is compared once and in no other way.
fn is_linear(condition: &Expression) -> bool {
    let reads = condition.source.matches("now(").count();
    reads == 1 && condition.program.functions().all(|name| LINEAR.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expressions;
    use serde_json::json;
    use slipway_cel::Type;

    #[test]
    fn the_moment_of_the_next_change_is_found() {
        let expressions = Expressions::new();
        let names = expressions.names().with("g", Type::Dyn);
        let now: Timestamp = "2026-04-10T12:00:00Z".parse().expect("is a time");
        let data = json!({"at": "2026-04-10T11:55:00Z"});
        for (source, expected) in [
            ("timestamp(g.at) > now() - duration('10m')", Some("2026-04-10T12:05:00Z")),
            ("now() - timestamp(g.at) >= duration('30m')", Some("2026-04-10T12:25:00Z")),
            ("timestamp(g.at) + duration('1h') < time.now()", Some("2026-04-10T12:55:00.001Z")),
            ("now() > timestamp('2026-04-13T00:00:00Z')", Some("2026-04-13T00:00:00.001Z")),
            // Already past, and never again otherwise.
            ("now() > timestamp(g.at)", None),
            ("g.at == 'x'", None),
            // Not computed: looked at again.
            ("now().getDayOfWeek() == 6 && now().getHours() == 3", Some("2026-04-10T12:00:30Z")),
        ] {
            let condition = expressions.compile(&names, source).expect("compiles");
            let found = next_change(&condition, &Bindings::new().json("g", &data), now);
            assert_eq!(found.map(|at| at.to_string()).as_deref(), expected, "{source}");
        }
    }
}
