//! The end of a step: evidence, the last state, and the removal of what is no longer needed.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use slipway_git::{BranchName, CommitId};
use slipway_scm::ProviderKind;

use crate::Requeue;
use crate::kinds::{
    self, Bundle, BundlePhase, ConditionStatus, Evidence, FinalizerPresence, GateEvidence, GatePhase,
    GateRef, GateResult, GoDuration, KindError, PolicyGateSpec, PromotionStep, StepProgressState, StepState,
    labels,
};

use super::access::RepositoryAccess;
use super::outcome::{StepError, StepFailure};
use super::pull_request::RequiredGate;
use super::reconciler::StepShared;
use super::run::StepRun;
use super::status::{StatusWriter, set_step_condition};

/// The longest time the removal of a step waits for a server that does not answer.
const LONGEST_CLEANUP: SignedDuration = SignedDuration::from_mins(10);

/// Writes down that an environment runs the version, with what was known about it.
pub(super) async fn record_verified(run: &mut StepRun<'_>) -> Result<(), StepError> {
    let evidence = collect_evidence(run.shared, &run.writer.step, &run.writer.status.approvers).await?;
    let now = run.shared.clock.now();
    let StatusWriter { step, status, .. } = &mut run.writer;
    status.state = Some(StepState::Verified);
    status.verified_at = Some(now);
    status.evidence = Some(evidence);
    status.reason = None;
    status.message = None;
    status.current_step = None;
    status.next_check_at = None;
    set_step_condition(status, step, "Verified", ConditionStatus::True, "Verified", "", now);
    set_step_condition(status, step, "Progressing", ConditionStatus::False, "Verified", "", now);
    run.writer.write().await
}

/// Writes down that a step has failed.
pub(super) async fn record_failure(
    run: &mut StepRun<'_>,
    index: usize,
    failure: StepFailure,
) -> Result<(), StepError> {
    let evidence = collect_evidence(run.shared, &run.writer.step, &run.writer.status.approvers).await?;
    let now = run.shared.clock.now();
    let StatusWriter { step, status, .. } = &mut run.writer;
    if let Some(progress) = status.steps.get_mut(index) {
        progress.state = StepProgressState::Failed;
        progress.completed_at = Some(now);
        progress.message = Some(failure.message.clone());
    }
    status.state = Some(failure.state);
    status.failed_at = Some(now);
    status.evidence = Some(evidence);
    status.next_check_at = None;
    set_step_condition(
        status,
        step,
        "Verified",
        ConditionStatus::False,
        &failure.reason,
        &failure.message,
        now,
    );
    set_step_condition(status, step, "Progressing", ConditionStatus::False, &failure.reason, "", now);
    status.reason = Some(failure.reason);
    status.message = Some(failure.message);
    run.writer.write().await
}

/// Collects what gates and people have said.
async fn collect_evidence(
    shared: &StepShared,
    step: &PromotionStep,
    approvers: &[String],
) -> Result<Evidence, StepError> {
    let mut gates = Vec::new();
    for name in &step.spec.required_gates {
        let at = GateRef::parse(name, step.namespace());
        let gate = kinds::get::<PolicyGateSpec>(&shared.cluster, &at.namespace, &at.name).await?;
        gates.push(RequiredGate { name: name.clone(), gate });
    }
    let known = || gates.iter().filter_map(|required| required.gate.as_ref());
    let blocked = known().filter_map(|gate| gate.status.first_blocked_at).min();
    let passed = known().filter_map(|gate| gate.status.passed_at).max();
    let gate_duration = blocked
        .zip(passed)
        .and_then(|(from, to)| std::time::Duration::try_from(to.duration_since(from)).ok().map(GoDuration));
    let mut metrics = BTreeMap::new();
    for gate in known() {
        for (path, value) in &gate.status.values {
            let name = path.strip_prefix("metrics.").and_then(|rest| rest.strip_suffix(".value"));
            if let (Some(name), Some(value)) = (name, value.as_f64()) {
                metrics.insert(name.to_owned(), value);
            }
        }
    }
    let policy_gates = gates.iter().map(|required| {
        let status = required.gate.as_ref().map(|gate| &gate.status);
        let is_overridden = status.is_some_and(|status| status.phase == Some(GatePhase::Overridden));
        GateEvidence {
            name: required.shown_name(),
            scope: required.scope(),
            result: match (status.is_some_and(|status| status.ready), is_overridden) {
                (true, true) => GateResult::Override,
                (true, false) => GateResult::Pass,
                (false, _) => GateResult::Fail,
            },
            reason: status.and_then(|status| status.reason.clone()),
            evaluated_at: status.and_then(|status| status.last_evaluated_at),
            overridden: is_overridden,
        }
    });
    let policy_gates = policy_gates.collect();
    Ok(Evidence { metrics, gate_duration, approved_by: approvers.to_vec(), policy_gates })
}

impl StepShared {
    /// Ends a step whose bundle does not go on.
    pub(super) async fn cancel(&self, step: PromotionStep, bundle: &Bundle) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        let mut writer = StatusWriter::new(&self.cluster, step);
        let newer = bundle.status.superseded_by.as_deref().unwrap_or("a newer bundle");
        let message = match bundle.phase() {
            BundlePhase::Superseded => format!("superseded by {newer}"),
            _ => format!("the bundle {} is gone", bundle.name()),
        };
        let status = &mut writer.status;
        status.state = Some(StepState::Cancelled);
        status.failed_at = Some(now);
        status.reason = Some("Superseded".to_owned());
        status.message = Some(message);
        status.next_check_at = None;
        set_step_condition(status, &writer.step, "Progressing", ConditionStatus::False, "Cancelled", "", now);
        match writer.write().await {
            Ok(()) => self.clean_up(writer.step).await,
            Err(_) => Ok(Requeue::after(now, std::time::Duration::from_secs(1))),
        }
    }

    /// Removes what a step that has ended leaves behind, then lets it go.
    pub(super) async fn clean_up(&self, step: PromotionStep) -> Result<Requeue, KindError> {
        if !step.metadata.finalizers.iter().any(|known| known == labels::FINALIZER) {
            return Ok(Requeue::Done);
        }
        let now = self.clock.now();
        let ended = step.metadata.deletion_timestamp.or(step.status.failed_at).or(step.status.verified_at);
        let is_late = ended.is_some_and(|ended| now.duration_since(ended) >= LONGEST_CLEANUP);
        match self.remove_traces(&step).await {
            Ok(()) => {}
            Err(StepError::Stopped) => return Ok(Requeue::after(now, std::time::Duration::from_secs(1))),
            Err(StepError::Trouble(trouble)) if !is_late && trouble.reason != "CredentialsMissing" => {
                let pause = now.saturating_add(SignedDuration::from_secs(30)).unwrap_or(now);
                return Ok(Requeue::At(trouble.retry_at.map_or(pause, |at| at.max(pause))));
            }
            // What cannot be removed must not keep the step, or its namespace, for ever.
            Err(error) => {
                let branch = step.status.head_branch.as_deref().unwrap_or_default();
                tracing::warn!(step = %step.reference(), branch, %error, "the branch and its pull request stay");
            }
        }
        match kinds::set_finalizer(&self.cluster, &step, labels::FINALIZER, FinalizerPresence::Absent).await {
            Err(error) if error.is_absent() => Ok(Requeue::Done),
            Err(error) if error.is_conflict() => Ok(Requeue::after(now, std::time::Duration::from_secs(1))),
            result => result.map(|_| Requeue::Done),
        }
    }

    /// Closes the pull request unless it was merged, and deletes the promotion branch.
    async fn remove_traces(&self, step: &PromotionStep) -> Result<(), StepError> {
        let status = &step.status;
        let branch = status.head_branch.as_deref().filter(|branch| branch.starts_with("kardinal/"));
        let Some(branch) = branch else { return Ok(()) };
        let access = self.connect(step).await?;
        if self.stop.is_cancelled() {
            return Err(StepError::Stopped);
        }
        let is_merged = status.merge_sha.is_some();
        if access.kind == ProviderKind::None {
            return delete_plain_branch(&access, branch, status.head_sha.as_deref()).await;
        }
        let scm = access.scm()?;
        if let (Some(number), false) = (status.pr_number, is_merged) {
            let found = scm.get(number).await?;
            if found.state == slipway_scm::PullRequestState::Open {
                let why = status.message.as_deref().unwrap_or("the promotion was removed");
                let text = format!("{CLOSE_MARKER}\nClosed: {}", slipway_scm::escape_markdown(why));
                scm.upsert_comment(number, CLOSE_MARKER, &text).await?;
                scm.close(number).await?;
            }
        }
        scm.delete_branch(&BranchName::parse(branch)?).await?;
        Ok(())
    }
}

/// The marker of the comment on closed pull requests.
pub(super) const CLOSE_MARKER: &str = "<!-- kardinal:closed -->";

async fn delete_plain_branch(
    access: &RepositoryAccess,
    branch: &str,
    head: Option<&str>,
) -> Result<(), StepError> {
    let Some(Ok(head)) = head.map(CommitId::parse) else { return Ok(()) };
    // A branch people have worked on stays.
    access.repository.delete_branch(&BranchName::parse(branch)?, &head).await?;
    Ok(())
}
