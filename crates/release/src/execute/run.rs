//! Runs a plan's graph to its end, good or bad.

use std::time::Duration;

use slipway_cluster::Deadline;
use slipway_event::{Events, NodeKind, NodeName};
use slipway_graph::{
    AttemptFailure, Graph, Id, NodePolicy, OnFailure, Outcome, Policy, Run, RunEvent, RunningNodes,
    StopReason,
};
use tokio_util::sync::CancellationToken;

use super::created::CreatedObjects;
use super::executor::{OpError, OperationExecutor};
use super::locked::LockedRun;
use super::report::{ReleaseReport, ReleaseStatus};
use super::{CLOSING_LIMIT, is_troubled};
use crate::failure::{FailedPart, FailureCause};
use crate::ops::{self, GraphInput, Operation, OperationCategory, OperationKind};
use crate::plan::{Indexed, ReleasePlan, VisitIndex};
use crate::resource::RecordPart;

/// Time after which the graph stops by itself, beyond that of everything it runs.
const BACKSTOP: Duration = Duration::from_millis(500);

/// The bad end of a run.
pub(super) struct RunFailure {
    pub(super) why: String,
    /// The first line of each reason.
    pub(super) brief: String,
    pub(super) cause: FailureCause,
    pub(super) part: FailedPart,
}

/// Runs a plan's graph, and what follows a failure of it, which has time of its own.
pub(super) async fn run_graph(
    run: &LockedRun<'_>,
    plan: &ReleasePlan,
    report: &mut ReleaseReport,
) -> Result<(), RunFailure> {
    let LockedRun { cluster, options, events, cancel, held, .. } = run;
    let lost = held.lost_token();
    let stop = CancellationToken::new();
    let title = plan.title();
    let executor = OperationExecutor::new(cluster, plan, options, events, held);
    let policy = Policy {
        concurrency: std::num::NonZeroUsize::new(options.parallelism),
        on_cancel: RunningNodes::Stop,
        grace: Duration::from_secs(5),
        // Everything that waits keeps the deadline of the cluster itself, and says what it waited for.
        timeout: cluster.deadline().map(|deadline| deadline.time_left() + BACKSTOP),
        node: NodePolicy { on_failure: OnFailure::FailFast(RunningNodes::Stop), ..NodePolicy::default() },
        ..Policy::default()
    };
    let run = Run::new(&plan.graph, &executor)
        .policy(policy)
        .cancel(stop.clone())
        .observe(|event| forward_event(events, &title, &plan.graph, &event))
        .run();
    let ended = {
        tokio::pin!(run);
        loop {
            tokio::select! {
                ended = &mut run => break ended,
                () = cancel.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                () = lost.cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
        }
    };
    let ended = ended.map_err(|error| RunFailure {
        why: error.to_string(),
        brief: error.to_string(),
        cause: FailureCause::Other,
        part: FailedPart::Release,
    })?;

    let (mut done, mut failed, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    for node in &ended.nodes {
        let category = plan.graph.get(&node.id).map(Operation::category);
        if category != Some(OperationCategory::Resource) {
            continue;
        }
        match &node.outcome {
            outcome if outcome.is_success() => done.push(node.id.to_string()),
            Outcome::Failed(_) => failed.push(node.id.to_string()),
            _ => dropped.push(node.id.to_string()),
        }
    }
    done.sort_unstable();
    failed.sort_unstable();
    dropped.sort_unstable();
    report.completed_operations = done;
    report.failed_operations = failed;
    report.canceled_operations = dropped;
    if ended.is_success() {
        report.status = ReleaseStatus::success_of(plan.deploy_type);
        return Ok(());
    }
    let mut reasons: Vec<String> =
        ended.failures().map(|(id, failure)| failure_reason(plan, id, failure)).collect();
    let failed_hook = ended.failures().any(|(id, _)| is_of_hook(plan, id));
    let part = if failed_hook { FailedPart::Hook } else { FailedPart::Release };
    let errors = || ended.failures().filter_map(|(_, failure)| failure.error());
    // An error that says nothing about time ended the run, whatever came after.
    let verdict = errors().map(|error| error.cause).find(|cause| !is_passing(*cause));
    let is_over = cluster.deadline().is_some_and(Deadline::has_passed)
        || matches!(ended.stopped, Some(StopReason::TimedOut))
        || errors().any(|error| error.is_late);
    let cause = if lost.is_cancelled() {
        reasons.push("the lock was lost to another run".to_owned());
        FailureCause::LockLost
    } else if let Some(cause) = verdict.filter(|_| !cancel.is_cancelled() || is_over) {
        cause
    } else if let (true, Some(timeout)) = (is_over, &options.timeout) {
        let told = errors().map(|error| error.cause).find(|cause| is_troubled(*cause));
        let trouble = cluster.deadline().and_then(Deadline::last_error).filter(|_| told.is_none());
        if let Some(trouble) = &trouble
            && !reasons.iter().any(|reason| reason.contains(&trouble.message))
        {
            reasons.push(format!("the last error: {trouble}"));
        }
        reasons.push(format!("the timeout of {timeout} passed"));
        told.or_else(|| trouble.map(|trouble| FailureCause::Cluster(trouble.class)))
            .unwrap_or(FailureCause::Timeout)
    } else if cancel.is_cancelled() {
        reasons.push("stopped by the user".to_owned());
        FailureCause::Cancelled
    } else {
        errors().next().map_or(FailureCause::Other, |error| error.cause)
    };
    let why = reasons.join("; ");
    let first_lines: Vec<&str> = reasons.iter().filter_map(|reason| reason.lines().next()).collect();
    let brief = first_lines.join("; ");
    let message = format!("release {} failed: {why}", plan.name);
    // Whoever failed because the cluster does not answer does not wait long to tell it so.
    let closing = if is_troubled(cause) { CLOSING_LIMIT } else { options.grace };
    let executor = executor.with_deadline(Deadline::after(closing));
    let repaired = after_failure(&executor, &ended, &message, closing, lost.is_cancelled(), events).await;
    let (why, brief) = match repaired {
        Ok(()) => (why, brief),
        Err(more) => (format!("{why}; {more}"), format!("{brief}; {more}")),
    };
    Err(RunFailure { why, brief, cause, part })
}

/// Tells that a cause may be a matter of time: a wait that ended, a cluster in trouble, an operation that was stopped.
fn is_passing(cause: FailureCause) -> bool {
    is_troubled(cause)
        || matches!(cause, FailureCause::Timeout | FailureCause::Cancelled | FailureCause::LockLost)
}

/// Says why an operation failed. Of an object that was waited for the verdict says enough, and its name is the release's.
fn failure_reason(plan: &ReleasePlan, id: &str, failure: &AttemptFailure<OpError>) -> String {
    let kind = plan.graph.get(id).map(|operation| &operation.kind);
    let verdict = failure.error().and_then(|error| error.verdict.as_ref());
    match (kind.and_then(|kind| crate::show::operation_subject(plan, kind)), verdict) {
        (Some(object), Some(verdict)) => format!("{object} {verdict}"),
        _ => format!("{id}: {failure}"),
    }
}

/// Tells that an operation is about a hook of the release.
fn is_of_hook(plan: &ReleasePlan, id: &str) -> bool {
    match plan.graph.get(id).map(|operation| &operation.kind) {
        Some(
            OperationKind::Deploy(index)
            | OperationKind::TrackReadiness(index)
            | OperationKind::CleanUp(index)
            | OperationKind::TrackCleanUp(index),
        ) => plan.objects.at(index.object).resource.stored == RecordPart::Hook,
        _ => false,
    }
}

fn forward_event<E: std::fmt::Display>(
    events: &Events,
    title: &str,
    graph: &Graph<Operation>,
    event: &RunEvent<'_, E>,
) {
    let kind = |id: &Id| graph.get(id).map(|operation| operation.kind.node_kind()).unwrap_or_default();
    match event {
        // The ends of stages are nothing anybody waits for.
        RunEvent::NodeStarted { id, .. } | RunEvent::NodeFinished { id, .. }
            if kind(id) == NodeKind::Boundary => {}
        _ => events.observe(title, |id| NodeName::new(kind(id), id), event),
    }
}

/// Records that the revision failed and removes what asked to be removed when it fails, or was created by it: a graph of its own,
/// under a deadline of its own, that nothing but the deadline stops.
async fn after_failure(
    executor: &OperationExecutor<'_>,
    ended: &slipway_graph::Report<OpError>,
    message: &str,
    patience: Duration,
    lost: bool,
    events: &Events,
) -> Result<(), String> {
    let plan = executor.plan;
    let outcome = |id: &str| ended.node(id).map(|node| &node.outcome);
    let is_done = |wanted: fn(&OperationKind) -> bool| {
        let mut nodes = plan.graph.nodes().filter(|node| wanted(&node.value().kind));
        nodes.any(|node| outcome(node.id()).is_some_and(Outcome::is_success))
    };
    // What was recorded as deployed is; the next run sees to what is left of the records.
    let recorded =
        is_done(|kind| matches!(kind, OperationKind::CreateRevision | OperationKind::BeginDelete(_)))
            && !is_done(|kind| matches!(kind, OperationKind::FinishRevision));
    // Whoever lost the lock leaves objects to the run that has it.
    let nodes = plan.graph.nodes().filter(|_| !lost);
    let mut unwanted: Vec<VisitIndex> = nodes
        .filter_map(|node| match node.value().kind {
            OperationKind::TrackReadiness(index) if plan.visit(index).follow.delete_on_failure => {
                matches!(outcome(node.id())?, Outcome::Failed(_)).then_some(index)
            }
            _ => None,
        })
        .collect();
    let created = if lost { CreatedObjects::default() } else { CreatedObjects::find(executor).await };
    for visit in created.visits {
        if !unwanted.iter().any(|other| other.object == visit.object) {
            unwanted.push(visit);
        }
    }
    let mut reasons = created.problems;
    if !recorded && unwanted.is_empty() {
        return if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) };
    }
    let input =
        GraphInput { objects: &plan.objects, release_namespace: &plan.namespace, ..GraphInput::default() };
    let revision = recorded.then(|| plan.revision());
    let graph = ops::after_failure(&input, revision, &unwanted).map_err(|problems| problems.to_string())?;
    executor.fail_with(message);
    let policy = Policy {
        timeout: Some(patience),
        node: NodePolicy { on_failure: OnFailure::Continue, ..NodePolicy::default() },
        ..Policy::default()
    };
    let title = format!("clean up after {}", plan.name);
    let run = Run::new(&graph, executor)
        .policy(policy)
        .observe(|event| {
            // Of the record alone only a failure is told, by the reason below.
            if !unwanted.is_empty() {
                forward_event(events, &title, &graph, &event);
            }
        })
        .run()
        .await;
    let ended = run.map_err(|error| error.to_string())?;
    if ended.is_success() && reasons.is_empty() {
        return Ok(());
    }
    reasons.extend(ended.failures().map(|(id, failure)| format!("{id}: {failure}")));
    if matches!(ended.stopped, Some(StopReason::TimedOut)) {
        reasons.push("recording the failure took too long".to_owned());
    }
    Err(reasons.join("; "))
}
