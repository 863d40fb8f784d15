//! Copies what steps did into the record of their Bundle, which outlives them.

use jiff::Timestamp;

use crate::kinds::{
    BundleEnvironmentStatus, Evidence, GateEvidence, GatePhase, GateRef, GateResult, GoDuration, MetricCheck,
    PolicyGate, PromotionStep, StepState, labels,
};

/// Objects that evidence is composed of.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceSources<'a> {
    /// Gates of the Bundle.
    pub gates: &'a [PolicyGate],
    /// Metric checks in reach of the pipeline.
    pub metrics: &'a [MetricCheck],
}

/// The record of an environment after its steps were read again. What was recorded stays where steps say nothing new.
pub fn record_environment(
    known: Option<&BundleEnvironmentStatus>,
    state: StepState,
    steps: &[&PromotionStep],
    sources: EvidenceSources<'_>,
) -> BundleEnvironmentStatus {
    let mut record = known.cloned().unwrap_or_default();
    if record.state.is_some_and(StepState::is_failure) && !state.is_failure() {
        // Tried again: what was known of the failure is no evidence of what comes.
        (record.failed_at, record.evidence) = (None, None);
    }
    record.state = Some(state);
    record.reason = None;
    for step in steps {
        let status = &step.status;
        let earliest = |known: &mut Option<Timestamp>, new: Option<Timestamp>| {
            *known = [*known, new].into_iter().flatten().min();
        };
        earliest(&mut record.started_at, status.started_at);
        earliest(&mut record.promoted_at, status.promoted_at);
        let latest = |known: &mut Option<Timestamp>, new: Option<Timestamp>| *known = (*known).max(new);
        latest(&mut record.merged_at, status.merged_at);
        latest(&mut record.failed_at, status.failed_at);
        if state == StepState::Verified {
            latest(&mut record.verified_at, status.verified_at);
        }
        let take = |known: &mut Option<String>, new: &Option<String>| {
            if new.is_some() {
                known.clone_from(new);
            }
        };
        take(&mut record.merged_by, &status.merged_by);
        take(&mut record.pr_url, &status.pr_url);
        let commit = status.merge_sha.clone().or_else(|| status.outputs.get("commitSHA").cloned());
        take(&mut record.commit_sha, &commit);
        if !matches!(step.state(), StepState::Verified) && status.reason.is_some() {
            record.reason.clone_from(&status.reason);
        }
    }
    if state == StepState::Verified {
        record.soak_since = record.verified_at;
    }
    if record.evidence.is_none() && state.is_terminal() && state != StepState::Cancelled {
        record.evidence = Some(compose_evidence(steps, sources));
    }
    record
}

/// The evidence of an environment: that of its steps, with gates, approvals and measurements they do not have.
fn compose_evidence(steps: &[&PromotionStep], sources: EvidenceSources<'_>) -> Evidence {
    let mut evidence = steps.iter().find_map(|step| step.status.evidence.clone()).unwrap_or_default();
    let required: Vec<GateRef> = steps
        .iter()
        .flat_map(|step| step.spec.required_gates.iter().map(|entry| GateRef::parse(entry, step.namespace())))
        .collect();
    let gates: Vec<&PolicyGate> = sources
        .gates
        .iter()
        .filter(|gate| required.iter().any(|at| at.name == gate.name() && at.namespace == gate.namespace()))
        .collect();
    if evidence.policy_gates.is_empty() {
        evidence.policy_gates = gates.iter().map(|gate| gate_evidence(gate)).collect();
    }
    if evidence.gate_duration.is_none() {
        evidence.gate_duration = gate_duration(&gates);
    }
    for step in steps {
        for person in step.status.approvers.iter().chain(&step.status.merged_by) {
            if !evidence.approved_by.contains(person) {
                evidence.approved_by.push(person.clone());
            }
        }
    }
    for check in sources.metrics {
        if let Some(value) = check.status.latest.value {
            evidence.metrics.entry(check.name().to_owned()).or_insert(value);
        }
    }
    evidence
}

fn gate_evidence(gate: &PolicyGate) -> GateEvidence {
    let status = &gate.status;
    let is_overridden = status.phase == Some(GatePhase::Overridden);
    let template = gate.spec.template_ref.as_ref().map(|template| template.name.clone());
    let name = template.or_else(|| gate.metadata.label(labels::GATE_NAME).map(str::to_owned));
    GateEvidence {
        name: name.unwrap_or_else(|| gate.name().to_owned()),
        scope: gate.spec.scope,
        result: match (status.ready, is_overridden) {
            (_, true) => GateResult::Override,
            (true, false) => GateResult::Pass,
            (false, false) => GateResult::Fail,
        },
        reason: status.reason.clone(),
        evaluated_at: status.last_evaluated_at,
        overridden: is_overridden,
    }
}

/// The time from the first gate that blocked, or was there, to the last that passed.
fn gate_duration(gates: &[&PolicyGate]) -> Option<GoDuration> {
    let begin = |gate: &&PolicyGate| gate.status.first_blocked_at.or(gate.metadata.creation_timestamp);
    let first = gates.iter().filter_map(begin).min()?;
    let last = gates.iter().filter_map(|gate| gate.status.passed_at).max()?;
    let seconds = u64::try_from(last.as_second() - first.as_second()).unwrap_or(0);
    Some(GoDuration::from_secs(seconds))
}
