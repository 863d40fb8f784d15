//! Running a plan's graph to its end, good or bad.

use std::time::Duration;

use slipway_cluster::lock::Held;
use slipway_cluster::{Cluster, Deadline};
use slipway_event::Events;
use slipway_graph::{NodePolicy, OnFailure, Outcome, Policy, Run, RunEvent, Running, StopReason};
use tokio_util::sync::CancellationToken;

use super::executor::{OpError, OperationExecutor};
use super::{CLOSING, Options, Report, is_troubled};
use crate::failure::Cause;
use crate::ops::{self, Act, Category, Op, Parts};
use crate::plan::Plan;
use crate::resource::DeployType;

/// How much later than everything it runs the graph stops by itself.
const BACKSTOP: Duration = Duration::from_millis(500);

/// How a run ended badly.
pub(super) struct End {
    pub(super) message: String,
    pub(super) cause: Cause,
}

/// Runs a plan's graph, and what follows a failure of it, which has time of its own.
pub(super) async fn execute(
    cluster: &Cluster,
    plan: &Plan,
    options: &Options,
    events: &Events,
    cancel: &CancellationToken,
    held: &Held,
    report: &mut Report,
) -> Result<(), End> {
    let lost = held.lost();
    let stop = CancellationToken::new();
    let title = match plan.moment {
        DeployType::Delete => format!("delete {}", plan.name),
        DeployType::Rollback => format!("rollback {}", plan.name),
        DeployType::Test => format!("test {}", plan.name),
        _ => format!("apply {}", plan.name),
    };
    let executor = OperationExecutor::new(cluster, plan, options, events, held);
    let policy = Policy {
        concurrency: std::num::NonZeroUsize::new(options.parallelism),
        on_cancel: Running::Stop,
        grace: Duration::from_secs(5),
        // Everything that waits keeps the deadline of the cluster itself, and says what it waited for.
        timeout: cluster.deadline().map(|deadline| deadline.left() + BACKSTOP),
        node: NodePolicy { on_failure: OnFailure::FailFast(Running::Stop), ..NodePolicy::default() },
        ..Policy::default()
    };
    let run = Run::new(&plan.graph, &executor)
        .policy(policy)
        .cancel(stop.clone())
        .observe(|event| observe(events, &title, &event))
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
    let ended = ended.map_err(|error| End { message: error.to_string(), cause: Cause::Other })?;

    let (mut done, mut failed, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    for node in &ended.nodes {
        let category = plan.graph.get(&node.id).map(Op::category);
        if category != Some(Category::Resource) {
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
        report.status = match plan.moment {
            DeployType::Delete => "uninstalled",
            DeployType::Test => "tested",
            _ => "deployed",
        }
        .to_owned();
        return Ok(());
    }
    report.status = "failed".to_owned();
    let mut reasons: Vec<String> =
        ended.failures().map(|(id, failure)| reason(plan, id, &failure.to_string())).collect();
    let errors = || ended.failures().filter_map(|(_, failure)| failure.error());
    // An error that says nothing about time ended the run, whatever came after.
    let verdict = errors().map(|error| error.cause).find(|cause| !is_passing(*cause));
    let is_over = cluster.deadline().is_some_and(Deadline::has_passed)
        || matches!(ended.stopped, Some(StopReason::TimedOut))
        || errors().any(|error| error.is_late);
    let cause = if lost.is_cancelled() {
        reasons.push("the lock was lost to another run".to_owned());
        Cause::LockLost
    } else if let Some(cause) = verdict.filter(|_| !cancel.is_cancelled() || is_over) {
        cause
    } else if let (true, Some(timeout)) = (is_over, &options.timeout) {
        let told = errors().map(|error| error.cause).find(|cause| is_troubled(*cause));
        let trouble = cluster.deadline().and_then(Deadline::trouble).filter(|_| told.is_none());
        if let Some(trouble) = &trouble
            && !reasons.iter().any(|reason| reason.contains(&trouble.message))
        {
            reasons.push(format!("the last error: {trouble}"));
        }
        reasons.push(format!("the timeout of {timeout} passed"));
        told.or_else(|| trouble.map(|trouble| Cause::Cluster(trouble.class))).unwrap_or(Cause::Timeout)
    } else if cancel.is_cancelled() {
        reasons.push("stopped by the user".to_owned());
        Cause::Cancelled
    } else {
        errors().next().map_or(Cause::Other, |error| error.cause)
    };
    let message = format!("release {} failed: {}", plan.name, reasons.join("; "));
    // Whoever failed because the cluster does not answer does not wait long to tell it so.
    let closing = if is_troubled(cause) { CLOSING } else { options.grace };
    let executor = executor.until(Deadline::after(closing));
    let repaired = after_failure(&executor, &ended, &message, closing, lost.is_cancelled(), events).await;
    let message = match repaired {
        Ok(()) => message,
        Err(more) => format!("{message}; {more}"),
    };
    Err(End { message, cause })
}

/// Whether a cause may be a matter of time: a wait that ended, a cluster in trouble, an operation that was stopped.
fn is_passing(cause: Cause) -> bool {
    is_troubled(cause) || matches!(cause, Cause::Timeout | Cause::Cancelled | Cause::LockLost)
}

/// Why an operation failed. What did not become ready says enough itself, and its name is the release's.
fn reason(plan: &Plan, id: &str, failure: &str) -> String {
    const UNREADY: &str = " did not become ready";
    let act = plan.graph.get(id).map(|op| &op.act);
    match (act.and_then(|act| crate::show::subject(plan, act)), failure.find(UNREADY)) {
        (Some(object), Some(at)) => format!("{object}{}", &failure[at..]),
        _ => format!("{id}: {failure}"),
    }
}

fn observe<E: std::fmt::Display>(events: &Events, title: &str, event: &RunEvent<'_, E>) {
    match event {
        // The ends of stages are nothing anybody waits for.
        RunEvent::NodeStarted { id, .. } | RunEvent::NodeFinished { id, .. } if id.starts_with("stage/") => {}
        _ => events.observe(title, event),
    }
}

/// Records that the revision failed and removes what asked to be removed when it fails: a graph of its own,
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
    let is_done = |wanted: fn(&Act) -> bool| {
        let mut nodes = plan.graph.nodes().filter(|node| wanted(&node.value().act));
        nodes.any(|node| outcome(node.id()).is_some_and(Outcome::is_success))
    };
    // What was recorded as deployed is; the next run sees to what is left of the records.
    let recorded = is_done(|act| matches!(act, Act::CreateRevision | Act::BeginDelete { .. }))
        && !is_done(|act| matches!(act, Act::FinishRevision));
    // Whoever lost the lock leaves objects to the run that has it.
    let nodes = plan.graph.nodes().filter(|_| !lost);
    let unready: Vec<(usize, usize)> = nodes
        .filter_map(|node| match node.value().act {
            Act::Ready { item, visit } if plan.items[item].visits[visit].follow.delete_on_failure => {
                matches!(outcome(node.id())?, Outcome::Failed(_)).then_some((item, visit))
            }
            _ => None,
        })
        .collect();
    if !recorded && unready.is_empty() {
        return Ok(());
    }
    let parts = Parts { items: &plan.items, release_namespace: &plan.namespace, ..Parts::default() };
    let revision = recorded.then_some(plan.release.version);
    let graph = ops::after_failure(&parts, revision, &unready).map_err(|problems| problems.to_string())?;
    executor.fail_with(message);
    let policy = Policy {
        timeout: Some(patience),
        node: NodePolicy { on_failure: OnFailure::Continue, ..NodePolicy::default() },
        ..Policy::default()
    };
    let title = format!("clean up after {}", plan.name);
    let run = Run::new(&graph, executor)
        .policy(policy)
        .observe(|event| observe(events, &title, &event))
        .run()
        .await;
    let ended = run.map_err(|error| error.to_string())?;
    if ended.is_success() {
        return Ok(());
    }
    let mut reasons: Vec<String> = ended.failures().map(|(id, failure)| format!("{id}: {failure}")).collect();
    if matches!(ended.stopped, Some(StopReason::TimedOut)) {
        reasons.push("recording the failure took too long".to_owned());
    }
    Err(reasons.join("; "))
}
