//! Executes plans: the only code that writes.
//!
//! [`execute`] takes the lock of the release, verifies that the plan is still true and carries it out. [`apply`] is
//! [`plan`](crate::plan()) and [`execute`] in one, for whoever has nothing to do between the two.

mod created;
mod executor;
mod locked;
mod options;
mod report;
mod run;
mod settle;
mod timeout;
mod undo;

use std::time::Duration;

use slipway_cluster::lock::{ClusterLock, HeldLock, LockError, LockOptions};
use slipway_cluster::{ApplyOptions, Cluster, DeleteOptions};
use slipway_event::{Event, Events, ObjectState};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::Problem;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureCause};
use crate::owners::MANAGER;
use crate::plan::{PlanPurpose, ReleasePlan, ReleaseRequest, plan_for};
use crate::resource::DeployType;
use crate::wait::ObjectWaiter;
use locked::LockedRun;

pub use options::ExecuteOptions;
pub use report::{ReleaseReport, ReleaseStatus};
pub use timeout::RunTimeout;

/// Time limit for giving the lock back; a lease nobody renews ends by itself.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);
/// Time limits for a run that a troubled cluster ended: to record that, and then to give the lock back.
const CLOSING_LIMIT: Duration = Duration::from_millis(500);
const HASTY_RELEASE_LIMIT: Duration = Duration::from_millis(250);

/// Attempts that whoever calls [`plan`](crate::plan()) and [`execute`] makes at a plan that is still true once the lock
/// is taken.
pub const MOST_PLANS: u32 = 3;

/// Executes a plan: takes the lock of its release, verifies it and carries it out. A plan that is no longer true is
/// [stale](Failure::Stale), and nothing but the namespace it needs was written. Nothing is written for a plan with
/// nothing to do, not even a lock.
///
/// The time limit of the options counts from now; to have it count from the first request of planning, give both the
/// cluster [with that deadline](Cluster::with_deadline).
pub async fn execute(
    cluster: &Cluster,
    plan: ReleasePlan,
    options: &ExecuteOptions,
    events: &Events,
    cancel: CancellationToken,
) -> Result<ReleaseReport, Failure> {
    // Boxed, as its large parts are: a caller's stack does not grow with what a release needs.
    Box::pin(run_locked(&options.limit_cluster(cluster), plan, WhenStale::Refuse, options, events, &cancel))
        .await
}

/// Plans and executes. A plan that is stale when the lock is taken is made anew, once: under the lock it stays true.
pub async fn apply(
    cluster: &Cluster,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
    events: &Events,
    cancel: CancellationToken,
) -> Result<ReleaseReport, Failure> {
    let cluster = &options.limit_cluster(cluster);
    let planned = Box::pin(plan_for(cluster, request, PlanPurpose::Execute, events)).await;
    let plan = planned.map_err(|failure| failure.with_timeout(options.timeout.as_ref(), "it was planned"))?;
    Box::pin(run_locked(cluster, plan, WhenStale::PlanAnew(request), options, events, &cancel)).await
}

/// The way to go on with a plan that is no longer true.
#[derive(Clone, Copy)]
enum WhenStale<'a> {
    Refuse,
    PlanAnew(&'a ReleaseRequest),
}

/// Carries a plan out under the lock of its release.
async fn run_locked(
    cluster: &Cluster,
    plan: ReleasePlan,
    stale: WhenStale<'_>,
    options: &ExecuteOptions,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<ReleaseReport, Failure> {
    let late =
        |doing: &'static str| move |failure: Failure| failure.with_timeout(options.timeout.as_ref(), doing);
    if plan.is_idle() {
        return Ok(ReleaseReport::of_idle_plan(&plan, plan.requests));
    }
    let (earlier, before) = (plan.requests, cluster.call_counts());
    if plan.creates_namespace {
        create_namespace(cluster, &plan, events).await.map_err(late("its namespace was created"))?;
    }
    let (deploy_type, namespace) = (plan.deploy_type, plan.namespace.clone());
    let held = take_lock(cluster, &plan, options, events, cancel).await?;
    let run = LockedRun {
        cluster: cluster.with_write_gate(held.write_gate()),
        options,
        events,
        cancel,
        held: &held,
        earlier,
        before,
    };
    let result = Box::pin(run.carry_out_verified(plan, stale)).await.map_err(late("it was carried out"));
    // A lease nobody renews ends by itself.
    let patience = match &result {
        Err(failure) if is_troubled(failure.cause()) => HASTY_RELEASE_LIMIT,
        _ => RELEASE_LIMIT,
    };
    let _ = tokio::time::timeout(patience, held.release()).await;
    if result.is_ok() && options.delete_namespace && deploy_type == DeployType::Delete {
        delete_namespace(cluster, &namespace, options, events).await?;
    }
    result
}

/// Waits for the lock of the release.
async fn take_lock(
    cluster: &Cluster,
    plan: &ReleasePlan,
    options: &ExecuteOptions,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<HeldLock, Failure> {
    let name = format!("release/{}", plan.name);
    let lock = LockOptions::default();
    tokio::select! {
        // A run that runs out of time and is stopped at once reports what took the time.
        biased;
        held = ClusterLock::acquire(cluster, &plan.namespace, &name, &lock, events) => {
            held.map_err(|error| match (error, &options.timeout) {
                (error @ LockError::Held { .. }, Some(timeout)) => {
                    Failure::Locked(format!("{error}; the timeout of {timeout} passed"))
                }
                (error @ LockError::Held { .. }, None) => Failure::Locked(error.to_string()),
                (LockError::Cluster(error), timeout) => {
                    Failure::from(error).with_timeout(timeout.as_ref(), "the lock of the release was taken")
                }
            })
        }
        () = cancel.cancelled() => {
            let message = format!("stopped while waiting for the lock of release {}", plan.name);
            Err(Failure::Cancelled { message, report: None })
        }
    }
}

/// Tells that a run ended because the cluster does not answer as it should.
fn is_troubled(cause: FailureCause) -> bool {
    matches!(cause, FailureCause::Cluster(class) if class.is_transient())
}

fn namespace_at(name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, name)
}

async fn create_namespace(cluster: &Cluster, plan: &ReleasePlan, events: &Events) -> Result<(), Failure> {
    let at = namespace_at(&plan.namespace);
    cluster.apply(&at, &plan.namespace_manifest(), &ApplyOptions::new(MANAGER)).await?;
    // One that the release has itself is told of when its turn comes.
    if plan.has_namespace_view() {
        let state = ObjectState::Created;
        events.send(Event::Object { node: None, object: at, state, message: None, replicas: None });
    }
    Ok(())
}

/// Deletes a namespace and waits until it is gone.
async fn delete_namespace(
    cluster: &Cluster,
    name: &str,
    options: &ExecuteOptions,
    events: &Events,
) -> Result<(), Failure> {
    let at = namespace_at(name);
    let delete = DeleteOptions {
        propagation: slipway_cluster::DeletePropagation::Foreground,
        ..DeleteOptions::default()
    };
    cluster.delete(&at, &delete).await?;
    let waiter = ObjectWaiter::new(cluster.clone(), events.clone());
    let gone = waiter.wait_absent(&at, None, options.deletion_timeout).await;
    Ok(gone.map_err(|error| Problem::error(error.message))?)
}
