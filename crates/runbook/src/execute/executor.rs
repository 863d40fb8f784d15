//! Does the work of one step for the kernel.

use std::collections::HashMap;

use serde_json::{Value, json};
use slipway_graph::{
    Backoff, Context, Done, NodePolicy, NodeRef, OnFailure, Retry, RetryClass, RetryClasses, RunningNodes,
    Worker,
};

use super::Command;
use crate::context::{SharedContext, StepContext};
use crate::error::AttemptError;
use crate::model::{OnError, Step};
use crate::steps;

/// Carries out, or undoes, the steps the kernel hands it.
pub(super) struct StepExecutor<'a> {
    pub(super) world: &'a SharedContext<'a>,
    pub(super) command: Command,
    pub(super) interrupted: &'a HashMap<String, jiff::Timestamp>,
    pub(super) since: jiff::Timestamp,
}

impl<'g> Worker<'g, &'g Step> for StepExecutor<'_> {
    type Error = AttemptError;

    async fn work(&self, cx: Context<'g, &'g Step>) -> Result<Done, AttemptError> {
        let step: &Step = cx.value();
        let earlier = self.interrupted.get(&step.name).copied();
        let interrupted = earlier.or_else(|| (cx.attempt() > 1).then_some(self.since));
        let attempt = StepContext::new(self.world, step, cx.cancelled().clone(), interrupted);
        let done = match self.command {
            Command::Apply => Box::pin(steps::perform(&attempt)).await,
            Command::Destroy => Box::pin(steps::undo(&attempt)).await,
        };
        match done {
            Ok(did) => Ok(Done::Succeeded(did.note.map_or(
                Value::Null,
                |note| json!({"note": self.world.place.events.redactor().redact(&note)}),
            ))),
            Err(mut error) => {
                self.world.place.events.redactor().redact_in_place(&mut error.message);
                Err(error)
            }
        }
    }

    fn policy(&self, node: NodeRef<'g, &'g Step>, default: &NodePolicy) -> NodePolicy {
        let step = node.value();
        // A release keeps its own time: it records how it ended and may roll back.
        let keeps_time = step.action.as_step().keeps_time();
        let on = RetryClasses::TRANSIENT.with(RetryClass::Timeout);
        NodePolicy {
            timeout: (!keeps_time).then_some(step.timeout),
            retry: Retry {
                on,
                ..Retry::always(step.retries.saturating_add(1), Backoff::fixed(step.retry_delay))
            },
            on_failure: match step.on_error {
                OnError::Fail => OnFailure::FailFast(RunningNodes::Finish),
                OnError::Continue => OnFailure::Continue,
            },
            ..*default
        }
    }
}
