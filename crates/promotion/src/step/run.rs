//! One turn of a step: entry after entry, each announced in the status before it begins.
//!
//! The write before an entry also holds the result of the entry before it, so that a process may end anywhere: an entry
//! that is `InProgress` is carried out again and finds what was done.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::Requeue;
use crate::kinds::{
    Bundle, ConditionStatus, HealthType, PromotionStep, StepProgress, StepProgressState, StepSpec, StepState,
    find_condition, remove_condition,
};

use super::actions::{StepAction, run_custom};
use super::condition;
use super::context::StepContext;
use super::finish::{record_failure, record_verified};
use super::hold::note_hold;
use super::outcome::{Dependency, StepError, StepFailure, StepOutput, StepProgressed, StepTrouble};
use super::plain_merge;
use super::reconciler::StepShared;
use super::sequence::{SequenceInputs, default_sequence};
use super::start::{StartDecision, decide};
use super::status::{StatusWriter, set_step_condition};
use super::workspace::{Workspace, merge_outputs};

/// The time between two looks at a step that waits to begin, or that is held.
pub(super) const PENDING_POLL: Duration = Duration::from_secs(30);
/// The pauses after trouble: doubled from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The longest time trouble may last unless the step says otherwise.
const LONGEST_TROUBLE: SignedDuration = SignedDuration::from_hours(1);

/// A step at work.
pub(super) struct StepRun<'r> {
    pub(super) shared: &'r StepShared,
    pub(super) bundle: &'r Bundle,
    pub(super) writer: StatusWriter,
    pub(super) sequence: Vec<StepSpec>,
    pub(super) workspace: Workspace,
    /// The reason the pipeline is paused.
    pub(super) pause: Option<String>,
    /// Somebody says that there is something to see: waiting times do not count.
    pub(super) is_nudged: bool,
}

/// The sequence of a step: its own, or the usual one of its environment.
pub(super) fn sequence_of(step: &PromotionStep, bundle: &Bundle) -> Vec<StepSpec> {
    let spec = &step.spec;
    if !spec.steps.is_empty() {
        return spec.steps.clone();
    }
    default_sequence(SequenceInputs {
        bundle: bundle.spec.kind,
        strategy: spec.update.strategy,
        approval: spec.approval,
        opens_pull_request: spec.pr,
        layout: spec.layout,
        renders_manifests: spec.render_manifests,
    })
}

impl StepRun<'_> {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Carries the step as far as it goes now.
    pub(super) async fn advance(&mut self) -> Result<Requeue, StepError> {
        if self.writer.status.state.unwrap_or_default() == StepState::Pending
            && let Some(later) = self.begin().await?
        {
            return Ok(later);
        }
        loop {
            let index = self.writer.status.current_step_index.unwrap_or(0) as usize;
            if index >= self.sequence.len() {
                record_verified(self).await?;
                return Ok(Requeue::Done);
            }
            if let Some(later) = Box::pin(self.advance_entry(index)).await? {
                return Ok(later);
            }
            if self
                .writer
                .status
                .state
                .is_some_and(|state| state.is_terminal() || state == StepState::RollingBack)
            {
                return Ok(Requeue::Done);
            }
        }
    }

    /// Begins if nothing is in the way.
    async fn begin(&mut self) -> Result<Option<Requeue>, StepError> {
        let turn = self.shared.environment_turn(&self.writer.step);
        let _turn = turn.lock().await;
        let decision = decide(self.shared, &self.writer.step, self.bundle, self.pause.as_deref()).await?;
        let now = self.now();
        let StepRun { writer, .. } = self;
        let status = &mut writer.status;
        status.observed_generation = Some(writer.step.metadata.generation);
        if let StartDecision::Wait { reason, message } = decision {
            let (held, gated) = (reason == "Paused", matches!(reason, "AwaitingGate" | "MissingOrgGate"));
            let truth = |is_true: bool| if is_true { ConditionStatus::True } else { ConditionStatus::False };
            set_step_condition(status, &writer.step, "Held", truth(held), reason, &message, now);
            set_step_condition(status, &writer.step, "AwaitingGate", truth(gated), reason, &message, now);
            status.state = Some(StepState::Pending);
            status.reason = Some(reason.to_owned());
            status.message = Some(message);
            writer.write().await?;
            return Ok(Some(Requeue::after(now, PENDING_POLL)));
        }
        let baseline = match writer.step.spec.health.adapter {
            Some(HealthType::None) => None,
            _ => Some(self.shared.baseline(&writer.step).await?),
        };
        let status = &mut writer.status;
        set_step_condition(status, &writer.step, "Held", ConditionStatus::False, "Started", "", now);
        set_step_condition(status, &writer.step, "AwaitingGate", ConditionStatus::False, "Open", "", now);
        set_step_condition(status, &writer.step, "Progressing", ConditionStatus::True, "Started", "", now);
        status.state = Some(StepState::Promoting);
        status.reason = None;
        status.message = None;
        status.attempt = Some(status.attempt.unwrap_or(1));
        status.started_at = Some(now);
        status.health_baseline = baseline;
        status.current_step_index = Some(0);
        status.steps = self
            .sequence
            .iter()
            .map(|entry| StepProgress { name: entry_name(entry).to_owned(), ..StepProgress::default() })
            .collect();
        writer.write().await?;
        Ok(None)
    }

    /// Carries one entry out; `Some` when the turn ends there.
    async fn advance_entry(&mut self, index: usize) -> Result<Option<Requeue>, StepError> {
        let action = StepAction::parse(&self.sequence[index].uses);
        let now = self.now();
        let is_new =
            self.progress(index).is_none_or(|progress| progress.state != StepProgressState::InProgress);
        if is_new && !self.applies(index)? {
            self.complete(index, StepProgressState::Skipped, StepOutput::new("left out by its condition"));
            return Ok(None);
        }
        let is_held = action.is_none_or(StepAction::is_held_by_pause);
        let hold = self.pause.clone().filter(|_| is_held || action == Some(StepAction::WaitForMerge));
        note_hold(&mut self.writer.status, &self.writer.step, hold.as_deref(), now);
        if hold.is_none() {
            // Held for a while because somebody had edited its spec.
            let StatusWriter { step, status, .. } = &mut self.writer;
            set_step_condition(status, step, "Held", ConditionStatus::False, "Resumed", "", now);
        }
        let is_awaited = action == Some(StepAction::WaitForMerge) && hold.is_none() && self.is_approved();
        if let Some(reason) = hold.filter(|_| is_held) {
            self.writer.status.reason = Some("Paused".to_owned());
            self.writer.status.message = Some(reason);
            self.writer.write().await?;
            return Ok(Some(Requeue::after(now, PENDING_POLL)));
        }
        let has_reason = is_new || self.is_nudged || is_awaited;
        if let Some(due) = self.writer.status.next_check_at.filter(|due| *due > now && !has_reason) {
            if action == Some(StepAction::WaitForMerge) {
                self.refresh_gates(index).await?;
            }
            self.writer.write().await?;
            return Ok(Some(Requeue::At(due)));
        }
        if is_new {
            self.announce(index, action);
        }
        self.writer.write().await?;
        let result = self.carry_out(index, action).await;
        self.is_nudged = false;
        match result {
            Ok(StepProgressed::Done(output)) => {
                self.complete(index, StepProgressState::Completed, output);
                Ok(None)
            }
            Ok(StepProgressed::Wait { until, message }) => {
                self.clear_trouble();
                let due = until.max(now);
                let is_at_once = until <= now;
                let status = &mut self.writer.status;
                status.next_check_at = if is_at_once { None } else { Some(due) };
                status.message = Some(message.clone());
                status.reason = None;
                self.note(index, message);
                self.writer.write().await?;
                Ok(if is_at_once { None } else { Some(Requeue::At(due)) })
            }
            Err(StepError::Trouble(trouble)) => self.bear_trouble(index, trouble).await.map(Some),
            Err(StepError::Failed(failure)) => self.fail_or_retry(index, failure).await,
            Err(other) => Err(other),
        }
    }

    /// Returns true if a merge without a pull request waited for an approval that is there now. After trouble the next look
    /// has its time.
    fn is_approved(&self) -> bool {
        let StatusWriter { step, status, .. } = &self.writer;
        status.pr_number.is_none() && status.reason.is_none() && plain_merge::is_approved(step, self.bundle)
    }

    /// Evaluates the condition of an entry.
    fn applies(&self, index: usize) -> Result<bool, StepError> {
        match &self.sequence[index].condition {
            Some(text) => condition::holds(text, &self.writer.step, &self.writer.status, self.bundle),
            None => Ok(true),
        }
    }

    fn progress(&self, index: usize) -> Option<&StepProgress> {
        self.writer.status.steps.get(index)
    }

    /// Says in the status that an entry begins.
    fn announce(&mut self, index: usize, action: Option<StepAction>) {
        let now = self.now();
        let status = &mut self.writer.status;
        let name = entry_name(&self.sequence[index]).to_owned();
        status.state = Some(match action {
            Some(StepAction::WaitForMerge) => StepState::WaitingForMerge,
            Some(StepAction::HealthCheck) => StepState::HealthChecking,
            _ => StepState::Promoting,
        });
        status.current_step = Some(name.clone());
        status.next_check_at = None;
        status.reason = None;
        if let Some(progress) = status.steps.get_mut(index) {
            *progress = StepProgress {
                name,
                state: StepProgressState::InProgress,
                started_at: Some(now),
                attempts: 1,
                ..StepProgress::default()
            };
        }
    }

    async fn carry_out(
        &mut self,
        index: usize,
        action: Option<StepAction>,
    ) -> Result<StepProgressed, StepError> {
        let limit = self.writer.step.spec.step_timeout_seconds;
        let mut context = StepContext {
            shared: self.shared,
            step: &self.writer.step,
            status: &mut self.writer.status,
            bundle: self.bundle,
            sequence: &self.sequence,
            index,
            workspace: &mut self.workspace,
            pause: self.pause.as_deref(),
        };
        // Boxed: what all actions together keep between two waits is much for a stack.
        let work = async {
            match action {
                Some(action) => Box::pin(action.run(&mut context)).await,
                None => Box::pin(run_custom(&mut context)).await,
            }
        };
        let Some(seconds) = limit else { return work.await };
        let limit = Duration::from_secs(u64::from(seconds));
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(StepError::failed("StepTimeout", format!("the step took longer than {seconds} seconds")))
        })
    }

    /// Shows gates that have changed since, without asking for the pull request.
    async fn refresh_gates(&mut self, index: usize) -> Result<(), StepError> {
        let mut context = StepContext {
            shared: self.shared,
            step: &self.writer.step,
            status: &mut self.writer.status,
            bundle: self.bundle,
            sequence: &self.sequence,
            index,
            workspace: &mut self.workspace,
            pause: self.pause.as_deref(),
        };
        if context.status.pr_number.is_none() || context.has_no_change() {
            return Ok(());
        }
        match super::pull_request::publish_gates(&mut context).await {
            // The look at the pull request deals with that.
            Err(StepError::Trouble(_) | StepError::Failed(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts the result of an entry into the status; the next write holds it.
    fn complete(&mut self, index: usize, state: StepProgressState, output: StepOutput) {
        let now = self.now();
        self.clear_trouble();
        let uses = entry_name(&self.sequence[index]).to_owned();
        let is_custom = StepAction::parse(&self.sequence[index].uses).is_none();
        let status = &mut self.writer.status;
        if let Some(progress) = status.steps.get_mut(index) {
            progress.state = state;
            progress.name.clone_from(&uses);
            progress.completed_at = Some(now);
            progress.duration_ms = progress
                .started_at
                .and_then(|start| u64::try_from(now.duration_since(start).as_millis()).ok());
            progress.message = Some(output.message).filter(|message| !message.is_empty());
        }
        let mut outputs = output.outputs;
        if is_custom {
            let named: Vec<(String, String)> =
                outputs.iter().map(|(name, value)| (format!("{uses}.{name}"), value.clone())).collect();
            outputs.extend(named);
        }
        merge_outputs(&mut status.outputs, outputs);
        status.current_step_index = u32::try_from(index + 1).ok();
        status.next_check_at = None;
        status.message = None;
        status.reason = None;
    }

    fn note(&mut self, index: usize, message: String) {
        if let Some(progress) = self.writer.status.steps.get_mut(index) {
            progress.message = Some(message);
        }
    }

    fn clear_trouble(&mut self) {
        for dependency in Dependency::ALL {
            remove_condition(&mut self.writer.status.conditions, dependency.condition());
        }
    }

    /// Waits longer after each failure, until it has lasted too long.
    async fn bear_trouble(&mut self, index: usize, trouble: StepTrouble) -> Result<Requeue, StepError> {
        let now = self.now();
        let kind = trouble.dependency.condition();
        let since = find_condition(&self.writer.status.conditions, kind)
            .filter(|condition| condition.status == ConditionStatus::True)
            .and_then(|condition| condition.last_transition_time.parse::<Timestamp>().ok())
            .unwrap_or(now);
        let limit = match self.writer.step.spec.step_timeout_seconds {
            Some(seconds) => SignedDuration::from_secs(i64::from(seconds)),
            None => LONGEST_TROUBLE,
        };
        if now.duration_since(since) >= limit {
            record_failure(self, index, StepFailure::new(trouble.reason, trouble.message)).await?;
            return Ok(Requeue::Done);
        }
        // Whatever is on disk may be part of the trouble.
        self.workspace.clear();
        let attempts = self.progress(index).map_or(1, |progress| progress.attempts.max(1));
        let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(attempts - 1)).min(LONGEST_PAUSE);
        let next = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        let next = trouble.retry_at.map_or(next, |at| at.max(next));
        let StatusWriter { step, status, .. } = &mut self.writer;
        set_step_condition(status, step, kind, ConditionStatus::True, trouble.reason, &trouble.message, now);
        status.reason = Some(trouble.reason.to_owned());
        status.message = Some(trouble.message.clone());
        status.next_check_at = Some(next);
        if let Some(progress) = status.steps.get_mut(index) {
            progress.attempts = attempts + 1;
            progress.message = Some(trouble.message);
        }
        self.writer.write().await?;
        Ok(Requeue::At(next))
    }

    /// Fails, unless the entry may be tried again.
    async fn fail_or_retry(
        &mut self,
        index: usize,
        failure: StepFailure,
    ) -> Result<Option<Requeue>, StepError> {
        let attempts = self.progress(index).map_or(1, |progress| progress.attempts.max(1));
        let retry = self.sequence[index].retry.clone().unwrap_or_default();
        if attempts >= retry.attempts.unwrap_or(1) {
            record_failure(self, index, failure).await?;
            return Ok(Some(Requeue::Done));
        }
        let now = self.now();
        let pause = retry.backoff.map_or(FIRST_PAUSE, |pause| pause.0);
        let next = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        self.workspace.clear();
        let status = &mut self.writer.status;
        status.reason = Some(failure.reason);
        status.message = Some(failure.message.clone());
        status.next_check_at = Some(next);
        if let Some(progress) = status.steps.get_mut(index) {
            progress.attempts = attempts + 1;
            progress.message = Some(failure.message);
        }
        self.writer.write().await?;
        Ok(Some(Requeue::At(next)))
    }
}

/// The name of an entry: its own, or that of what it uses.
pub(super) fn entry_name(entry: &StepSpec) -> &str {
    entry.name.as_deref().unwrap_or(&entry.uses)
}
