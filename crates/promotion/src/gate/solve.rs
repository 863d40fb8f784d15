//! Finds the next moment at which time alone changes the result of a gate.
//!
//! Everything but time stays as it is. The calendar is looked at on a grid of hours, quarters or minutes; numbers that
//! grow with time change at known moments; change windows, answers and measurements have their own. The first of all these
//! moments at which the result is another one is the answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use slipway_kro::probe_change;

use super::bind::bind;
use super::context::{GateContext, WindowContext};
use super::expression::{Counter, CounterSource, GateExpression, Grid};
use super::outcome::EtaBasis;

/// How far the calendar is looked at: a week and the day it began.
const HORIZON: Duration = Duration::from_secs(8 * 24 * 3600);
/// The moments that are tried at most.
const TRIED: usize = 25_000;
/// Seconds of a counter of seconds that are tried where it is not compared with a number.
const SECONDS: i64 = 3600;

/// A change of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flip {
    pub(crate) at: Timestamp,
    pub(crate) basis: EtaBasis,
}

struct Boundary {
    at: Timestamp,
    basis: EtaBasis,
}

/// Finds the next change of the result after the moment of the context.
pub(crate) fn next_flip(expression: &GateExpression, context: &GateContext) -> Option<Flip> {
    let truth = |at: Timestamp| {
        let bindings = bind(context, &expression.uses, at);
        expression.program.eval_bool(&bindings).unwrap_or(false)
    };
    let now = context.now;
    let mut boundaries = known_boundaries(expression, context);
    if expression.time.clock
        && let Some(at) = probe_change(now, truth)
    {
        boundaries.push(Boundary { at, basis: EtaBasis::Clock });
    }
    if let Some(grid) = expression.time.grid {
        add_grid(grid, now, &mut boundaries);
    }
    boundaries.retain(|boundary| boundary.at > now);
    // Stable: where two fall together the one that was known goes before the calendar's.
    boundaries.sort_by_key(|boundary| boundary.at);
    boundaries.dedup_by_key(|boundary| boundary.at);
    if boundaries.is_empty() {
        return None;
    }
    let present = truth(now);
    let found = boundaries.into_iter().take(TRIED).find(|boundary| truth(boundary.at) != present)?;
    Some(Flip { at: found.at, basis: found.basis })
}

/// Adds the moments of a grid for the horizon after now, and after each known moment that lies farther ahead.
fn add_grid(grid: Grid, now: Timestamp, boundaries: &mut Vec<Boundary>) {
    let step: i64 = match grid {
        Grid::Hours => 3600,
        Grid::Quarters => 900,
        Grid::Minutes => 60,
    };
    let mut starts: Vec<Timestamp> =
        boundaries.iter().map(|boundary| boundary.at).filter(|at| *at > now).collect();
    starts.push(now);
    starts.sort_unstable();
    let mut covered = Timestamp::MIN;
    let mut added = 0;
    for start in starts {
        let from = start.max(covered);
        let until = start.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
        let mut second = (from.as_second().div_euclid(step) + 1) * step;
        while second <= until.as_second() && added < TRIED {
            let Ok(at) = Timestamp::from_second(second) else { break };
            boundaries.push(Boundary { at, basis: EtaBasis::Schedule });
            second += step;
            added += 1;
        }
        covered = covered.max(until);
    }
}

/// The moments at which something the expression reads is known to change.
fn known_boundaries(expression: &GateExpression, context: &GateContext) -> Vec<Boundary> {
    let mut found = Vec::new();
    for counter in &expression.time.counters {
        counter_boundaries(counter, context, &mut found);
    }
    if let Some(names) = &expression.time.windows {
        let until = context.now.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
        for (name, window) in context.windows.iter().filter(|(name, _)| names.contains(name)) {
            let WindowContext::Usable(window) = window else { continue };
            let basis = || EtaBasis::Window { name: name.clone() };
            found.extend(
                window.transitions(context.now, until).into_iter().map(|at| Boundary { at, basis: basis() }),
            );
        }
    }
    if expression.time.approvals {
        for (name, approval) in &context.approvals {
            let basis = EtaBasis::Expiry { name: name.clone() };
            found.extend(approval.expires_at.map(|at| Boundary { at, basis }));
        }
    }
    if expression.time.metrics {
        for (name, metric) in &context.metrics {
            let basis = EtaBasis::Expiry { name: name.clone() };
            found.extend(metric.stale_from().map(|at| Boundary { at, basis }));
        }
    }
    found
}

fn counter_boundaries(counter: &Counter, context: &GateContext, found: &mut Vec<Boundary>) {
    let mut add = |since: Timestamp, unit: i64, basis: EtaBasis| {
        let at = |count: i64| {
            let after = SignedDuration::from_secs(count.checked_mul(unit)?);
            since.checked_add(after).ok()
        };
        let numbers: Vec<i64> = match &counter.thresholds {
            // A comparison changes where the number is reached, or where it is passed.
            Some(thresholds) => thresholds.iter().flat_map(|&one| [one, one.saturating_add(1)]).collect(),
            None => {
                let passed = (context.now.as_second() - since.as_second()).max(0) / unit;
                let ahead = if unit == 1 { SECONDS } else { HORIZON.as_secs() as i64 / unit };
                (passed..=passed + ahead).collect()
            }
        };
        found.extend(numbers.into_iter().filter_map(at).map(|at| Boundary { at, basis: basis.clone() }));
    };
    let is_it = |wanted: &Option<String>, name: &String| wanted.as_ref().is_none_or(|wanted| wanted == name);
    match &counter.source {
        CounterSource::Soak => {
            if let Some((environment, since)) = context.soak_since() {
                add(since, 60, EtaBasis::Soak { environment: environment.to_owned() });
            }
        }
        CounterSource::Age => {
            if let Some(created) = context.bundle.created_at {
                add(created, 60, EtaBasis::Age);
            }
        }
        CounterSource::Upstream(wanted) => {
            for (name, upstream) in context.upstream.iter().filter(|(name, _)| is_it(wanted, name)) {
                if let Some(since) = upstream.verified_at {
                    add(since, 60, EtaBasis::Soak { environment: name.clone() });
                }
            }
        }
        CounterSource::Contract(wanted) => {
            for (name, contract) in context.contracts.iter().filter(|(name, _)| is_it(wanted, name)) {
                if let Some(since) = contract.verified_at {
                    add(since, 60, EtaBasis::Contract { name: name.clone() });
                }
            }
        }
        CounterSource::MetricAge(_) => {
            for (name, metric) in &context.metrics {
                if let Some(at) = metric.measured_at {
                    let since = Timestamp::from_second(at.as_second()).unwrap_or(at);
                    add(since, 1, EtaBasis::Expiry { name: name.clone() });
                }
            }
        }
    }
}
