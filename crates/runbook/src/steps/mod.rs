//! What each kind of step does, and how it is undone.

pub(crate) mod apply;
pub(crate) mod delete;
pub(crate) mod helm;
pub(crate) mod job;
pub(crate) mod patch;
pub(crate) mod rollout;
pub(crate) mod wait;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::context::StepContext;
use crate::decode::block::Block;
use crate::error::StepError;
use crate::model::Action;
use crate::plan::Seen;
use crate::plan::look::PlanRequest;
use crate::references;

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

/// The answer of a step, in time.
pub(crate) type StepFuture<'a, T> = BoxFuture<'a, Result<T, StepError>>;

/// One type of step. Each has a file of its own under `steps`.
pub(crate) trait StepAction: Sync {
    /// Says what the step is about, in a few words; never a credential.
    fn describe(&self) -> String;

    /// Says what it would do to what is there now. Only reads; dry runs where differences are asked for.
    fn plan<'a>(&'a self, cx: &'a StepContext<'a>, request: &'a PlanRequest<'a>) -> StepFuture<'a, Seen>;

    /// Makes one attempt.
    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome>;

    /// Why there is nothing to undo, if that is so.
    fn irreversible(&self) -> Option<&'static str>;

    /// Names what of it is there to be taken away.
    fn plan_undo<'a>(&'a self, _: &'a StepContext<'a>) -> StepFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Makes one attempt at taking away what it made.
    fn undo<'a>(&'a self, _: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(std::future::ready(Ok(StepOutcome::default())))
    }

    /// Whether it ends in its own way when its time is over: a release must not be left pending.
    fn keeps_time(&self) -> bool {
        false
    }
}

/// How a type of step is written.
pub(crate) struct StepType {
    /// The key of its block.
    pub(crate) key: &'static str,
    /// What it cannot do without.
    pub(crate) needed: &'static str,
    /// Reads its block; the name is the step's.
    pub(crate) decode: fn(&Block<'_, '_>, &str) -> Option<Action>,
    /// The name of its definition in the schema.
    pub(crate) definition: &'static str,
    /// What it does, for editors.
    pub(crate) about: &'static str,
    pub(crate) schema: fn() -> Value,
}

/// Every type of step, in the order messages name them.
pub(crate) const STEP_TYPES: &[StepType] =
    &[helm::TYPE, apply::TYPE, delete::TYPE, patch::TYPE, wait::TYPE, rollout::TYPE, job::TYPE];

impl Action {
    /// The step's type.
    pub(crate) fn as_step(&self) -> &dyn StepAction {
        match self {
            Self::Helm(helm) => helm,
            Self::Apply(apply) => apply,
            Self::Delete(delete) => delete,
            Self::Patch(patch) => patch,
            Self::Wait(wait) => wait,
            Self::Rollout(rollout) => rollout,
            Self::Job(job) => job,
        }
    }
}

/// Makes one attempt at a step.
pub(crate) async fn perform(attempt: &StepContext<'_>) -> Result<StepOutcome, StepError> {
    let action = references::resolve_action(&attempt.world.place, attempt.step).await?;
    let action = action.as_step();
    if action.keeps_time() {
        return action.perform(attempt).await;
    }
    stoppable(attempt, action.perform(attempt)).await
}

/// Makes one attempt at undoing a step.
pub(crate) async fn undo(attempt: &StepContext<'_>) -> Result<StepOutcome, StepError> {
    let action = attempt.step.action.as_step();
    if action.keeps_time() {
        return action.undo(attempt).await;
    }
    stoppable(attempt, action.undo(attempt)).await
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
