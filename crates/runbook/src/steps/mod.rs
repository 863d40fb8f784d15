//! What each kind of step does, and how it is undone.

pub(crate) mod apply;
pub(crate) mod delete;
pub(crate) mod helm;
pub(crate) mod job;
pub(crate) mod patch;
pub(crate) mod rollout;
pub(crate) mod wait;

use crate::context::StepContext;
use crate::error::StepError;
use crate::model::Action;

/// A step that went well, and what is worth saying about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepOutcome {
    pub(crate) note: Option<String>,
}

impl StepOutcome {
    pub(crate) fn noted(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()) }
    }
}

/// Makes one attempt at a step.
pub(crate) async fn perform(attempt: &StepContext<'_>) -> Result<StepOutcome, StepError> {
    match &attempt.step.action {
        // A release ends in its own way: it must not be left pending.
        Action::Helm(helm) => Box::pin(helm::install(attempt, helm)).await,
        Action::Delete(delete) if delete::is_release(delete) => Box::pin(delete::run(attempt, delete)).await,
        action => {
            let work = async {
                match action {
                    Action::Apply(apply) => Box::pin(apply::run(attempt, apply)).await,
                    Action::Delete(delete) => Box::pin(delete::run(attempt, delete)).await,
                    Action::Patch(patch) => Box::pin(patch::run(attempt, patch)).await,
                    Action::Wait(wait) => Box::pin(wait::run(attempt, wait)).await,
                    Action::Rollout(rollout) => Box::pin(rollout::run(attempt, rollout)).await,
                    Action::Job(job) => Box::pin(job::run(attempt, job)).await,
                    Action::Helm(_) => Ok(StepOutcome::default()),
                }
            };
            stoppable(attempt, work).await
        }
    }
}

/// Makes one attempt at undoing a step.
pub(crate) async fn undo(attempt: &StepContext<'_>) -> Result<StepOutcome, StepError> {
    match &attempt.step.action {
        Action::Helm(helm) => Box::pin(delete::release(attempt, &helm.release, &helm.namespace, true)).await,
        Action::Apply(apply) => stoppable(attempt, apply::undo(attempt, apply)).await,
        Action::Job(job) => stoppable(attempt, job::undo(attempt, job)).await,
        Action::Delete(_) | Action::Patch(_) | Action::Wait(_) | Action::Rollout(_) => {
            Ok(StepOutcome::default())
        }
    }
}

/// Why a kind of step leaves nothing to undo, if that is so.
pub(crate) fn irreversible(action: &Action) -> Option<&'static str> {
    match action {
        Action::Helm(_) | Action::Apply(_) | Action::Job(_) => None,
        Action::Delete(_) => Some("a delete cannot be undone"),
        Action::Patch(_) => Some("a patch cannot be undone"),
        Action::Wait(_) => Some("a wait creates nothing"),
        Action::Rollout(_) => Some("a rollout creates nothing"),
    }
}

/// Drops the work when it is told to stop and says what it was waiting for.
async fn stoppable(
    attempt: &StepContext<'_>,
    work: impl Future<Output = Result<StepOutcome, StepError>>,
) -> Result<StepOutcome, StepError> {
    tokio::select! {
        biased;
        did = attempt.trouble.watch(work) => did,
        () = attempt.cancel.cancelled() => Err(attempt.stopped().await),
    }
}
