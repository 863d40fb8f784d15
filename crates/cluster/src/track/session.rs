//! One object being followed to its readiness.

mod pod_logs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipway_event::{Event, ObjectState, ReplicaCounts};
use slipway_manifest::selector::LabelSelector;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::Problem;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failures::{CrashCounting, PodFailures, is_failure, without_account_details};
use super::status::{self, Readiness, ReadinessContext, readiness_of, text_at};
use super::{ReadyRules, TrackError, Tracker, digest, generic, time_waited};
use crate::logs::LogSource;
use crate::observe::{ObjectObserver, ObservedState};
use crate::watch::{PastObjects, ReaderInterest, WatchHandle};
use crate::{Cluster, Deadline};

/// The time an object that was just written may be missing before it counts as deleted.
const APPEARANCE_LIMIT: Duration = Duration::from_secs(10);
/// The time after which a Service without a load balancer's address is reported.
const BALANCER_NOTICE_AFTER: Duration = Duration::from_secs(30);
/// The most pods of one workload that are reported.
const MOST_PODS: usize = 50;

/// The kind of workload an object is, which decides about its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadKind {
    None,
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    Pod,
}

impl WorkloadKind {
    fn from_gvk(gvk: &Gvk) -> WorkloadKind {
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("apps" | "extensions", "Deployment") => WorkloadKind::Deployment,
            ("apps", "StatefulSet") => WorkloadKind::StatefulSet,
            ("apps" | "extensions", "DaemonSet") => WorkloadKind::DaemonSet,
            ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => WorkloadKind::ReplicaSet,
            ("batch", "Job") => WorkloadKind::Job,
            ("", "Pod") => WorkloadKind::Pod,
            _ => WorkloadKind::None,
        }
    }
}

fn is_owned_by(object: &Value, uid: &str) -> bool {
    !uid.is_empty()
        && object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.iter().any(|o| o["uid"] == uid))
}

pub(super) struct TrackingSession<'t> {
    tracker: &'t Tracker,
    /// Bound by the time there is.
    cluster: Cluster,
    at: &'t ObjectRef,
    rules: &'t ReadyRules,
    workload: WorkloadKind,
    observer: ObjectObserver,
    /// The watches below were asked for. A server may lack a kind, and then there is none of it.
    is_watching: bool,
    pods: Option<WatchHandle>,
    sets: Option<WatchHandle>,
    events: Option<WatchHandle>,
    failures: PodFailures,
    seen_events: BTreeSet<(String, i64)>,
    has_looked_at_pods: bool,
    logs: BTreeMap<LogSource, JoinHandle<()>>,
    log_pods: BTreeSet<String>,
    /// Fires when the lines written so far are enough.
    enough: CancellationToken,
    /// The last state sent of each pod.
    told_pods: BTreeMap<String, String>,
    started: Instant,
    /// The time of the last change, and the object's version then.
    active: Instant,
    last_version: String,
    last_told: String,
    told_replicas: Option<ReplicaCounts>,
    waits_for_consumer: Option<bool>,
    was_seen: bool,
    /// The uid of what was seen.
    uid: String,
    /// True if a missing load balancer was reported.
    missed_balancer: bool,
}

/// The result of one assessment of the object.
enum TrackingVerdict {
    Ready,
    /// Not waited for, and why.
    Resting(String),
    Waiting(String),
    /// The object itself says that it failed.
    GivenUp(String),
    /// Its pods failed too often, or nothing happens.
    Failed(String),
    Gone,
}

impl<'t> TrackingSession<'t> {
    pub(super) fn new(
        tracker: &'t Tracker,
        cluster: Cluster,
        at: &'t ObjectRef,
        rules: &'t ReadyRules,
        observer: ObjectObserver,
    ) -> TrackingSession<'t> {
        let now = Instant::now();
        TrackingSession {
            tracker,
            cluster,
            at,
            rules,
            workload: WorkloadKind::from_gvk(&at.gvk),
            observer,
            pods: None,
            sets: None,
            is_watching: false,
            events: None,
            failures: PodFailures::default(),
            seen_events: BTreeSet::new(),
            has_looked_at_pods: false,
            logs: BTreeMap::new(),
            log_pods: BTreeSet::new(),
            enough: CancellationToken::new(),
            told_pods: BTreeMap::new(),
            started: now,
            active: now,
            last_version: String::new(),
            last_told: String::new(),
            told_replicas: None,
            waits_for_consumer: None,
            was_seen: false,
            uid: String::new(),
            missed_balancer: false,
        }
    }

    /// Follows the object until it is ready, and returns its replicas then.
    pub(super) async fn run(mut self) -> Result<Option<ReplicaCounts>, TrackError> {
        let deadline = self.cluster.deadline().map(Deadline::instant);
        loop {
            let (verdict, object) = self.assess_object().await;
            match verdict {
                TrackingVerdict::Ready => {
                    self.find_pods(object.as_deref()).await;
                    self.finish_logs().await;
                    return Ok(object.as_deref().and_then(status::replica_counts));
                }
                TrackingVerdict::Resting(why) => {
                    let problem = Problem::note(format!("{} is not waited for: {why}", self.at));
                    self.tracker.events.send(Event::Warning { problem });
                    return Ok(object.as_deref().and_then(status::replica_counts));
                }
                TrackingVerdict::GivenUp(why) => {
                    self.find_failed_pods(object.as_deref()).await;
                    let why = match self.failures.last_failure() {
                        "" => why,
                        last => format!("{why} ({last})"),
                    };
                    return Err(self.failure(why, object.as_deref()).await);
                }
                TrackingVerdict::Failed(why) => return Err(self.failure(why, object.as_deref()).await),
                TrackingVerdict::Gone => return Err(TrackError::Deleted { at: Box::new(self.at.clone()) }),
                TrackingVerdict::Waiting(why) => {
                    let replicas = object.as_deref().and_then(status::replica_counts);
                    if (&self.last_told, self.told_replicas) != (&why, replicas) {
                        self.send_state(ObjectState::Waiting, why.clone(), replicas);
                        (self.last_told, self.told_replicas) = (why, replicas);
                    }
                }
            }
            self.start_watching(object.as_deref()).await;
            let wake_at = [deadline, Some(self.next_look(object.as_deref()))].into_iter().flatten().min();
            let sleep = tokio::time::sleep_until(wake_at.unwrap_or(self.started));
            tokio::select! {
                changed = self.observer.wait_for_change() => changed?,
                () = sleep => {}
            }
            if let Some(error) = self.observer.denied_error() {
                self.tracker
                    .warn_once(&format!("cannot watch {}", self.observer.kind().resource_name()), &error);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // One more look: a change may have come at the same time.
                let (verdict, object) = self.assess_object().await;
                if let TrackingVerdict::Ready | TrackingVerdict::Resting(_) = verdict {
                    return Ok(object.as_deref().and_then(status::replica_counts));
                }
                let after = time_waited(self.started, self.rules.timeout);
                let trouble = self.cluster.deadline().and_then(Deadline::last_error);
                let trouble = trouble.or_else(|| self.observer.last_error()).map(Box::new);
                let digest = Box::new(self.failure_digest(object.as_deref()).await);
                return Err(TrackError::TimedOut {
                    at: Box::new(self.at.clone()),
                    goal: "ready",
                    after,
                    why: self.last_told.clone(),
                    trouble,
                    digest,
                });
            }
        }
    }

    fn send_state(&self, state: ObjectState, message: String, replicas: Option<ReplicaCounts>) {
        self.tracker.send_state(self.at, self.rules, state, Some(message), replicas);
    }

    fn no_activity_timeout(&self) -> Duration {
        match self.rules.no_activity_timeout {
            Duration::ZERO => ReadyRules::default().no_activity_timeout,
            timeout => timeout,
        }
    }

    /// The time of the next look if nothing happens.
    fn next_look(&self, object: Option<&Value>) -> Instant {
        let mut next = Instant::now() + Duration::from_secs(24 * 3600);
        if self.workload == WorkloadKind::None {
            next = next.min(self.active + self.no_activity_timeout());
        }
        let grace = self.tracker.options.blank_grace;
        for moment in [grace, APPEARANCE_LIMIT, BALANCER_NOTICE_AFTER].map(|after| self.started + after) {
            if moment > Instant::now() && (object.is_none() || self.workload == WorkloadKind::None) {
                next = next.min(moment);
            }
        }
        next.max(Instant::now())
    }

    async fn assess_object(&mut self) -> (TrackingVerdict, Option<Arc<Value>>) {
        let object = match self.observer.current_state() {
            ObservedState::Present(object) => object,
            ObservedState::Absent if self.departed_state().is_some() => {
                return (self.verdict_when_gone(), self.departed_state());
            }
            ObservedState::Absent if self.was_seen || self.started.elapsed() >= APPEARANCE_LIMIT => {
                return (TrackingVerdict::Gone, None);
            }
            ObservedState::Absent => return (TrackingVerdict::Waiting("not there yet".into()), None),
        };
        self.was_seen = true;
        text_at(&object, "/metadata/uid").clone_into(&mut self.uid);
        let version = text_at(&object, "/metadata/resourceVersion");
        if version != self.last_version {
            self.last_version = version.to_owned();
            self.active = Instant::now();
        }
        let is_pending_claim =
            self.at.gvk.kind == "PersistentVolumeClaim" && text_at(&object, "/status/phase") != "Bound";
        if is_pending_claim && self.waits_for_consumer.is_none() {
            self.waits_for_consumer = Some(self.binds_on_first_use(&object).await);
        }
        let context = ReadinessContext {
            is_hook: self.rules.hook,
            waits_for_consumer: self.waits_for_consumer.unwrap_or(false),
            ready_when: self.rules.ready_when.as_ref(),
            failed_when: self.rules.failed_when.as_ref(),
        };
        let readiness = readiness_of(&object, &context);
        self.observe_pods(&object);
        let verdict = match readiness {
            Readiness::Ready if self.awaits_first_status(&object) => {
                TrackingVerdict::Waiting("no status yet".into())
            }
            Readiness::Ready => TrackingVerdict::Ready,
            Readiness::Resting(why) => TrackingVerdict::Resting(why),
            Readiness::Failed(why) => TrackingVerdict::GivenUp(why),
            Readiness::Progressing(why) => {
                self.report_missing_balancer();
                self.assess_failures(&object, why)
            }
        };
        (verdict, Some(object))
    }

    /// The object's last state before it was deleted; not that of an earlier one of its name.
    fn departed_state(&self) -> Option<Arc<Value>> {
        let departed = self.observer.departed_state()?;
        let uid = text_at(&departed, "/metadata/uid");
        let is_ours = match (&self.rules.uid, &self.uid) {
            (Some(wanted), _) => wanted == uid,
            (None, seen) => seen == uid,
        };
        is_ours.then_some(departed)
    }

    /// The verdict on an object that is gone: a Job may be deleted as soon as it is done.
    fn verdict_when_gone(&self) -> TrackingVerdict {
        let Some(departed) = self.departed_state() else { return TrackingVerdict::Gone };
        match status::terminal_state(&departed) {
            Some(Readiness::Failed(why)) => TrackingVerdict::GivenUp(why),
            Some(_) => TrackingVerdict::Ready,
            None if status::had_succeeded(&departed) => TrackingVerdict::Ready,
            None => TrackingVerdict::Gone,
        }
    }

    /// Returns true if a custom object is given more time for its first status.
    fn awaits_first_status(&self, object: &Value) -> bool {
        self.workload == WorkloadKind::None
            && self.rules.ready_when.is_none()
            && self.at.gvk.group.contains('.')
            && !self.at.gvk.group.ends_with(".k8s.io")
            && self.observer.kind().subresources.iter().any(|sub| sub == "status")
            && generic::has_no_status(object)
            && self.started.elapsed() < self.tracker.options.blank_grace
    }

    /// Reports once that a Service waits for a load balancer: many clusters provide none.
    fn report_missing_balancer(&mut self) {
        let is_service = self.at.gvk.group.is_empty() && self.at.gvk.kind == "Service";
        if !is_service || self.missed_balancer || self.started.elapsed() < BALANCER_NOTICE_AFTER {
            return;
        }
        self.missed_balancer = true;
        let problem = Problem::warning(format!(
            "{} has had no address of a load balancer for {} s",
            self.at,
            BALANCER_NOTICE_AFTER.as_secs()
        ));
        let hint = "a cluster without a controller for load balancers never gives one: use another type, or \
                    `werf.io/track-termination-mode: NonBlocking`";
        self.tracker.events.send(Event::Warning { problem: problem.hint(hint) });
    }

    /// Decides whether an object that is not ready has failed too often.
    fn assess_failures(&self, object: &Value, why: String) -> TrackingVerdict {
        let quiet = self.no_activity_timeout();
        if self.workload == WorkloadKind::None && self.active.elapsed() >= quiet {
            return TrackingVerdict::Failed(format!("nothing happened for {} s: {why}", quiet.as_secs()));
        }
        if let Some(permanent) = self.failures.permanent_failure() {
            return TrackingVerdict::Failed(permanent.to_owned());
        }
        let allowed = self.allowed_failures(object);
        if self.failures.count() as u64 > allowed {
            return TrackingVerdict::Failed(match self.failures.count() {
                1 => self.failures.last_failure().to_owned(),
                count => {
                    format!("{count} failures, {allowed} allowed; the last: {}", self.failures.last_failure())
                }
            });
        }
        match self.failures.last_failure() {
            "" => TrackingVerdict::Waiting(why),
            last => TrackingVerdict::Waiting(format!("{why} ({last})")),
        }
    }

    fn allowed_failures(&self, object: &Value) -> u64 {
        let template = if self.workload == WorkloadKind::Pod { "/spec" } else { "/spec/template/spec" };
        let never = text_at(object, &format!("{template}/restartPolicy")) == "Never";
        if self.workload == WorkloadKind::Job || never {
            return 0;
        }
        let usual = match self.workload {
            WorkloadKind::Deployment | WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => 1,
            _ => 0,
        };
        let each = u64::from(self.rules.allowed_failures_per_replica.unwrap_or(usual));
        let replicas = match self.workload {
            WorkloadKind::DaemonSet => object["status"]["desiredNumberScheduled"].as_u64(),
            _ => object["spec"]["replicas"].as_u64(),
        };
        each * replicas.unwrap_or(1)
    }

    /// Returns true if the claim's class waits for a pod before it binds a volume.
    async fn binds_on_first_use(&self, claim: &Value) -> bool {
        let cluster = &self.cluster;
        let class = Gvk::new("storage.k8s.io", "v1", "StorageClass");
        let Ok(Some(kind)) = cluster.find_kind(&class).await else { return false };
        let Ok(listed) = cluster.list(&kind, None, &crate::ListOptions::default()).await else {
            return false;
        };
        let wanted = claim["spec"]["storageClassName"].as_str();
        let is_meant = |class: &&Value| match wanted {
            Some(name) => class["metadata"]["name"] == name,
            None => class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true",
        };
        listed
            .items
            .iter()
            .find(is_meant)
            .is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
    }

    /// Follows pods, their owners and events of an object that is not ready at first sight.
    async fn start_watching(&mut self, object: Option<&Value>) {
        let Some(object) = object else { return };
        if std::mem::replace(&mut self.is_watching, true) {
            return self.warn_about_gaps();
        }
        let (cluster, namespace) = (&self.cluster, self.at.namespace.as_deref());
        let wake = self.observer.wake.clone();
        let core = |kind: &str| Gvk::new("", "v1", kind);
        let (name, prefix) = (self.at.name.clone(), format!("{}-", self.at.name));
        if namespace.is_some()
            && let Ok(Some(kind)) = cluster.find_kind(&core("Event")).await
        {
            let interest = ReaderInterest::matching(move |event| {
                let about = text_at(event, "/involvedObject/name");
                about == name || about.starts_with(&prefix)
            });
            self.events = Some(cluster.watch_shared(&kind, namespace, PastObjects::Skipped, &wake, interest));
        }
        let selector = LabelSelector::from_object(&object["spec"]["selector"]).ok().flatten();
        if matches!(self.workload, WorkloadKind::None | WorkloadKind::Pod) {
            return;
        }
        if let Ok(Some(kind)) = cluster.find_kind(&core("Pod")).await {
            let interest =
                ReaderInterest::matching(move |pod| selector.as_ref().is_none_or(|s| s.matches_object(pod)));
            self.pods = Some(cluster.watch_shared(&kind, namespace, PastObjects::Known, &wake, interest));
        }
        if self.workload == WorkloadKind::Deployment
            && let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("apps", "v1", "ReplicaSet")).await
        {
            let uid = text_at(object, "/metadata/uid").to_owned();
            let interest = ReaderInterest::matching(move |set| is_owned_by(set, &uid));
            self.sets = Some(cluster.watch_shared(&kind, namespace, PastObjects::Known, &wake, interest));
        }
        // Existing objects are new to this session.
        self.observer.wake.notify_one();
    }

    fn warn_about_gaps(&self) {
        for (watched, what) in [
            (&self.pods, "cannot follow pods"),
            (&self.sets, "cannot follow replica sets"),
            (&self.events, "cannot follow events"),
        ] {
            if let Some(error) = watched.as_ref().and_then(WatchHandle::denied_error) {
                self.tracker.warn_once(what, &error);
            }
        }
    }

    /// The replica set of a deployment's newest template.
    fn newest_replica_set(&self, object: &Value) -> Option<Arc<Value>> {
        let uid = text_at(object, "/metadata/uid");
        let revision = |object: &Value| -> Option<i64> {
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str()?.parse().ok()
        };
        let seen = object["status"]["observedGeneration"].as_i64().unwrap_or(0);
        if seen < object["metadata"]["generation"].as_i64().unwrap_or(0) {
            return None;
        }
        let sets = self.sets.as_ref()?.find_objects(|set| is_owned_by(set, uid));
        sets.into_iter().filter(|set| revision(set) == revision(object)).max_by_key(|set| revision(set))
    }

    /// The pods of the object's current state; pods of earlier states do not matter.
    fn own_pods(&self, object: &Value) -> Vec<Arc<Value>> {
        let uid = text_at(object, "/metadata/uid");
        if self.workload == WorkloadKind::Pod {
            return vec![Arc::new(object.clone())];
        }
        let Some(pods) = &self.pods else { return Vec::new() };
        match self.workload {
            WorkloadKind::Deployment => match self.newest_replica_set(object) {
                Some(set) => {
                    let uid = text_at(&set, "/metadata/uid").to_owned();
                    pods.find_objects(|pod| is_owned_by(pod, &uid))
                }
                None => Vec::new(),
            },
            WorkloadKind::StatefulSet => {
                let revision = text_at(object, "/status/updateRevision");
                pods.find_objects(|pod| {
                    is_owned_by(pod, uid)
                        && (revision.is_empty()
                            || text_at(pod, "/metadata/labels/controller-revision-hash") == revision)
                })
            }
            WorkloadKind::DaemonSet => {
                let generation =
                    text_at(object, "/metadata/annotations/deprecated.daemonset.template.generation");
                pods.find_objects(|pod| {
                    let of = text_at(pod, "/metadata/labels/pod-template-generation");
                    is_owned_by(pod, uid) && (generation.is_empty() || of.is_empty() || of == generation)
                })
            }
            _ => pods.find_objects(|pod| is_owned_by(pod, uid)),
        }
    }

    fn observe_pods(&mut self, object: &Value) {
        if self.workload == WorkloadKind::None {
            return self.observe_events(object, &[]);
        }
        let pods = self.own_pods(object);
        let crashes = if self.workload == WorkloadKind::Job {
            CrashCounting::LeaveToController
        } else {
            CrashCounting::Count
        };
        let is_synced =
            self.workload == WorkloadKind::Pod || self.pods.as_ref().is_some_and(WatchHandle::is_synced);
        for pod in &pods {
            self.failures.observe_pod(pod, !self.has_looked_at_pods, crashes);
        }
        self.has_looked_at_pods |= is_synced;
        self.observe_events(object, &pods);
        self.report_pods(&pods);
        self.follow_pod_logs(&pods);
    }

    /// Sends the states of a workload's pods when they change.
    fn report_pods(&mut self, pods: &[Arc<Value>]) {
        if self.workload == WorkloadKind::Pod {
            return;
        }
        for pod in pods {
            let name = text_at(pod, "/metadata/name");
            if !self.told_pods.contains_key(name) && self.told_pods.len() >= MOST_PODS {
                continue;
            }
            let (state, told) = pod_state(pod);
            let key = format!("{state:?} {told}");
            if self.told_pods.get(name) != Some(&key) {
                self.tracker.send_state(&ObjectRef::of(pod), self.rules, state, Some(told), None);
                self.told_pods.insert(name.to_owned(), key);
            }
        }
    }

    fn observe_events(&mut self, object: &Value, pods: &[Arc<Value>]) {
        let Some(watched) = &self.events else { return };
        let set =
            if self.workload == WorkloadKind::Deployment { self.newest_replica_set(object) } else { None };
        let owners: Vec<&str> = [Some(object), set.as_deref()]
            .into_iter()
            .flatten()
            .map(|owner| text_at(owner, "/metadata/uid"))
            .collect();
        let (name, prefix) = (self.at.name.as_str(), format!("{}-", self.at.name));
        let found = watched.find_objects(|event| {
            let about = text_at(event, "/involvedObject/name");
            about == name || about.starts_with(&prefix)
        });
        for event in found {
            let about = text_at(&event, "/involvedObject/uid");
            let pod = pods.iter().find(|pod| text_at(pod, "/metadata/uid") == about);
            if pod.is_none() && !owners.contains(&about) {
                continue;
            }
            let count = event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1);
            if !self.seen_events.insert((text_at(&event, "/metadata/uid").to_owned(), count)) {
                continue;
            }
            self.active = Instant::now();
            match pod {
                Some(pod) => self.failures.observe_pod_event(&event, pod, &self.rules.ignore_probe_failures),
                None => self.failures.observe_owner_event(&event),
            }
            if self.rules.show_events {
                let told = format!(
                    "{}: {}",
                    text_at(&event, "/reason"),
                    without_account_details(text_at(&event, "/message"))
                );
                self.send_state(ObjectState::Waiting, told, self.told_replicas);
            }
        }
    }

    /// The error for an object that failed, with its last lines and everything known about it.
    async fn failure(&mut self, why: String, object: Option<&Value>) -> TrackError {
        self.finish_logs().await;
        let digest = Box::new(self.failure_digest(object).await);
        TrackError::NotReady { at: Box::new(self.at.clone()), why, digest }
    }

    async fn failure_digest(&self, object: Option<&Value>) -> super::FailureDigest {
        let Some(object) = object else { return super::FailureDigest::default() };
        let pods = self.own_pods(object);
        let pods: Vec<&Value> = pods.iter().map(|pod| &**pod).collect();
        let mut owners = vec![text_at(object, "/metadata/uid").to_owned()];
        owners.extend(self.newest_replica_set(object).map(|set| text_at(&set, "/metadata/uid").to_owned()));
        // After the deadline of the run there is little time left.
        let is_over = self.tracker.cluster.deadline().is_some_and(Deadline::has_passed);
        let patience = if is_over { digest::PATIENCE_AFTER_DEADLINE } else { digest::PATIENCE };
        digest::collect_digest(&self.cluster.without_deadline(), self.at, &owners, &pods, patience).await
    }
}

impl Drop for TrackingSession<'_> {
    fn drop(&mut self) {
        for task in self.logs.values() {
            task.abort();
        }
    }
}

/// Returns the state of a pod (ready, failed, progressing) and the reason.
fn pod_state(pod: &Value) -> (ObjectState, String) {
    let phase = text_at(pod, "/status/phase");
    let statuses = || {
        let lists = ["initContainerStatuses", "containerStatuses"];
        lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
    };
    let waiting = statuses().find_map(|status| {
        let reason = text_at(status, "/state/waiting/reason");
        let state = if is_failure(reason) { ObjectState::Failed } else { ObjectState::Waiting };
        let again = match status["restartCount"].as_i64().unwrap_or(0) {
            0 => String::new(),
            1 => ", restarted once".to_owned(),
            count => format!(", restarted {count} times"),
        };
        (!reason.is_empty()).then(|| (state, format!("{}: {reason}{again}", text_at(status, "/name"))))
    });
    let is_ready = status::find_condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True");
    match (phase, waiting) {
        ("Failed", _) => (ObjectState::Failed, phase.to_owned()),
        ("Succeeded", _) => (ObjectState::Ready, phase.to_owned()),
        (_, None) if is_ready => (ObjectState::Ready, phase.to_owned()),
        (_, Some(why)) => why,
        (_, None) => (ObjectState::Waiting, if phase.is_empty() { "Pending" } else { phase }.to_owned()),
    }
}
