//! Permission to leave an environment out.

use super::context::GateContext;
use super::evaluate::GateEvaluator;
use super::outcome::GateOutcome;
use crate::kinds::{Bundle, PolicyGate};

/// The decision on one environment a bundle wants to leave out.
#[derive(Clone, Debug, PartialEq)]
pub struct SkipDecision {
    pub environment: String,
    /// The org gates that forbid it without permission.
    pub forbidden_by: Vec<String>,
    /// Each permission with its evaluation.
    pub permissions: Vec<SkipPermission>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SkipPermission {
    pub gate: String,
    pub outcome: GateOutcome,
}

impl SkipDecision {
    /// No org gate applies, or a permission was given.
    pub fn is_allowed(&self) -> bool {
        self.forbidden_by.is_empty() || self.granted_by().is_some()
    }

    /// The permission that was given.
    pub fn granted_by(&self) -> Option<&str> {
        self.permissions.iter().find(|one| one.outcome.ready).map(|one| one.gate.as_str())
    }

    /// Says what forbids the skip, and why no permission was given.
    pub fn message(&self) -> String {
        let environment = &self.environment;
        if self.forbidden_by.is_empty() {
            return format!("no org gate applies to {environment}");
        }
        if let Some(gate) = self.granted_by() {
            return format!("{environment} may be left out: {gate} allows it");
        }
        let gates = self.forbidden_by.join(", ");
        if self.permissions.is_empty() {
            return format!("{environment} may not be left out: {gates} must pass and no permission applies");
        }
        let tried = self.permissions.iter().map(|one| format!("{}: {}", one.gate, one.outcome.reason));
        let tried = tried.collect::<Vec<_>>().join("; ");
        format!("{environment} may not be left out: {gates} must pass ({tried})")
    }
}

/// Decides whether a bundle may leave an environment out.
///
/// `org_gates` are the trusted org gates of the environment, `permissions` its trusted skip permissions. Permissions see the
/// bundle and the environment and nothing else; whatever goes wrong denies.
pub fn decide_skip(
    evaluator: &GateEvaluator,
    bundle: &Bundle,
    environment: &str,
    org_gates: &[&PolicyGate],
    permissions: &[&PolicyGate],
    now: jiff::Timestamp,
) -> SkipDecision {
    let context = GateContext::for_bundle(bundle, environment, now);
    let permission = |gate: &&PolicyGate| SkipPermission {
        gate: gate.name().to_owned(),
        outcome: evaluator.evaluate_now(&gate.spec, &context),
    };
    let permissions =
        if org_gates.is_empty() { Vec::new() } else { permissions.iter().map(permission).collect() };
    SkipDecision {
        environment: environment.to_owned(),
        forbidden_by: org_gates.iter().map(|gate| gate.name().to_owned()).collect(),
        permissions,
    }
}
