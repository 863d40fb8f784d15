//! Overrides: decisions to let a bundle through although the gate says no.

use jiff::Timestamp;

use crate::kinds::{GateOverride, PolicyGate, labels};

/// The promotion an override is asked for.
#[derive(Clone, Copy, Debug)]
pub struct OverrideSubject<'a> {
    pub pipeline: &'a str,
    pub environment: &'a str,
    pub bundle: &'a str,
}

/// Finds the override that opens a gate now: the one that lasts longest.
///
/// `gates` are the instance and its template; one that forbids overrides, and a freeze, cannot be overridden.
pub fn find_override<'g>(
    gates: &[&'g PolicyGate],
    subject: OverrideSubject<'_>,
    now: Timestamp,
) -> Option<&'g GateOverride> {
    let forbids = |gate: &&PolicyGate| !gate.spec.overridable || is_freeze(gate);
    if gates.iter().any(forbids) {
        return None;
    }
    let all = gates.iter().flat_map(|gate| &gate.spec.overrides);
    let valid = all.filter(|one| applies(one, subject) && is_current(one, now));
    valid.max_by_key(|one| one.expires_at.unwrap_or(Timestamp::MAX))
}

pub(crate) fn is_freeze(gate: &PolicyGate) -> bool {
    gate.metadata.label(labels::FREEZE) == Some("true")
}

fn applies(one: &GateOverride, subject: OverrideSubject<'_>) -> bool {
    let is = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == found)
    };
    !one.reason.trim().is_empty()
        && is(&one.stage, subject.environment)
        && is(&one.pipeline, subject.pipeline)
        && is(&one.bundle, subject.bundle)
}

fn is_current(one: &GateOverride, now: Timestamp) -> bool {
    one.expires_at.is_none_or(|end| now < end) && one.created_at.is_none_or(|start| start <= now)
}

/// Says who let the bundle through, until when and why.
pub(crate) fn override_reason(one: &GateOverride) -> String {
    let who = one.created_by.as_deref().unwrap_or("somebody unknown");
    match one.expires_at {
        Some(end) => format!("overridden by {who} until {end}: {}", one.reason),
        None => format!("overridden by {who}: {}", one.reason),
    }
}
