//! Carrying a plan out: the only code that writes.

mod executor;
mod rights;
mod run;
mod timeout;
mod undo;

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use slipway_cluster::helm::{Release, Status, Storage, Stored};
use slipway_cluster::lock::{Held, Lock, LockError, LockOptions};
use slipway_cluster::{Apply, At, Calls, Cluster, Deadline, Delete, ErrorClass};
use slipway_event::Events;
use slipway_manifest::Gvk;
use slipway_problem::{Problem, Problems};
use tokio_util::sync::CancellationToken;

use crate::failure::{Cause, Failure};
use crate::owners::MANAGER;
use crate::plan::{self, Content, Plan, Remaining, Request};
use crate::resource::DeployType;
use crate::wait::Waiter;
use run::{End, execute};
use undo::{Undo, undo_after};

pub use timeout::Timeout;

/// How long giving the lock back may take; a lease nobody renews ends by itself.
const RELEASE: Duration = Duration::from_secs(5);
/// How long a run that a troubled cluster ended goes on to record that, and then to give the lock back.
const CLOSING: Duration = Duration::from_millis(500);
const HASTY_RELEASE: Duration = Duration::from_millis(250);

/// How to carry a plan out.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many changes are under way at once; waiting does not count.
    pub parallelism: usize,
    /// Time limit for the whole run, from its first request on. Recording a failure comes after it.
    pub timeout: Option<Timeout>,
    /// Goes back to the last good revision when a run fails, or deletes the release if there is none.
    pub auto_rollback: bool,
    /// How many revisions are kept; 0 is all.
    pub history_limit: u32,
    /// How long one object may take to become ready unless it says; none is five minutes, or the `timeout`
    /// of the whole if there is one, and zero as long as it takes.
    pub readiness_timeout: Option<Duration>,
    pub presence_timeout: Option<Duration>,
    pub deletion_timeout: Option<Duration>,
    pub create_namespace: bool,
    /// How long recording a failure and cleaning up may take.
    pub grace: Duration,
    /// Deletes the namespace as well.
    pub delete_namespace: bool,
    /// Passes on what containers say.
    pub logs: bool,
    /// API groups whose objects are ready once applied, where nobody acts on them.
    pub assume_ready: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parallelism: 30,
            timeout: None,
            auto_rollback: false,
            history_limit: 10,
            readiness_timeout: None,
            presence_timeout: None,
            deletion_timeout: None,
            create_namespace: true,
            grace: Duration::from_secs(30),
            delete_namespace: false,
            logs: true,
            assume_ready: Vec::new(),
        }
    }
}

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub version: u32,
    pub release: String,
    pub namespace: String,
    pub revision: u32,
    /// `deployed`, `failed`, `skipped`, `uninstalled`.
    pub status: String,
    pub completed_operations: Vec<String>,
    pub canceled_operations: Vec<String>,
    pub failed_operations: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What undoing it after a failure did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Box<Report>>,
    /// What a delete left, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Remaining>,
    /// How many requests it took.
    pub requests: String,
}

/// Plans and carries out under the release's lock.
pub async fn apply(
    cluster: &Cluster,
    request: &Request,
    options: &Options,
    events: &Events,
    cancel: CancellationToken,
) -> Result<Report, Failure> {
    // Boxed, as its large parts are: a caller's stack does not grow with what a release needs.
    Box::pin(apply_checked(cluster, request, options, events, cancel, |_| Ok(()))).await
}

/// As [`apply`], with a last word of the caller on the plan before anything is written.
pub async fn apply_checked(
    cluster: &Cluster,
    request: &Request,
    options: &Options,
    events: &Events,
    cancel: CancellationToken,
    check: impl FnOnce(&Plan) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let cluster = &match &options.timeout {
        Some(timeout) => cluster.with_deadline(Deadline::after(timeout.duration())),
        None => cluster.clone(),
    };
    let late = |doing: &'static str| move |failure: Failure| failure.within(options.timeout.as_ref(), doing);
    let deploys = !matches!(request.content, Content::Nothing | Content::Tests);
    let mut early = Early { plan: None, before: cluster.calls() };
    // Everything that is wrong with the request itself is told before a namespace is made for it.
    let has_namespace = !deploys
        || namespace_exists(cluster, &request.namespace)
            .await
            .map_err(late("its namespace was looked at"))?;
    if !has_namespace {
        if !options.create_namespace {
            let problem = Problem::error(format!("namespace `{}` does not exist", request.namespace));
            return Err(problem.hint("create it, or leave out --no-create-namespace").into());
        }
        let plan = plan_release(cluster, request, events).await.map_err(late("it was planned"))?;
        create_namespace(cluster, &request.namespace).await.map_err(late("its namespace was created"))?;
        // What was found out about a namespace with nothing in it holds for the new one.
        early.plan = Some(plan);
    } else if deploys {
        // Looking needs no lock, and where there is nothing to do nothing is written, not even a lock.
        let plan = plan_release(cluster, request, events).await.map_err(late("it was planned"))?;
        if is_idle(&plan) {
            check(&plan)?;
            return Ok(skipped(&plan, cluster.calls().since(&early.before).to_string()));
        }
        early.plan = Some(plan);
    } else if matches!(request.content, Content::Nothing) {
        early.plan = Some(plan_release(cluster, request, events).await.map_err(late("it was planned"))?);
    }
    let held = take_lock(cluster, request, options, events, &cancel).await?;
    let result = Box::pin(locked(cluster, request, early, options, events, &cancel, &held, check)).await;
    let result = result.map_err(late("it was carried out"));
    // A lease nobody renews ends by itself.
    let patience = match &result {
        Err(failure) if is_troubled(failure.cause()) => HASTY_RELEASE,
        _ => RELEASE,
    };
    let _ = tokio::time::timeout(patience, held.release()).await;
    if let (Ok(_), true) = (&result, options.delete_namespace && matches!(request.content, Content::Nothing))
    {
        let at = At::new(Gvk::new("", "v1", "Namespace"), None, request.namespace.as_str());
        let delete = Delete { propagation: slipway_cluster::Propagation::Foreground, ..Delete::default() };
        cluster.delete(&at, &delete).await?;
        let gone =
            Waiter::new(cluster.clone(), events.clone()).absent(&at, None, options.deletion_timeout).await;
        gone.map_err(|error| Problem::error(error.message))?;
    }
    result
}

/// Waits for the lock of the release.
async fn take_lock(
    cluster: &Cluster,
    request: &Request,
    options: &Options,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Held, Failure> {
    let name = format!("release/{}", request.name);
    let lock = LockOptions::default();
    tokio::select! {
        // Who runs out of time and is stopped at once says what took the time.
        biased;
        held = Lock::acquire(cluster, &request.namespace, &name, &lock, events) => {
            held.map_err(|error| match (error, &options.timeout) {
                (error @ LockError::Held { .. }, Some(timeout)) => {
                    Failure::Locked(format!("{error}; the timeout of {timeout} passed"))
                }
                (error @ LockError::Held { .. }, None) => Failure::Locked(error.to_string()),
                (LockError::Cluster(error), timeout) => {
                    Failure::from(error).within(timeout.as_ref(), "the lock of the release was taken")
                }
            })
        }
        () = cancel.cancelled() => {
            let message = format!("stopped while waiting for the lock of release {}", request.name);
            Err(Failure::Cancelled { message, report: None })
        }
    }
}

/// Whether a run ended because the cluster does not answer as it should.
fn is_troubled(cause: Cause) -> bool {
    matches!(cause, Cause::Cluster(class) if class.is_transient())
}

/// Plans, and asks whether the run may be recorded if there is anything to do; everything is told at once.
async fn plan_release(cluster: &Cluster, request: &Request, events: &Events) -> Result<Plan, Failure> {
    let planned = plan::plan(cluster, request, events).await;
    let problems = match &planned {
        Ok(plan) if is_idle(plan) => return planned,
        Ok(_) => Problems::new(),
        Err(Failure::Problems(problems) | Failure::Immutable(problems)) => problems.clone(),
        Err(_) => return planned,
    };
    let missing = rights::missing(cluster, request).await;
    if missing.is_empty() {
        return planned;
    }
    let all = problems.into_iter().chain(missing).collect();
    Err(match planned {
        Err(Failure::Immutable(_)) => Failure::Immutable(all),
        _ => Failure::Problems(all),
    })
}

/// Whether a plan leaves everything as it is, the history too.
fn is_idle(plan: &Plan) -> bool {
    plan.moment != DeployType::Test && plan.is_empty() && unsettled(plan).next().is_none()
}

async fn namespace_exists(cluster: &Cluster, name: &str) -> Result<bool, Failure> {
    match cluster.get(&At::new(Gvk::new("", "v1", "Namespace"), None, name)).await {
        Ok(found) => Ok(found.is_some()),
        // Who may not see namespaces may still work in one.
        Err(error) if error.class == ErrorClass::Forbidden => Ok(true),
        Err(error) => Err(error.into()),
    }
}

async fn create_namespace(cluster: &Cluster, name: &str) -> Result<(), Failure> {
    let at = At::new(Gvk::new("", "v1", "Namespace"), None, name);
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    cluster.apply(&at, &manifest, &Apply::new(MANAGER)).await?;
    Ok(())
}

/// Whether the history is still the one a plan was made for: whoever changes the release changes that.
async fn is_current(cluster: &Cluster, plan: &Plan) -> Result<bool, Failure> {
    let storage = Storage::new(cluster.clone(), plan.options.driver, &plan.namespace);
    let now = storage.revisions(&plan.name).await?;
    let then = &plan.history.releases;
    let same =
        |(now, then): (&Stored, &Release)| now.revision == then.version && now.status == then.info.status;
    Ok(now.len() == then.len() && now.iter().zip(then).all(same))
}

/// What is said where there was nothing to do.
fn skipped(plan: &Plan, requests: String) -> Report {
    Report {
        version: 3,
        release: plan.name.clone(),
        namespace: plan.namespace.clone(),
        revision: plan.history.last_revision(),
        status: "skipped".to_owned(),
        notes: plan.release.info.notes.clone(),
        requests,
        ..Report::default()
    }
}

/// What was done before the lock was ours.
struct Early {
    plan: Option<Plan>,
    /// How many requests there had been before that.
    before: Calls,
}

/// Carries out under the lock; a plan made before it was ours is good as long as nobody touched the release.
#[expect(clippy::too_many_arguments, reason = "everything a run depends on comes together here")]
async fn locked(
    cluster: &Cluster,
    request: &Request,
    early: Early,
    options: &Options,
    events: &Events,
    cancel: &CancellationToken,
    held: &Held,
    check: impl FnOnce(&Plan) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let before = early.before;
    let cluster = &cluster.guarded(held.gate());
    let plan = match early.plan {
        Some(plan) if is_current(cluster, &plan).await? => plan,
        _ => plan::plan(cluster, request, events).await?,
    };
    check(&plan)?;
    let mut report = Report {
        version: 3,
        release: plan.name.clone(),
        namespace: plan.namespace.clone(),
        revision: plan.release.version,
        notes: plan.release.info.notes.clone(),
        kept: if plan.moment == DeployType::Delete { plan.remaining.clone() } else { Vec::new() },
        ..Report::default()
    };
    let storage = Storage::new(cluster.clone(), plan.options.driver, &plan.namespace);
    let deploys = matches!(plan.moment, DeployType::Install | DeployType::Upgrade | DeployType::Rollback);
    if deploys {
        settle(&storage, &plan).await?;
    }
    if plan.is_empty() && plan.moment != DeployType::Test {
        return Ok(skipped(&plan, cluster.calls().since(&before).to_string()));
    }
    if deploys {
        storage.prune(&plan.name, options.history_limit).await?;
    }
    let ended = Box::pin(execute(cluster, &plan, options, events, cancel, held, &mut report)).await;
    report.requests = cluster.calls().since(&before).to_string();
    match ended {
        Ok(()) => Ok(report),
        Err(End { mut message, cause }) => {
            // What the chart has to say is about a release that works.
            report.notes.clear();
            let undo = Undo::of(&plan, options).filter(|_| !held.lost().is_cancelled());
            if let Some(undo) = undo {
                // Deleting objects one by one through the same trouble would outlast the run's own limit.
                let is_first = matches!(undo, Undo::Delete { .. });
                if is_troubled(cause) && (is_first || !answers(cluster).await) {
                    message.push_str("\nnot undone: the cluster does not answer as it should");
                    return Err(Failure::Run { cause, message, report: Box::new(report) });
                }
                match undo_after(cluster, request, &undo, options, events, held).await {
                    Ok(undone) => {
                        report.notes = undo.told(&undone);
                        message = format!("{message}\n{}", report.notes);
                        report.rollback = Some(Box::new(undone));
                    }
                    Err(failure) => {
                        let message = format!("{message}; {} failed too: {failure}", undo.doing());
                        return Err(Failure::Run { cause, message, report: Box::new(report) });
                    }
                }
            }
            let report = Box::new(report);
            Err(if cause == Cause::Cancelled {
                Failure::Cancelled { message, report: Some(report) }
            } else {
                Failure::Run { cause, message, report }
            })
        }
    }
}

/// Whether a cluster that made a run fail answers again.
async fn answers(cluster: &Cluster) -> bool {
    cluster.without_deadline().with_deadline(Deadline::after(CLOSING)).version().await.is_ok()
}

/// Puts right what an interrupted run left in the history: a revision still pending did not come to be, and
/// only the newest deployed one is.
async fn settle(storage: &Storage, plan: &Plan) -> Result<(), Failure> {
    for old in unsettled(plan) {
        let mut old = old.clone();
        if old.info.status == Status::Deployed {
            old.info.status = Status::Superseded;
        } else {
            old.info.status = Status::Failed;
            old.info.description = format!("Interrupted; taken over by revision {}", plan.release.version);
        }
        storage.update(&old).await?;
    }
    Ok(())
}

/// What an interrupted run left in the history.
fn unsettled(plan: &Plan) -> impl Iterator<Item = &Release> {
    let newest = plan.history.deployed().map(|release| release.version);
    plan.history.releases.iter().filter(move |old| {
        let status = old.info.status;
        status.is_pending() || status == Status::Deployed && Some(old.version) != newest
    })
}
