//! The types of steps: a trait they all implement, and a file each.

pub(crate) mod apply;
pub(crate) mod delete;
pub(crate) mod helm;
pub(crate) mod http;
pub(crate) mod job;
pub(crate) mod patch;
pub(crate) mod rollout;
pub(crate) mod wait;

use std::path::Path;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::context::StepContext;
use crate::decode::block::Block;
use crate::error::AttemptError;
use crate::inputs::StepInputs;
use crate::model::{self, Step};
use crate::plan::StepPreview;
use crate::plan::earlier::Earlier;
use crate::plan::look::PlanRequest;
use crate::references::{self, StepResolver};

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
pub(crate) type StepFuture<'a, T> = BoxFuture<'a, Result<T, AttemptError>>;

/// One type of step. Each has a file of its own under `steps`.
pub(crate) trait StepAction: Sync {
    /// Says what the step is about, in a few words; never a credential.
    fn describe(&self) -> String;

    /// Says what it would do to what is there now. Only reads; dry runs where differences are asked for.
    fn plan<'a>(
        &'a self,
        cx: &'a StepContext<'a>,
        request: &'a PlanRequest<'a>,
    ) -> StepFuture<'a, StepPreview>;

    /// Makes one attempt.
    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome>;

    /// The reason why there is nothing to undo, if that is so.
    fn irreversible(&self) -> Option<&'static str>;

    /// Names what of it is there to be taken away.
    fn plan_undo<'a>(&'a self, _: &'a StepContext<'a>) -> StepFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Makes one attempt at taking away what it made.
    fn undo<'a>(&'a self, _: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(std::future::ready(Ok(StepOutcome::default())))
    }

    /// Tells that it ends in its own way when its time is over: a release must not be left pending.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Names what it reads besides its own text.
    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::default()
    }

    /// Tells that a field of its block says what leaving it out says.
    fn is_default(&self, _step: &Step, _key: &str, _value: &Value) -> bool {
        false
    }

    /// Tells that its `skipIf` leaves out what is done.
    fn skips_done(&self) -> bool {
        false
    }

    /// Adds what it brings that later steps may need; paths start from the directory.
    fn provide(&self, _base: &Path, _earlier: &mut Earlier) {}

    /// The namespace it works in, if it names one.
    fn namespace(&self) -> Option<&str> {
        None
    }

    /// Resolves the references to secrets in its text; none if it has none.
    fn resolve<'a>(&'a self, _: &'a StepResolver<'a>) -> StepFuture<'a, Option<Action>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Finds what is allowed and still likely a mistake; `secrets` are the values that must not be shown.
    fn lint(&self, _step: &Step, _secrets: &[&str]) -> Vec<StepWarning> {
        Vec::new()
    }
}

/// A likely mistake in a step.
pub(crate) struct StepWarning {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

/// The way a type of step is written.
pub(crate) struct StepType {
    /// The key of its block.
    pub(crate) key: &'static str,
    /// The fields it cannot do without.
    pub(crate) needed: &'static str,
    /// Reads its block; the name is the step's.
    pub(crate) decode: fn(&Block<'_, '_>, &str) -> Option<Action>,
    /// The name of its definition in the schema.
    pub(crate) definition: &'static str,
    /// Its purpose, for editors.
    pub(crate) about: &'static str,
    pub(crate) schema: fn() -> Value,
}

/// Lists the types of steps, in the order messages name them: the variant, its settings, its file.
macro_rules! step_types {
    ($($variant:ident($settings:ty) in $file:ident),* $(,)?) => {
        /// The action of a step.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Action {
            $($variant($settings)),*
        }

        impl Action {
            /// The key of the block.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $file::TYPE.key),*
                }
            }

            /// The step by its type.
            pub(crate) fn as_step(&self) -> &dyn StepAction {
                match self {
                    $(Self::$variant(step) => step),*
                }
            }
        }

        pub(crate) const STEP_TYPES: &[StepType] = &[$($file::TYPE),*];
    };
}

step_types! {
    Helm(model::Helm) in helm,
    Apply(model::Apply) in apply,
    Delete(model::Delete) in delete,
    Patch(model::Patch) in patch,
    Wait(model::Wait) in wait,
    Rollout(model::Rollout) in rollout,
    Job(model::Job) in job,
    Http(http::HttpCheck) in http,
}

/// Makes one attempt at a step.
pub(crate) async fn perform(attempt: &StepContext<'_>) -> Result<StepOutcome, AttemptError> {
    let action = references::resolve_action(&attempt.world.place, attempt.step).await?;
    let action = action.as_step();
    if action.keeps_time() {
        return action.perform(attempt).await;
    }
    stoppable(attempt, action.perform(attempt)).await
}

/// Makes one attempt at undoing a step.
pub(crate) async fn undo(attempt: &StepContext<'_>) -> Result<StepOutcome, AttemptError> {
    let action = attempt.step.action.as_step();
    if action.keeps_time() {
        return action.undo(attempt).await;
    }
    stoppable(attempt, action.undo(attempt)).await
}

/// Drops the work when it is told to stop and says what it was waiting for.
async fn stoppable(
    attempt: &StepContext<'_>,
    work: impl Future<Output = Result<StepOutcome, AttemptError>>,
) -> Result<StepOutcome, AttemptError> {
    tokio::select! {
        biased;
        did = attempt.trouble.record_during(work) => did,
        () = attempt.cancel.cancelled() => Err(attempt.stopped().await),
    }
}
