//! Performs the operations of one plan.

use slipway_manifest::{ObjectRef, object};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::{HelmTime, HookRun, Release, ReleaseStorage, RevisionStatus};
use slipway_cluster::lock::HeldLock;
use slipway_cluster::track::{SeenObject, TrackOptions};
use slipway_cluster::{
    ApplyOptions, Cluster, Deadline, DeleteOptions, DeleteOutcome, ErrorClass, ObjectPatch, WriteOptions,
};
use slipway_event::{Event, Events, NodeId, ObjectState};
use slipway_graph::{Classify, Context, Done, NodePolicy, NodeRef, RetryClass as Class, Worker};

use super::ExecuteOptions;
use crate::decide::ObjectChange;
use crate::failure::FailureCause;
use crate::name::Revision;
use crate::ops::{Operation, OperationCategory, OperationKind};
use crate::owners::{self, MANAGER};
use crate::plan::{Indexed, ObjectIndex, PlannedDeletion, PlannedObject, ReleasePlan, VisitIndex};
use crate::resource::{DeployType, FailMode, Propagation, RecordPart};
use crate::wait::ObjectWaiter;

/// The manager of values only a new object gets.
const INITIAL_MANAGER: &str = "slipway-initial";
/// Time limit for a definition to be served.
const SERVED_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for something outside to appear, unless said.
const PRESENCE_LIMIT: Duration = Duration::from_secs(300);
/// Time limit for an object to become ready, unless said.
const READINESS_LIMIT: Duration = Duration::from_secs(300);
/// Time limit for an operation to report what it waited for after the deadline of the run.
const LAST_REPORT_LIMIT: Duration = Duration::from_secs(1);
/// Limit for the characters of a failure that the history keeps.
const LONGEST_DESCRIPTION: usize = 1000;

/// The failure of one operation.
#[derive(Clone, Debug)]
pub(super) struct OpError {
    pub(super) message: String,
    pub(super) cause: FailureCause,
    class: Class,
    /// What is to be said of an object that was waited for, without its name.
    pub(super) verdict: Option<String>,
    /// There was no time to try it again.
    pub(super) is_late: bool,
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
        let (message, cause) = (error.to_string(), FailureCause::Cluster(error.class));
        Self { message, cause, class: Class::Permanent, verdict: None, is_late: error.is_late }
    }
}

impl From<crate::wait::NotReady> for OpError {
    fn from(error: crate::wait::NotReady) -> Self {
        Self {
            message: error.message,
            cause: error.cause,
            class: Class::Permanent,
            verdict: error.verdict,
            is_late: false,
        }
    }
}

/// Performs the operations of one plan.
pub(super) struct OperationExecutor<'p> {
    pub(super) cluster: Cluster,
    storage: ReleaseStorage,
    /// Records a failure, of a run that lost its lock too: the entry is its own.
    last_words: ReleaseStorage,
    waiter: ObjectWaiter,
    events: Events,
    pub(super) plan: &'p ReleasePlan,
    pub(super) options: &'p ExecuteOptions,
    held: &'p HeldLock,
    /// The reason the revision failed, once it has.
    failure: Mutex<String>,
    /// Times at which hooks ran.
    hooks: Mutex<BTreeMap<ObjectIndex, HookRun>>,
    /// Objects that were written, until their turn to be waited for comes.
    written: Mutex<BTreeMap<ObjectIndex, SeenObject>>,
    /// Objects the server said are gone when they were deleted: nobody has to look for them.
    gone: Mutex<HashSet<ObjectRef>>,
}

impl<'g> Worker<'g, Operation> for OperationExecutor<'_> {
    type Error = OpError;

    async fn work(&self, cx: Context<'g, Operation>) -> Result<Done, OpError> {
        let stopped = OpError {
            message: "stopped".to_owned(),
            cause: FailureCause::Cancelled,
            class: Class::Cancelled,
            verdict: None,
            is_late: false,
        };
        let (operation, id) = (cx.value(), cx.id().as_str());
        // Records are written to their end; everything else may be left where it is.
        if operation.category() == OperationCategory::Release {
            return self.perform_operation(operation, id).await;
        }
        let mut work = std::pin::pin!(self.perform_operation(operation, id));
        tokio::select! {
            biased;
            result = &mut work => return result,
            () = cx.cancelled().cancelled() => {}
        }
        // Where the time of the run is over, every wait ends by itself and says what it waited for.
        if self.cluster.deadline().is_some_and(Deadline::has_passed) {
            return tokio::time::timeout(LAST_REPORT_LIMIT, work).await.unwrap_or(Err(stopped));
        }
        Err(stopped)
    }

    fn policy(&self, node: NodeRef<'g, Operation>, default: &NodePolicy) -> NodePolicy {
        NodePolicy { metered: node.value().category() == OperationCategory::Resource, ..*default }
    }
}

impl<'p> OperationExecutor<'p> {
    pub(super) fn new(
        cluster: &Cluster,
        plan: &'p ReleasePlan,
        options: &'p ExecuteOptions,
        events: &Events,
        held: &'p HeldLock,
    ) -> Self {
        let track = TrackOptions { logs: options.logs, ..TrackOptions::default() };
        let storage = |cluster| ReleaseStorage::new(cluster, plan.options.driver, &*plan.namespace);
        Self {
            cluster: cluster.clone(),
            storage: storage(cluster.clone()),
            last_words: storage(cluster.without_write_gate()),
            waiter: ObjectWaiter::with_options(cluster.clone(), events.clone(), track),
            events: events.clone(),
            plan,
            options,
            held,
            failure: Mutex::default(),
            hooks: Mutex::default(),
            written: Mutex::default(),
            gone: Mutex::default(),
        }
    }

    /// The same with a cluster of another deadline: to clean up after a run whose time is over.
    pub(super) fn with_deadline(self, deadline: Deadline) -> Self {
        let cluster = self.cluster.without_deadline().with_deadline(deadline);
        let fresh = Self::new(&cluster, self.plan, self.options, &self.events, self.held);
        Self { failure: self.failure, hooks: self.hooks, gone: self.gone, ..fresh }
    }

    /// Says what the revision's entry in the history is to tell about its failure.
    pub(super) fn fail_with(&self, message: &str) {
        message.clone_into(&mut self.failure.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn perform_operation(&self, operation: &Operation, id: &str) -> Result<Done, OpError> {
        match &operation.kind {
            OperationKind::Boundary => {}
            OperationKind::Deploy(index) => self.deploy_object(*index, id).await?,
            OperationKind::TrackReadiness(index) => self.wait_ready(*index, id).await?,
            OperationKind::CleanUp(index) => {
                let PlannedObject { resource, at, .. } = self.plan.objects.at(index.object);
                if !resource.is_crd() {
                    self.delete_object(at, resource.settings.propagation, None).await?;
                }
            }
            OperationKind::TrackCleanUp(index) => {
                let PlannedObject { resource, at, .. } = self.plan.objects.at(index.object);
                if !resource.is_crd() {
                    self.wait_absent(at, None).await?;
                }
            }
            OperationKind::Delete(index) => {
                let PlannedDeletion { resource, at, live, .. } = self.plan.deletions.at(*index);
                self.delete_object(at, resource.settings.propagation, object::uid(live)).await?;
            }
            OperationKind::TrackAbsence(index) => {
                let PlannedDeletion { at, live, .. } = self.plan.deletions.at(*index);
                self.wait_absent(at, object::uid(live)).await?;
            }
            OperationKind::TrackPresence(index) => {
                let external = self.plan.externals.at(*index);
                let kind = self.cluster.find_kind(&external.gvk).await?;
                let own = match external.namespace.as_str() {
                    "" => self.plan.namespace.as_str(),
                    other => other,
                };
                let namespace = kind.is_none_or(|kind| kind.namespaced).then_some(own);
                let at = ObjectRef::new(external.gvk.clone(), namespace, external.name.as_str());
                let timeout = self.options.presence_timeout.unwrap_or(PRESENCE_LIMIT);
                self.waiter.wait_present(&at, timeout).await?;
            }
            // The lock was taken a moment ago, and a number that another run took is refused.
            OperationKind::CreateRevision => self.storage.create(&self.plan.release).await?,
            OperationKind::FinishRevision => {
                self.check_fence().await?;
                let mut release = self.plan.release.clone();
                release.info.status = RevisionStatus::Deployed;
                release.info.description =
                    self.plan.options.description.clone().unwrap_or_else(|| match self.plan.deploy_type {
                        DeployType::Install => "Install complete".to_owned(),
                        DeployType::Rollback => format!("Rollback to {}", release.info.rollback_revision),
                        _ => "Upgrade complete".to_owned(),
                    });
                self.record_hooks(&mut release);
                self.storage.update(&release).await?;
            }
            OperationKind::FailRevision => {
                let why = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let mut release = self.plan.release.clone();
                release.info.status = RevisionStatus::Failed;
                let mut description: String = why.chars().take(LONGEST_DESCRIPTION).collect();
                if self.plan.deploy_type == DeployType::Delete {
                    description = format!("Deletion failed: {description}");
                }
                release.info.description = description;
                self.record_hooks(&mut release);
                self.last_words.update(&release).await?;
            }
            OperationKind::SupersedeRevision(revision) => {
                self.mark_revision(*revision, RevisionStatus::Superseded, None).await?;
            }
            OperationKind::BeginDelete(revision) => {
                self.mark_revision(
                    *revision,
                    RevisionStatus::Uninstalling,
                    Some("Deletion in progress (or silently failed)"),
                )
                .await?;
            }
            OperationKind::KeepHistory(revision) => {
                let description = self.plan.options.description.as_deref();
                let description = description.unwrap_or("Uninstallation complete");
                self.mark_revision(*revision, RevisionStatus::Uninstalled, Some(description)).await?;
            }
            OperationKind::ForgetRevision(revision) => {
                self.storage.delete(&self.plan.name, revision.get()).await?;
            }
        }
        Ok(Done::OK)
    }

    /// Checks that the lock is still held: a run that slept while another took over must not write the final record.
    async fn check_fence(&self) -> Result<(), OpError> {
        if self.held.check_fence(self.cluster.deadline()).await? {
            return Ok(());
        }
        let message = "the lock was lost to another run".to_owned();
        Err(OpError {
            message,
            cause: FailureCause::LockLost,
            class: Class::Permanent,
            verdict: None,
            is_late: false,
        })
    }

    async fn mark_revision(
        &self,
        revision: Revision,
        status: RevisionStatus,
        description: Option<&str>,
    ) -> Result<(), OpError> {
        let found = self.plan.history.releases.iter().find(|old| revision == old.version);
        let Some(old) = found else { return Ok(()) };
        let mut old = old.clone();
        old.info.status = status;
        if let Some(description) = description {
            description.clone_into(&mut old.info.description);
        }
        if status == RevisionStatus::Uninstalled {
            old.info.deleted = HelmTime::from(jiff::Timestamp::now());
        }
        Ok(self.storage.update(&old).await?)
    }

    fn record_hooks(&self, release: &mut Release) {
        let runs = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, run) in runs.iter() {
            let resource = &self.plan.objects.at(*index).resource;
            let hook = release
                .hooks
                .iter_mut()
                .find(|hook| hook.name == resource.id.name && hook.kind == resource.id.kind);
            if let Some(hook) = hook {
                hook.last_run = run.clone();
            }
        }
    }

    async fn delete_object(
        &self,
        at: &ObjectRef,
        propagation: Option<Propagation>,
        uid: Option<&str>,
    ) -> Result<(), OpError> {
        let propagation = match propagation.unwrap_or(self.plan.options.propagation) {
            Propagation::Foreground => slipway_cluster::DeletePropagation::Foreground,
            Propagation::Background => slipway_cluster::DeletePropagation::Background,
            Propagation::Orphan => slipway_cluster::DeletePropagation::Orphan,
        };
        let options = DeleteOptions { propagation, uid: uid.map(str::to_owned), ..DeleteOptions::default() };
        if self.cluster.delete(at, &options).await? == DeleteOutcome::Gone {
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).insert(at.clone());
        }
        self.send_state(at, ObjectState::Deleted, None);
        Ok(())
    }

    /// Waits until what was deleted is gone.
    async fn wait_absent(&self, at: &ObjectRef, uid: Option<&str>) -> Result<(), OpError> {
        if self.gone.lock().unwrap_or_else(PoisonError::into_inner).remove(at) {
            return Ok(());
        }
        Ok(self.waiter.wait_absent(at, uid, self.options.deletion_timeout).await?)
    }

    fn send_state(&self, at: &ObjectRef, state: ObjectState, node: Option<&str>) {
        let node = node.map(NodeId::from);
        let object = at.clone();
        self.events.send(Event::Object { node, object, state, message: None, replicas: None });
    }

    async fn deploy_object(&self, index: VisitIndex, node: &str) -> Result<(), OpError> {
        let planned = self.plan.objects.at(index.object);
        let PlannedObject { resource, at, .. } = planned;
        if resource.stored == RecordPart::Hook {
            let run = HookRun {
                started_at: HelmTime::from(jiff::Timestamp::now()),
                phase: "Running".into(),
                ..HookRun::default()
            };
            self.hooks.lock().unwrap_or_else(PoisonError::into_inner).insert(index.object, run);
        }
        let state = match &self.plan.visit(index).change {
            ObjectChange::None { .. } => return Ok(()),
            ObjectChange::Create => {
                if let Some(replicas) = resource.settings.replicas_on_creation {
                    let mut initial = resource.object.clone();
                    initial["spec"]["replicas"] = replicas.into();
                    self.cluster.apply(at, &initial, &ApplyOptions::new(INITIAL_MANAGER)).await?;
                }
                ObjectState::Created
            }
            ObjectChange::Recreate { .. } => {
                let live = self.cluster.get(at).await?;
                if let Some(live) = live {
                    let old = object::uid(&live);
                    self.delete_object(at, resource.settings.propagation, old).await?;
                    self.wait_absent(at, old).await?;
                }
                ObjectState::Recreated
            }
            ObjectChange::Update | ObjectChange::Apply { .. } => {
                self.repair_owners(planned).await?;
                ObjectState::Updated
            }
        };
        let vigil = if goes_by_itself(&resource.object) {
            // Who may not watch can still apply.
            self.waiter.watch_early(at).await.ok()
        } else {
            None
        };
        let written = self.cluster.apply(at, &resource.object, &ApplyOptions::new(MANAGER)).await?;
        let written = SeenObject { written: Some(written), vigil };
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(index.object, written);
        self.send_state(at, state, Some(node));
        if resource.is_crd() {
            slipway_cluster::crd::wait_until_served(&self.cluster, &resource.object, SERVED_LIMIT).await?;
        }
        Ok(())
    }

    /// Makes `helm` the owner of what it manages, on the object as it is now.
    async fn repair_owners(&self, object: &PlannedObject) -> Result<(), OpError> {
        let PlannedObject { resource, at, .. } = object;
        let Some(planned) = &object.repair else { return Ok(()) };
        let mut live = object.live.clone();
        for _ in 0..3 {
            let Some(current) = &live else { return Ok(()) };
            let keep = self.plan.options.keep_manual_changes;
            let Some(repair) = owners::repair_owners(current, &resource.object, Some(&planned.owned), keep)
            else {
                return Ok(());
            };
            let version = current.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let body = json!({"metadata": {"managedFields": repair.managers.to_entries(), "resourceVersion": version}});
            let sent = self
                .cluster
                .patch(at, &ObjectPatch::Merge(body), &WriteOptions::for_manager(MANAGER), None)
                .await;
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if error.class == ErrorClass::Conflict => {
                    live = self.cluster.get(at).await?;
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

    /// Time limit for one object to become ready: as it says itself, as the run says, or as Helm has it. A
    /// limit for the whole run takes the place of the last; zero is none.
    fn readiness_limit(&self, own: Option<Duration>) -> Option<Duration> {
        let usual = self.options.timeout.is_none().then_some(READINESS_LIMIT);
        own.or(self.options.readiness_timeout).or(usual).filter(|limit| !limit.is_zero())
    }

    async fn wait_ready(&self, index: VisitIndex, node: &str) -> Result<(), OpError> {
        let PlannedObject { resource, at, .. } = self.plan.objects.at(index.object);
        let mut tracking = resource.settings.tracking.clone();
        if self.plan.visit(index).must_be_ready {
            tracking.fail_mode = FailMode::Fail;
        }
        if self.options.assume_ready.contains(&at.gvk.group) {
            return Ok(());
        }
        let is_hook = resource.stored == RecordPart::Hook;
        let timeout = self.readiness_limit(tracking.ready_timeout);
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(&index.object);
        let result = self.waiter.wait_ready_since(at, &tracking, is_hook, timeout, Some(node), written).await;
        let mut runs = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get_mut(&index.object) {
            run.completed_at = HelmTime::from(jiff::Timestamp::now());
            run.phase = if result.is_ok() { "Succeeded" } else { "Failed" }.to_owned();
        }
        Ok(result?)
    }
}

/// Tells that an object is deleted when it has done its work, without anybody asking.
fn goes_by_itself(object: &Value) -> bool {
    object.pointer("/spec/ttlSecondsAfterFinished").is_some_and(Value::is_u64)
}
