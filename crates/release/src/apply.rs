//! Carrying a plan out: the only code that writes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use slipway_cluster::helm::{HookRun, Release, Status, Storage, Time};
use slipway_cluster::lock::{Held, Lock, LockOptions};
use slipway_cluster::{Apply, At, Cluster, Delete, ErrorClass, Patch, WriteOptions};
use slipway_event::{Event, Events, ObjectState};
use slipway_graph::RunEvent;
use slipway_graph::{
    Classify, Context, Done, ErrorClass as Class, NodePolicy, NodeRef, OnFailure, Outcome, Policy, Run,
    Running, StopReason, Worker,
};
use slipway_manifest::Gvk;
use tokio_util::sync::CancellationToken;

use crate::decide::Decision;
use crate::failure::Failure;
use crate::ops::{Act, Category, Op};
use crate::owners::{self, MANAGER};
use crate::plan::{self, Content, Plan, Request};
use crate::resource::{FailMode, Moment, Propagation, Stored, is_crd};
use crate::wait::Waiter;

/// The manager of values only a new object gets.
const INITIAL_MANAGER: &str = "slipway-initial";
/// How long a definition may take to be served.
const SERVED: Duration = Duration::from_secs(10);
/// How long something outside may take to appear, unless said.
const PRESENCE: Duration = Duration::from_secs(300);

/// How to carry a plan out.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many changes are under way at once; waiting does not count.
    pub parallelism: usize,
    /// How long the whole may take.
    pub timeout: Option<Duration>,
    pub auto_rollback: bool,
    /// How many revisions are kept; 0 is all.
    pub history_limit: u32,
    pub readiness_timeout: Option<Duration>,
    pub presence_timeout: Option<Duration>,
    pub deletion_timeout: Option<Duration>,
    pub create_namespace: bool,
    /// How long recording a failure and cleaning up may take.
    pub grace: Duration,
    /// Deletes the namespace as well.
    pub delete_namespace: bool,
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
    /// What a rollback after a failure did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Box<Report>>,
    /// How many requests it took.
    pub requests: String,
}

/// Why one operation failed.
#[derive(Clone, Debug)]
pub struct OpError {
    message: String,
    class: Class,
}

impl std::fmt::Display for OpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Classify for OpError {
    fn class(&self) -> Class {
        self.class
    }
}

impl From<slipway_cluster::Error> for OpError {
    fn from(error: slipway_cluster::Error) -> Self {
        Self { message: error.to_string(), class: Class::Permanent }
    }
}

impl From<crate::wait::NotReady> for OpError {
    fn from(error: crate::wait::NotReady) -> Self {
        Self { message: error.message, class: Class::Permanent }
    }
}

/// Plans and carries out under the release's lock.
pub async fn apply(
    cluster: &Cluster,
    request: &Request,
    options: &Options,
    events: &Events,
    cancel: CancellationToken,
) -> Result<Report, Failure> {
    apply_checked(cluster, request, options, events, cancel, |_| Ok(())).await
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
    let deploys = !matches!(request.content, Content::Nothing | Content::Tests);
    // Everything that is wrong with the request itself is told before a namespace is made for it.
    if deploys && !namespace_exists(cluster, &request.namespace).await? {
        if !options.create_namespace {
            let problem =
                slipway_problem::Problem::error(format!("namespace `{}` does not exist", request.namespace));
            return Err(problem.hint("create it, or leave out --no-create-namespace").into());
        }
        plan::plan(cluster, request, &Events::silent()).await?;
        create_namespace(cluster, &request.namespace).await?;
    }
    let held = {
        let (lock, options) = (format!("release/{}", request.name), LockOptions::default());
        tokio::select! {
            held = Lock::acquire(cluster, &request.namespace, &lock, &options, events) => held?,
            () = cancel.cancelled() => {
                let message = format!("stopped while waiting for the lock of release {}", request.name);
                return Err(Failure::Cancelled { message, report: None });
            }
        }
    };
    let result = locked(cluster, request, options, events, &cancel, &held, check).await;
    // A lease nobody renews ends by itself.
    let _ = held.release().await;
    if let (Ok(_), true) = (&result, options.delete_namespace && matches!(request.content, Content::Nothing))
    {
        let at = At::new(Gvk::new("", "v1", "Namespace"), None, request.namespace.as_str());
        let delete = Delete { propagation: slipway_cluster::Propagation::Foreground, ..Delete::default() };
        cluster.delete(&at, &delete).await?;
        let gone =
            Waiter::new(cluster.clone(), events.clone()).absent(&at, None, options.deletion_timeout).await;
        gone.map_err(|error| slipway_problem::Problem::error(error.message))?;
    }
    result
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

async fn locked(
    cluster: &Cluster,
    request: &Request,
    options: &Options,
    events: &Events,
    cancel: &CancellationToken,
    held: &Held,
    check: impl FnOnce(&Plan) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let before = cluster.calls();
    let mut plan = plan::plan(cluster, request, events).await?;
    check(&plan)?;
    let mut report = Report {
        version: 3,
        release: plan.name.clone(),
        namespace: plan.namespace.clone(),
        revision: plan.release.version,
        notes: plan.release.info.notes.clone(),
        ..Report::default()
    };
    if plan.is_empty() && plan.moment != Moment::Test {
        report.status = "skipped".to_owned();
        report.revision = plan.history.last_revision();
        report.requests = cluster.calls().since(&before).to_string();
        return Ok(report);
    }
    let storage = Storage::new(cluster.clone(), plan.options.driver, &plan.namespace);
    if matches!(plan.moment, Moment::Install | Moment::Upgrade | Moment::Rollback) {
        take_over(&storage, &plan).await?;
        storage.prune(&plan.name, options.history_limit).await?;
    }
    let ended = execute(cluster, &mut plan, options, events, cancel, &held.lost(), &mut report).await;
    report.requests = cluster.calls().since(&before).to_string();
    match ended {
        Ok(()) => Ok(report),
        Err(End { message, cancelled }) => {
            let is_good =
                |release: &&Release| matches!(release.info.status, Status::Deployed | Status::Superseded);
            let target = plan.history.releases.iter().rev().find(is_good).map(|release| release.version);
            let deploys = matches!(plan.moment, Moment::Install | Moment::Upgrade);
            if let (true, true, false, Some(target)) =
                (options.auto_rollback, deploys, held.lost().is_cancelled(), target)
            {
                let back = Request { content: Content::Revision(Some(target)), ..request.clone() };
                let rolled = rollback_after(cluster, &back, options, events, held).await;
                match rolled {
                    Ok(rolled) => report.rollback = Some(Box::new(rolled)),
                    Err(failure) => {
                        let message = format!("{message}; rolling back failed too: {failure}");
                        return Err(Failure::Run { message, report: Box::new(report) });
                    }
                }
            }
            let report = Box::new(report);
            Err(if cancelled {
                Failure::Cancelled { message, report: Some(report) }
            } else {
                Failure::Run { message, report }
            })
        }
    }
}

/// A rollback after a failure, with time of its own: what cancelled the run must not stop the repair.
async fn rollback_after(
    cluster: &Cluster,
    request: &Request,
    options: &Options,
    events: &Events,
    held: &Held,
) -> Result<Report, Failure> {
    let options = Options { auto_rollback: false, ..options.clone() };
    let cancel = CancellationToken::new();
    Box::pin(locked(cluster, request, &options, events, &cancel, held, |_| Ok(()))).await
}

/// Revisions an interrupted run left pending did not come to be.
async fn take_over(storage: &Storage, plan: &Plan) -> Result<(), Failure> {
    for abandoned in plan.history.releases.iter().filter(|old| old.info.status.is_pending()) {
        let mut abandoned = abandoned.clone();
        abandoned.info.status = Status::Failed;
        abandoned.info.description = format!("Interrupted; taken over by revision {}", plan.release.version);
        storage.update(&abandoned).await?;
    }
    Ok(())
}

/// How a run ended badly.
struct End {
    message: String,
    cancelled: bool,
}

async fn execute(
    cluster: &Cluster,
    plan: &mut Plan,
    options: &Options,
    events: &Events,
    cancel: &CancellationToken,
    lost: &CancellationToken,
    report: &mut Report,
) -> Result<(), End> {
    let stop = CancellationToken::new();
    let title = match plan.moment {
        Moment::Delete => format!("delete {}", plan.name),
        Moment::Rollback => format!("rollback {}", plan.name),
        Moment::Test => format!("test {}", plan.name),
        _ => format!("apply {}", plan.name),
    };
    let crew = Crew {
        cluster: cluster.clone(),
        storage: Storage::new(cluster.clone(), plan.options.driver, &plan.namespace),
        waiter: Waiter::new(cluster.clone(), events.clone()),
        events: events.clone(),
        plan,
        options,
        release: Mutex::new(plan.release.clone()),
        hooks: Mutex::new(BTreeMap::new()),
    };
    let policy = Policy {
        concurrency: std::num::NonZeroUsize::new(options.parallelism),
        on_cancel: Running::Stop,
        grace: Duration::from_secs(5),
        timeout: options.timeout,
        node: NodePolicy { on_failure: OnFailure::FailFast(Running::Stop), ..NodePolicy::default() },
        ..Policy::default()
    };
    let run = Run::new(&plan.graph, &crew)
        .policy(policy)
        .cancel(stop.clone())
        .observe(|event| match &event {
            // The ends of stages are nothing anybody waits for.
            RunEvent::NodeStarted { id, .. } | RunEvent::NodeFinished { id, .. }
                if id.starts_with("stage/") => {}
            _ => events.observe(&title, &event),
        })
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
    let ended = ended.map_err(|error| End { message: error.to_string(), cancelled: false })?;

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
            Moment::Delete => "uninstalled",
            Moment::Test => "tested",
            _ => "deployed",
        }
        .to_owned();
        return Ok(());
    }
    report.status = "failed".to_owned();
    let cancelled = cancel.is_cancelled();
    let mut reasons: Vec<String> = ended.failures().map(|(id, failure)| format!("{id}: {failure}")).collect();
    if lost.is_cancelled() {
        reasons.push("the lock was lost to another run".to_owned());
    } else if cancelled {
        reasons.push("stopped by the user".to_owned());
    } else if matches!(ended.stopped, Some(StopReason::TimedOut)) {
        reasons.push(format!("the timeout of {:.0?} passed", options.timeout.unwrap_or_default()));
    }
    let message = format!("release {} failed: {}", plan.name, reasons.join("; "));
    let succeeded = |id: &str| ended.node(id).is_some_and(|node| node.outcome.is_success());
    let recorded = plan.graph.nodes().any(|node| {
        matches!(node.value().act, Act::CreateRevision | Act::BeginDelete { .. }) && succeeded(node.id())
    });
    let unready: Vec<usize> = plan
        .graph
        .nodes()
        .filter_map(|node| match node.value().act {
            Act::Ready { item, visit } if plan.items[item].visits[visit].follow.delete_on_failure => {
                let failed = matches!(ended.node(node.id())?.outcome, Outcome::Failed(_));
                failed.then_some(item)
            }
            _ => None,
        })
        .collect();
    let repair = crew.after_failure(&message, recorded, &unready, lost.is_cancelled());
    if tokio::time::timeout(options.grace, repair).await.is_err() {
        return Err(End { message: format!("{message}; recording the failure took too long"), cancelled });
    }
    Err(End { message, cancelled })
}

/// Does the operations of one plan.
struct Crew<'p> {
    cluster: Cluster,
    storage: Storage,
    waiter: Waiter,
    events: Events,
    plan: &'p Plan,
    options: &'p Options,
    release: Mutex<Release>,
    /// When hooks ran, by item.
    hooks: Mutex<BTreeMap<usize, HookRun>>,
}

impl<'g> Worker<'g, Op> for Crew<'_> {
    type Error = OpError;

    async fn work(&self, cx: Context<'g, Op>) -> Result<Done, OpError> {
        let stopped = OpError { message: "stopped".to_owned(), class: Class::Cancelled };
        let op = cx.value();
        // Records are written to their end; everything else may be left where it is.
        if op.category() == Category::Release {
            return self.act(op).await;
        }
        tokio::select! {
            result = self.act(op) => result,
            () = cx.cancelled().cancelled() => Err(stopped),
        }
    }

    fn policy(&self, node: NodeRef<'g, Op>, default: &NodePolicy) -> NodePolicy {
        NodePolicy { metered: node.value().category() == Category::Resource, ..*default }
    }
}

impl Crew<'_> {
    async fn act(&self, op: &Op) -> Result<Done, OpError> {
        match &op.act {
            Act::Boundary => {}
            Act::Deploy { item, visit } => self.deploy(*item, *visit).await?,
            Act::Ready { item, visit } => self.ready(*item, *visit).await?,
            Act::CleanUp { item, .. } => {
                let facts = &self.plan.facts[*item];
                if !is_crd(&facts.at.gvk) {
                    self.delete(&facts.at, self.plan.items[*item].resource.settings.propagation, None)
                        .await?;
                }
            }
            Act::CleanedUp { item, .. } => {
                let facts = &self.plan.facts[*item];
                if !is_crd(&facts.at.gvk) {
                    self.waiter.absent(&facts.at, None, self.options.deletion_timeout).await?;
                }
            }
            Act::Remove { removal } => {
                let doomed = &self.plan.doomed[*removal];
                let propagation = self.plan.removals[*removal].resource.settings.propagation;
                self.delete(&doomed.at, propagation, uid(&doomed.live)).await?;
            }
            Act::Removed { removal } => {
                let doomed = &self.plan.doomed[*removal];
                self.waiter.absent(&doomed.at, uid(&doomed.live), self.options.deletion_timeout).await?;
            }
            Act::Present { awaited } => {
                let awaited = &self.plan.awaited[*awaited];
                let kind = self.cluster.kind(&awaited.gvk).await?;
                let own =
                    if awaited.namespace.is_empty() { &self.plan.namespace } else { &awaited.namespace };
                let namespace = kind.is_none_or(|kind| kind.namespaced).then_some(own.as_str());
                let at = At::new(awaited.gvk.clone(), namespace, awaited.name.as_str());
                let timeout = self.options.presence_timeout.unwrap_or(PRESENCE);
                self.waiter.present(&at, timeout).await?;
            }
            Act::CreateRevision => {
                let release = self.current();
                match self.storage.create(&release).await {
                    // The number was ours to take: this run holds the lock.
                    Err(error) if error.class == ErrorClass::AlreadyExists => return Err(error.into()),
                    result => result?,
                }
            }
            Act::FinishRevision => {
                let mut release = self.current();
                release.info.status = Status::Deployed;
                release.info.description =
                    self.plan.options.description.clone().unwrap_or_else(|| match self.plan.moment {
                        Moment::Install => "Install complete".to_owned(),
                        Moment::Rollback => format!("Rollback to {}", release.info.rollback_revision),
                        _ => "Upgrade complete".to_owned(),
                    });
                self.record_hooks(&mut release);
                self.storage.update(&release).await?;
            }
            Act::Supersede { revision } => self.mark(*revision, Status::Superseded, None).await?,
            Act::BeginDelete { revision } => {
                self.mark(*revision, Status::Uninstalling, Some("Deletion in progress (or silently failed)"))
                    .await?;
            }
            Act::KeepHistory { revision } => {
                self.mark(*revision, Status::Uninstalled, Some("Uninstallation complete")).await?;
            }
            Act::Forget { revision } => {
                self.storage.delete(&self.plan.name, *revision as u32).await?;
            }
        }
        Ok(Done::OK)
    }

    fn current(&self) -> Release {
        self.release.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn mark(&self, revision: i64, status: Status, description: Option<&str>) -> Result<(), OpError> {
        let found = self.plan.history.releases.iter().find(|old| i64::from(old.version) == revision);
        let Some(old) = found else { return Ok(()) };
        let mut old = old.clone();
        old.info.status = status;
        if let Some(description) = description {
            description.clone_into(&mut old.info.description);
        }
        if status == Status::Uninstalled {
            old.info.deleted = Time::from(jiff::Timestamp::now());
        }
        Ok(self.storage.update(&old).await?)
    }

    fn record_hooks(&self, release: &mut Release) {
        let runs = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        for (item, run) in runs.iter() {
            let resource = &self.plan.items[*item].resource;
            let hook = release
                .hooks
                .iter_mut()
                .find(|hook| hook.name == resource.id.name && hook.kind == resource.id.kind);
            if let Some(hook) = hook {
                hook.last_run = run.clone();
            }
        }
    }

    async fn delete(
        &self,
        at: &At,
        propagation: Option<Propagation>,
        uid: Option<&str>,
    ) -> Result<(), OpError> {
        let propagation = match propagation.unwrap_or(self.plan.options.propagation) {
            Propagation::Foreground => slipway_cluster::Propagation::Foreground,
            Propagation::Background => slipway_cluster::Propagation::Background,
            Propagation::Orphan => slipway_cluster::Propagation::Orphan,
        };
        let options = Delete { propagation, uid: uid.map(str::to_owned), ..Delete::default() };
        self.cluster.delete(at, &options).await?;
        self.tell(at, ObjectState::Deleted);
        Ok(())
    }

    fn tell(&self, at: &At, state: ObjectState) {
        self.events.send(Event::Object { node: None, object: at.object_ref(), state, message: None });
    }

    async fn deploy(&self, item: usize, visit: usize) -> Result<(), OpError> {
        let deployed = &self.plan.items[item];
        let (resource, facts) = (&deployed.resource, &self.plan.facts[item]);
        let at = &facts.at;
        if resource.stored == Stored::Hook {
            let run = HookRun {
                started_at: Time::from(jiff::Timestamp::now()),
                phase: "Running".into(),
                ..HookRun::default()
            };
            self.hooks.lock().unwrap_or_else(PoisonError::into_inner).insert(item, run);
        }
        let decision = &deployed.visits[visit].decision;
        let state = match decision {
            Decision::None { .. } => return Ok(()),
            Decision::Create => {
                if let Some(replicas) = resource.settings.replicas_on_creation {
                    let mut initial = resource.object.clone();
                    initial["spec"]["replicas"] = replicas.into();
                    self.cluster.apply(at, &initial, &Apply::new(INITIAL_MANAGER)).await?;
                }
                ObjectState::Created
            }
            Decision::Recreate { .. } => {
                let live = self.cluster.get(at).await?;
                if let Some(live) = live {
                    let old = uid(&live);
                    self.delete(at, resource.settings.propagation, old).await?;
                    self.waiter.absent(at, old, self.options.deletion_timeout).await?;
                }
                ObjectState::Recreated
            }
            Decision::Update | Decision::Apply { .. } => {
                self.repair_owners(item).await?;
                ObjectState::Updated
            }
        };
        self.cluster.apply(at, &resource.object, &Apply::new(MANAGER)).await?;
        self.tell(at, state);
        if resource.is_crd() {
            slipway_cluster::crd::wait_served(&self.cluster, &resource.object, SERVED).await?;
        }
        Ok(())
    }

    /// Makes `helm` the owner of what it manages, on the object as it is now.
    async fn repair_owners(&self, item: usize) -> Result<(), OpError> {
        let facts = &self.plan.facts[item];
        let Some(planned) = &facts.repair else { return Ok(()) };
        let mut live = facts.live.clone();
        for _ in 0..3 {
            let Some(current) = &live else { return Ok(()) };
            let keep = self.plan.options.keep_manual_changes;
            let manifest = &self.plan.items[item].resource.object;
            let Some(repair) = owners::repair(current, manifest, Some(&planned.owned), keep) else {
                return Ok(());
            };
            let version = current.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let body =
                json!({"metadata": {"managedFields": repair.managers.write(), "resourceVersion": version}});
            let sent = self
                .cluster
                .patch(&facts.at, &Patch::Merge(body), &WriteOptions::manager(MANAGER), None)
                .await;
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if error.class == ErrorClass::Conflict => {
                    live = self.cluster.get(&facts.at).await?;
                }
                Err(error)
                    if matches!(error.class, ErrorClass::NotFound | ErrorClass::WebhookUnavailable) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn ready(&self, item: usize, visit: usize) -> Result<(), OpError> {
        let deployed = &self.plan.items[item];
        let mut tracking = deployed.resource.settings.tracking.clone();
        if deployed.visits[visit].must_be_ready {
            tracking.fail_mode = FailMode::Fail;
        }
        let at = &self.plan.facts[item].at;
        if self.options.assume_ready.contains(&at.gvk.group) {
            return Ok(());
        }
        let is_hook = deployed.resource.stored == Stored::Hook;
        let result = self.waiter.ready(at, &tracking, is_hook, self.options.readiness_timeout).await;
        let mut runs = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get_mut(&item) {
            run.completed_at = Time::from(jiff::Timestamp::now());
            run.phase = if result.is_ok() { "Succeeded" } else { "Failed" }.to_owned();
        }
        Ok(result?)
    }

    /// Records that the revision failed, and removes what asked to be removed when it fails.
    async fn after_failure(&self, message: &str, recorded: bool, unready: &[usize], lost: bool) {
        if recorded {
            let mut release = self.current();
            release.info.status = Status::Failed;
            let mut description: String = message.chars().take(1000).collect();
            if self.plan.moment == Moment::Delete {
                description = format!("Deletion failed: {description}");
            }
            release.info.description = description;
            self.record_hooks(&mut release);
            // Nobody is left to tell but the next run, which takes over.
            let _ = self.storage.update(&release).await;
        }
        if lost {
            return;
        }
        for item in unready {
            let at = &self.plan.facts[*item].at;
            let propagation = self.plan.items[*item].resource.settings.propagation;
            if self.delete(at, propagation, None).await.is_ok() {
                let _ = self.waiter.absent(at, None, self.options.deletion_timeout).await;
            }
        }
    }
}

fn uid(live: &Value) -> Option<&str> {
    live.pointer("/metadata/uid").and_then(Value::as_str)
}
