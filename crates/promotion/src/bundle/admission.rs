//! Decides whether a Bundle may start.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::supersede::{SupersedeDecision, SupersedeInput, compare_age, decide_supersede};
use crate::gate::{GateEvaluator, SkipDecision, decide_skip};
use crate::kinds::{Bundle, BundlePhase, GateType, Pipeline, PolicyGate, SupersedePolicy, labels};
use crate::rollback::held_by;
use crate::translate::{self, EnvironmentOrder, Selection};

/// Why a Bundle has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdmissionHold {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The environments a Bundle passes by its intent; none if the intent or the pipeline is wrong.
pub(crate) fn covered_environments(pipeline: &Pipeline, bundle: &Bundle) -> BTreeSet<String> {
    let Ok(order) = EnvironmentOrder::of(&pipeline.spec) else { return BTreeSet::new() };
    let Ok(selection) = Selection::of(&order, &bundle.spec.intent()) else { return BTreeSet::new() };
    selection.environments().map(|environment| environment.name.clone()).collect()
}

/// A hash of everything admission depends on that may change: labels, and the pipeline.
pub(super) fn admission_hash(pipeline: &Pipeline, bundle: &Bundle) -> String {
    let annotations = [labels::REFRESH, labels::FORCE].map(|key| bundle.metadata.annotation(key));
    let read = (&bundle.metadata.labels, annotations, &pipeline.metadata.uid, pipeline.metadata.generation);
    labels::short_hash(&serde_json::to_string(&read).unwrap_or_default(), 16)
}

/// Finds a reason to wait: older Bundles, too many at once, or a version that was taken back.
pub(super) fn find_hold(pipeline: &Pipeline, bundle: &Bundle, siblings: &[Bundle]) -> Option<AdmissionHold> {
    let covered = covered_environments(pipeline, bundle);
    if let Some((environment, hold)) =
        covered.iter().find_map(|environment| Some((environment, held_by(bundle, environment, siblings)?)))
    {
        let message = format!(
            "this version was taken back from {environment} by {}; set `{}: \"true\"` to promote it again",
            hold.rollback,
            labels::FORCE
        );
        return Some(AdmissionHold { reason: "HeldAfterRollback", message });
    }
    let others = || siblings.iter().filter(|other| other.metadata.uid != bundle.metadata.uid);
    if pipeline.spec.supersede == SupersedePolicy::Queue && !bundle.is_rollback() {
        let is_ahead = |other: &&Bundle| {
            !other.phase().is_terminal()
                && other.spec.kind == bundle.spec.kind
                && compare_age(other, bundle).is_lt()
        };
        if let Some(ahead) = others().find(is_ahead) {
            let message = format!("waits for {}", ahead.name());
            return Some(AdmissionHold { reason: "Queued", message });
        }
    }
    let limit = usize::try_from(pipeline.spec.max_concurrent_promotions).unwrap_or(usize::MAX);
    let counts = |other: &&Bundle| {
        other.phase() == BundlePhase::Promoting && !gives_way(pipeline, other, bundle, &covered)
    };
    let running = others().filter(counts).count();
    if limit > 0 && running >= limit {
        let message = format!("{running} of at most {limit} bundles are promoted");
        return Some(AdmissionHold { reason: "Queued", message });
    }
    None
}

/// A Bundle that is superseded as soon as this one starts takes no place.
fn gives_way(pipeline: &Pipeline, older: &Bundle, newer: &Bundle, covered: &BTreeSet<String>) -> bool {
    let recorded = &older.status.environments;
    let left: Vec<String> = covered_environments(pipeline, older)
        .into_iter()
        .filter(|name| {
            recorded.get(name).and_then(|record| record.state) != Some(crate::kinds::StepState::Verified)
        })
        .collect();
    let input =
        SupersedeInput { older, newer, policy: pipeline.spec.supersede, left: &left, covered, states: &[] };
    compare_age(older, newer).is_lt() && decide_supersede(&input) == SupersedeDecision::Supersede
}

/// Decides on each environment the Bundle wants to leave out.
pub(crate) fn decide_skips(
    evaluator: &GateEvaluator,
    pipeline: &Pipeline,
    bundle: &Bundle,
    gates: &[PolicyGate],
    policy_namespaces: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<SkipDecision> {
    let known =
        |name: &&String| pipeline.spec.environments.iter().any(|environment| environment.name == **name);
    let intent = bundle.spec.intent();
    let org = |gate_type, environment: &str| {
        translate::org_gates(gates, gate_type, environment, &pipeline.metadata.labels, policy_namespaces)
    };
    intent
        .skip
        .iter()
        .filter(known)
        .map(|name| {
            let (forbidding, permissions) = (org(GateType::Gate, name), org(GateType::SkipPermission, name));
            decide_skip(evaluator, bundle, name, &forbidding, &permissions, now)
        })
        .collect()
}
