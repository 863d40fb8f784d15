//! The release engine within the time of a step.

use std::time::Duration;

use slipway_cluster::Deadline;
use slipway_event::Scope;
use slipway_release::{
    ExecuteOptions, Failure, MOST_PLANS, PlanOptions, PlanPurpose, ReleaseReport, ReleaseRequest, RunTimeout,
};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::context::StepContext;
use crate::error::{AttemptError, ErrorKind};

/// Returns what is left of a step's time; prints as the step's own timeout.
pub(in crate::steps) fn remaining_time(attempt: &StepContext<'_>, left: Duration) -> RunTimeout {
    RunTimeout::new(left, RunTimeout::from(attempt.step.timeout).to_string())
}

/// Makes a failure of the engine an error of the step.
pub(in crate::steps) fn step_error(attempt: &StepContext<'_>, failure: Failure) -> AttemptError {
    let stopped = matches!(failure, Failure::Cancelled { .. });
    let message = failure.to_string();
    let mut error = AttemptError::from(failure);
    if stopped && !attempt.cancel.is_cancelled() {
        // Nobody stopped the run: the attempt's time was over.
        error = AttemptError::new(
            ErrorKind::Timeout,
            format!("timed out after {:?}: {message}", attempt.step.timeout),
        );
    }
    error
}

/// Stops what takes too long before the engine itself is at work, or when the run is stopped.
pub(super) async fn within<T>(
    attempt: &StepContext<'_>,
    work: impl Future<Output = Result<T, AttemptError>>,
) -> Result<T, AttemptError> {
    tokio::select! {
        biased;
        done = attempt.trouble.record_during(work) => done,
        () = attempt.cancel.cancelled() => Err(attempt.stopped().await),
        () = tokio::time::sleep_until(attempt.deadline) => Err(attempt.stopped().await),
    }
}

/// Lets the release engine carry out a request within the time its options give. Until there is a plan nothing is
/// written, so planning may be left where it is: a template that never ends does not outlast the step. From then on
/// the engine ends in its own way.
pub(in crate::steps) async fn apply_release(
    attempt: &StepContext<'_>,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
) -> Result<Result<ReleaseReport, Failure>, AttemptError> {
    let timeout = options.timeout.as_ref();
    let limit = timeout.map_or(attempt.step.timeout, RunTimeout::duration);
    let stop = stop_at(attempt, limit);
    let cluster = attempt.cluster().with_deadline(Deadline::after(limit));
    let events = attempt.world.place.events.child(Scope::step(&attempt.step.name));
    let planning = PlanOptions { purpose: PlanPurpose::Execute, ..request.options.clone() };
    let request = ReleaseRequest { options: planning, ..request.clone() };
    let mut tries = 1;
    loop {
        let planned = tokio::select! {
            biased;
            planned = slipway_release::plan(&cluster, &request, &events) => planned,
            () = stop.token.cancelled() => {
                attempt.awaits("planning the release took too long", Vec::new());
                return Err(attempt.stopped().await);
            }
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(failure) => return Ok(Err(failure.with_timeout(timeout, "it was planned"))),
        };
        match slipway_release::execute(&cluster, plan, options, &events, stop.token.clone()).await {
            // Another run had the lock first.
            Err(Failure::Stale(_)) if tries < MOST_PLANS => tries += 1,
            applied => return Ok(applied),
        }
    }
}

/// A token that fires when the run is stopped or the time is over.
struct Stop {
    token: CancellationToken,
    _ended: DropGuard,
}

fn stop_at(attempt: &StepContext<'_>, timeout: Duration) -> Stop {
    let token = attempt.cancel.child_token();
    let ended = CancellationToken::new();
    let (stop, over) = (token.clone(), ended.clone());
    let deadline = Instant::now() + timeout;
    tokio::spawn(async move {
        tokio::select! {
            () = over.cancelled() => {}
            // The engine's own timeout says more; this is for what happens around it.
            () = tokio::time::sleep_until(deadline + Duration::from_secs(1)) => stop.cancel(),
        }
    });
    Stop { token, _ended: ended.drop_guard() }
}
