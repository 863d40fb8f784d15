//! One object being followed to its readiness.

mod hear;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipway_event::{Event, ObjectState};
use slipway_manifest::selector::LabelSelector;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::Problem;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failures::{Crashes, Failures, guard};
use super::status::{self, Context, Readiness, status};
use super::{ReadyRules, TrackError, Tracker, digest, generic, waited_for};
use crate::logs::Source;
use crate::observe::{Observer, Seen};
use crate::watch::{Interest, Past, Watched};
use crate::{Cluster, Deadline};

/// How long an object that was just written may be missing before it counts as deleted.
const APPEARANCE: Duration = Duration::from_secs(10);
/// How long the address of a load balancer may take before somebody is told that there may be none.
const BALANCER: Duration = Duration::from_secs(30);
/// How many pods of one workload are told about at most.
const MOST_PODS: usize = 50;

/// What kind of pods an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    None,
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    Pod,
}

impl Workload {
    fn of(gvk: &Gvk) -> Workload {
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("apps" | "extensions", "Deployment") => Workload::Deployment,
            ("apps", "StatefulSet") => Workload::StatefulSet,
            ("apps" | "extensions", "DaemonSet") => Workload::DaemonSet,
            ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => Workload::ReplicaSet,
            ("batch", "Job") => Workload::Job,
            ("", "Pod") => Workload::Pod,
            _ => Workload::None,
        }
    }
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn is_owned_by(object: &Value, uid: &str) -> bool {
    !uid.is_empty()
        && object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.iter().any(|o| o["uid"] == uid))
}

pub(super) struct Session<'t> {
    tracker: &'t Tracker,
    /// Bound by the time there is.
    cluster: Cluster,
    at: &'t ObjectRef,
    rules: &'t ReadyRules,
    workload: Workload,
    observer: Observer,
    pods: Option<Watched>,
    sets: Option<Watched>,
    events: Option<Watched>,
    failures: Failures,
    seen_events: BTreeSet<(String, i64)>,
    has_looked_at_pods: bool,
    logs: BTreeMap<Source, JoinHandle<()>>,
    log_pods: BTreeSet<String>,
    /// Fires when what was said so far is all that matters.
    enough: CancellationToken,
    /// What was last told about each pod.
    told_pods: BTreeMap<String, String>,
    started: Instant,
    /// When something last happened, and what the object was then.
    active: Instant,
    last_version: String,
    last_told: String,
    waits_for_consumer: Option<bool>,
    was_seen: bool,
    /// The uid of what was seen.
    uid: String,
    /// A balancer that does not come was spoken of.
    missed_balancer: bool,
}

/// What a look at the object said.
enum Verdict {
    Ready,
    /// Not waited for, and why.
    Resting(String),
    Waiting(String),
    Failed(String),
    Gone,
}

impl<'t> Session<'t> {
    pub(super) fn new(
        tracker: &'t Tracker,
        cluster: Cluster,
        at: &'t ObjectRef,
        rules: &'t ReadyRules,
        observer: Observer,
    ) -> Session<'t> {
        let now = Instant::now();
        Session {
            tracker,
            cluster,
            at,
            rules,
            workload: Workload::of(&at.gvk),
            observer,
            pods: None,
            sets: None,
            events: None,
            failures: Failures::default(),
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
            waits_for_consumer: None,
            was_seen: false,
            uid: String::new(),
            missed_balancer: false,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), TrackError> {
        let deadline = self.cluster.deadline().map(Deadline::instant);
        loop {
            let (verdict, object) = self.look().await;
            match verdict {
                Verdict::Ready => {
                    self.find_pods(object.as_deref()).await;
                    self.hear_out().await;
                    return Ok(());
                }
                Verdict::Resting(why) => {
                    let problem = Problem::note(format!("{} is not waited for: {why}", self.at));
                    self.tracker.events.send(Event::Warning { problem });
                    return Ok(());
                }
                Verdict::Failed(why) => {
                    self.hear_out().await;
                    let digest = Box::new(self.digest(object.as_deref()).await);
                    return Err(TrackError::NotReady { at: Box::new(self.at.clone()), why, digest });
                }
                Verdict::Gone => return Err(TrackError::Deleted { at: Box::new(self.at.clone()) }),
                Verdict::Waiting(why) => {
                    if self.last_told != why {
                        self.tracker.tell(self.at, self.rules, ObjectState::Waiting, Some(why.clone()));
                        self.last_told = why;
                    }
                }
            }
            self.start_watching(object.as_deref()).await;
            let wake_at = [deadline, Some(self.next_look(object.as_deref()))].into_iter().flatten().min();
            let sleep = tokio::time::sleep_until(wake_at.unwrap_or(self.started));
            tokio::select! {
                changed = self.observer.changed() => changed?,
                () = sleep => {}
            }
            if let Some(error) = self.observer.denied() {
                self.tracker.warn(&format!("cannot watch {}", self.observer.kind().resource()), &error);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // One more look: the news may have come at the same moment.
                let (verdict, object) = self.look().await;
                if let Verdict::Ready | Verdict::Resting(_) = verdict {
                    return Ok(());
                }
                let after = waited_for(self.started, self.rules.timeout);
                let trouble = self.cluster.deadline().and_then(Deadline::trouble);
                let trouble = trouble.or_else(|| self.observer.trouble()).map(Box::new);
                let digest = Box::new(self.digest(object.as_deref()).await);
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

    fn no_activity_timeout(&self) -> Duration {
        match self.rules.no_activity_timeout {
            Duration::ZERO => ReadyRules::default().no_activity_timeout,
            timeout => timeout,
        }
    }

    /// When to look again if nothing happens.
    fn next_look(&self, object: Option<&Value>) -> Instant {
        let mut next = self.started + Duration::from_secs(24 * 3600);
        if self.workload == Workload::None {
            next = next.min(self.active + self.no_activity_timeout());
        }
        let grace = self.tracker.options.blank_grace;
        for moment in [grace, APPEARANCE, BALANCER].map(|after| self.started + after) {
            if moment > Instant::now() && (object.is_none() || self.workload == Workload::None) {
                next = next.min(moment);
            }
        }
        next.max(Instant::now())
    }

    async fn look(&mut self) -> (Verdict, Option<Arc<Value>>) {
        let object = match self.observer.seen() {
            Seen::Present(object) => object,
            Seen::Absent if self.has_departed().is_some() => {
                return (self.last_state(), self.has_departed());
            }
            Seen::Absent if self.was_seen || self.started.elapsed() >= APPEARANCE => {
                return (Verdict::Gone, None);
            }
            Seen::Absent => return (Verdict::Waiting("not there yet".into()), None),
        };
        self.was_seen = true;
        text(&object, "/metadata/uid").clone_into(&mut self.uid);
        let version = text(&object, "/metadata/resourceVersion");
        if version != self.last_version {
            self.last_version = version.to_owned();
            self.active = Instant::now();
        }
        let is_pending_claim =
            self.at.gvk.kind == "PersistentVolumeClaim" && text(&object, "/status/phase") != "Bound";
        if is_pending_claim && self.waits_for_consumer.is_none() {
            self.waits_for_consumer = Some(self.binds_late(&object).await);
        }
        let context = Context {
            is_hook: self.rules.hook,
            waits_for_consumer: self.waits_for_consumer.unwrap_or(false),
            ready_when: self.rules.ready_when.as_ref(),
            failed_when: self.rules.failed_when.as_ref(),
        };
        let readiness = status(&object, &context);
        self.look_at_pods(&object);
        let verdict = match readiness {
            Readiness::Ready if self.is_too_early(&object) => Verdict::Waiting("no status yet".into()),
            Readiness::Ready => Verdict::Ready,
            Readiness::Resting(why) => Verdict::Resting(why),
            Readiness::Failed(why) => Verdict::Failed(why),
            Readiness::Progressing(why) => {
                self.miss_balancer();
                self.weigh(&object, why)
            }
        };
        (verdict, Some(object))
    }

    /// How the object was when it went: it itself, not one of its name before it.
    fn has_departed(&self) -> Option<Arc<Value>> {
        let departed = self.observer.departed()?;
        let uid = text(&departed, "/metadata/uid");
        let is_ours = match (&self.rules.uid, &self.uid) {
            (Some(wanted), _) => wanted == uid,
            (None, seen) => seen == uid,
        };
        is_ours.then_some(departed)
    }

    /// What became of an object that is gone: a Job may be deleted as soon as it is done.
    fn last_state(&self) -> Verdict {
        let Some(departed) = self.has_departed() else { return Verdict::Gone };
        match status::end(&departed) {
            Some(Readiness::Failed(why)) => Verdict::Failed(why),
            Some(_) => Verdict::Ready,
            None if status::had_succeeded(&departed) => Verdict::Ready,
            None => Verdict::Gone,
        }
    }

    /// Whether a custom object whose controller may still speak is to be given a moment.
    fn is_too_early(&self, object: &Value) -> bool {
        self.workload == Workload::None
            && self.rules.ready_when.is_none()
            && self.at.gvk.group.contains('.')
            && !self.at.gvk.group.ends_with(".k8s.io")
            && self.observer.kind().subresources.iter().any(|sub| sub == "status")
            && generic::is_blank(object)
            && self.started.elapsed() < self.tracker.options.blank_grace
    }

    /// Says once that a Service waits for a balancer: in many clusters nobody makes one.
    fn miss_balancer(&mut self) {
        let is_service = self.at.gvk.group.is_empty() && self.at.gvk.kind == "Service";
        if !is_service || self.missed_balancer || self.started.elapsed() < BALANCER {
            return;
        }
        self.missed_balancer = true;
        let problem = Problem::warning(format!(
            "{} has had no address of a load balancer for {} s",
            self.at,
            BALANCER.as_secs()
        ));
        let hint = "a cluster without a controller for load balancers never gives one: use another type, or \
                    `werf.io/track-termination-mode: NonBlocking`";
        self.tracker.events.send(Event::Warning { problem: problem.hint(hint) });
    }

    /// Whether too much has gone wrong for an object that is not ready.
    fn weigh(&self, object: &Value, why: String) -> Verdict {
        let quiet = self.no_activity_timeout();
        if self.workload == Workload::None && self.active.elapsed() >= quiet {
            return Verdict::Failed(format!("nothing happened for {} s: {why}", quiet.as_secs()));
        }
        if let Some(permanent) = self.failures.permanent() {
            return Verdict::Failed(permanent.to_owned());
        }
        let allowed = self.allowed(object);
        if self.failures.count() as u64 > allowed {
            return Verdict::Failed(match self.failures.count() {
                1 => self.failures.last().to_owned(),
                count => format!("{count} failures, {allowed} allowed; the last: {}", self.failures.last()),
            });
        }
        match self.failures.last() {
            "" => Verdict::Waiting(why),
            last => Verdict::Waiting(format!("{why} ({last})")),
        }
    }

    fn allowed(&self, object: &Value) -> u64 {
        let template = if self.workload == Workload::Pod { "/spec" } else { "/spec/template/spec" };
        let never = text(object, &format!("{template}/restartPolicy")) == "Never";
        if self.workload == Workload::Job || never {
            return 0;
        }
        let usual = match self.workload {
            Workload::Deployment | Workload::StatefulSet | Workload::DaemonSet => 1,
            _ => 0,
        };
        let each = u64::from(self.rules.allowed_failures_per_replica.unwrap_or(usual));
        let replicas = match self.workload {
            Workload::DaemonSet => object["status"]["desiredNumberScheduled"].as_u64(),
            _ => object["spec"]["replicas"].as_u64(),
        };
        each * replicas.unwrap_or(1)
    }

    /// Whether the claim's class waits for a pod before it binds a volume.
    async fn binds_late(&self, claim: &Value) -> bool {
        let cluster = &self.cluster;
        let class = Gvk::new("storage.k8s.io", "v1", "StorageClass");
        let Ok(Some(kind)) = cluster.kind(&class).await else { return false };
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
        if self.events.is_some() {
            return self.warn_about_gaps();
        }
        let (cluster, namespace) = (&self.cluster, self.at.namespace.as_deref());
        let wake = self.observer.wake.clone();
        let core = |kind: &str| Gvk::new("", "v1", kind);
        let (name, prefix) = (self.at.name.clone(), format!("{}-", self.at.name));
        if namespace.is_some()
            && let Ok(Some(kind)) = cluster.kind(&core("Event")).await
        {
            let interest = Interest::fitting(move |event| {
                let about = text(event, "/involvedObject/name");
                about == name || about.starts_with(&prefix)
            });
            self.events = Some(cluster.watch(&kind, namespace, Past::Skipped, &wake, interest));
        }
        let selector = LabelSelector::from_object(&object["spec"]["selector"]).ok().flatten();
        if matches!(self.workload, Workload::None | Workload::Pod) {
            return;
        }
        if let Ok(Some(kind)) = cluster.kind(&core("Pod")).await {
            let interest =
                Interest::fitting(move |pod| selector.as_ref().is_none_or(|s| s.matches_object(pod)));
            self.pods = Some(cluster.watch(&kind, namespace, Past::Known, &wake, interest));
        }
        if self.workload == Workload::Deployment
            && let Ok(Some(kind)) = cluster.kind(&Gvk::new("apps", "v1", "ReplicaSet")).await
        {
            let uid = text(object, "/metadata/uid").to_owned();
            let interest = Interest::fitting(move |set| is_owned_by(set, &uid));
            self.sets = Some(cluster.watch(&kind, namespace, Past::Known, &wake, interest));
        }
        // What was there already is news to us.
        self.observer.wake.notify_one();
    }

    fn warn_about_gaps(&self) {
        for (watched, what) in [
            (&self.pods, "cannot follow pods"),
            (&self.sets, "cannot follow replica sets"),
            (&self.events, "cannot follow events"),
        ] {
            if let Some(error) = watched.as_ref().and_then(Watched::denied) {
                self.tracker.warn(what, &error);
            }
        }
    }

    /// The replica set of a deployment's newest template.
    fn newest_set(&self, object: &Value) -> Option<Arc<Value>> {
        let uid = text(object, "/metadata/uid");
        let revision = |object: &Value| -> Option<i64> {
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str()?.parse().ok()
        };
        let seen = object["status"]["observedGeneration"].as_i64().unwrap_or(0);
        if seen < object["metadata"]["generation"].as_i64().unwrap_or(0) {
            return None;
        }
        let sets = self.sets.as_ref()?.find(|set| is_owned_by(set, uid));
        sets.into_iter().filter(|set| revision(set) == revision(object)).max_by_key(|set| revision(set))
    }

    /// The pods that the object as it is now has made; pods of earlier states do not matter.
    fn own_pods(&self, object: &Value) -> Vec<Arc<Value>> {
        let uid = text(object, "/metadata/uid");
        if self.workload == Workload::Pod {
            return vec![Arc::new(object.clone())];
        }
        let Some(pods) = &self.pods else { return Vec::new() };
        match self.workload {
            Workload::Deployment => match self.newest_set(object) {
                Some(set) => {
                    let uid = text(&set, "/metadata/uid").to_owned();
                    pods.find(|pod| is_owned_by(pod, &uid))
                }
                None => Vec::new(),
            },
            Workload::StatefulSet => {
                let revision = text(object, "/status/updateRevision");
                pods.find(|pod| {
                    is_owned_by(pod, uid)
                        && (revision.is_empty()
                            || text(pod, "/metadata/labels/controller-revision-hash") == revision)
                })
            }
            Workload::DaemonSet => {
                let generation =
                    text(object, "/metadata/annotations/deprecated.daemonset.template.generation");
                pods.find(|pod| {
                    let of = text(pod, "/metadata/labels/pod-template-generation");
                    is_owned_by(pod, uid) && (generation.is_empty() || of.is_empty() || of == generation)
                })
            }
            _ => pods.find(|pod| is_owned_by(pod, uid)),
        }
    }

    fn look_at_pods(&mut self, object: &Value) {
        if self.workload == Workload::None {
            return self.look_at_events(object, &[]);
        }
        let pods = self.own_pods(object);
        let crashes =
            if self.workload == Workload::Job { Crashes::LeaveToController } else { Crashes::Count };
        let is_synced = self.workload == Workload::Pod || self.pods.as_ref().is_some_and(Watched::is_synced);
        for pod in &pods {
            self.failures.observe_pod(pod, !self.has_looked_at_pods, crashes);
        }
        self.has_looked_at_pods |= is_synced;
        self.look_at_events(object, &pods);
        self.tell_pods(&pods);
        self.listen(&pods);
    }

    /// Tells how the pods of a workload are, whenever that changes.
    fn tell_pods(&mut self, pods: &[Arc<Value>]) {
        if self.workload == Workload::Pod {
            return;
        }
        for pod in pods {
            let name = text(pod, "/metadata/name");
            if !self.told_pods.contains_key(name) && self.told_pods.len() >= MOST_PODS {
                continue;
            }
            let (state, told) = pod_state(pod);
            let key = format!("{state:?} {told}");
            if self.told_pods.get(name) != Some(&key) {
                self.tracker.tell(&ObjectRef::of(pod), self.rules, state, Some(told));
                self.told_pods.insert(name.to_owned(), key);
            }
        }
    }

    fn look_at_events(&mut self, object: &Value, pods: &[Arc<Value>]) {
        let Some(watched) = &self.events else { return };
        let set = if self.workload == Workload::Deployment { self.newest_set(object) } else { None };
        let owners: Vec<&str> = [Some(object), set.as_deref()]
            .into_iter()
            .flatten()
            .map(|owner| text(owner, "/metadata/uid"))
            .collect();
        let (name, prefix) = (self.at.name.as_str(), format!("{}-", self.at.name));
        let found = watched.find(|event| {
            let about = text(event, "/involvedObject/name");
            about == name || about.starts_with(&prefix)
        });
        for event in found {
            let about = text(&event, "/involvedObject/uid");
            let pod = pods.iter().find(|pod| text(pod, "/metadata/uid") == about);
            if pod.is_none() && !owners.contains(&about) {
                continue;
            }
            let count = event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1);
            if !self.seen_events.insert((text(&event, "/metadata/uid").to_owned(), count)) {
                continue;
            }
            self.active = Instant::now();
            match pod {
                Some(pod) => self.failures.observe_pod_event(&event, pod, &self.rules.ignore_probe_failures),
                None => self.failures.observe_owner_event(&event),
            }
            if self.rules.show_events {
                let told = format!("{}: {}", text(&event, "/reason"), guard(text(&event, "/message")));
                self.tracker.tell(self.at, self.rules, ObjectState::Waiting, Some(told));
            }
        }
    }

    async fn digest(&self, object: Option<&Value>) -> super::Digest {
        let Some(object) = object else { return super::Digest::default() };
        let pods = self.own_pods(object);
        let pods: Vec<&Value> = pods.iter().map(|pod| &**pod).collect();
        let mut owners = vec![text(object, "/metadata/uid").to_owned()];
        owners.extend(self.newest_set(object).map(|set| text(&set, "/metadata/uid").to_owned()));
        // A run that is out of time does not take much more of it.
        let is_over = self.tracker.cluster.deadline().is_some_and(Deadline::has_passed);
        let patience = if is_over { digest::OVERTIME } else { digest::PATIENCE };
        digest::collect(&self.cluster.without_deadline(), self.at, &owners, &pods, patience).await
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for task in self.logs.values() {
            task.abort();
        }
    }
}

/// How a pod is: ready, failed, or on its way, and why.
fn pod_state(pod: &Value) -> (ObjectState, String) {
    let phase = text(pod, "/status/phase");
    let statuses = || {
        let lists = ["initContainerStatuses", "containerStatuses"];
        lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
    };
    let waiting = statuses().find_map(|status| {
        let reason = text(status, "/state/waiting/reason");
        (!reason.is_empty()).then(|| format!("{}: {reason}", text(status, "/name")))
    });
    let is_ready = status::condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True");
    match (phase, waiting) {
        ("Failed", _) => (ObjectState::Failed, phase.to_owned()),
        ("Succeeded", _) => (ObjectState::Ready, phase.to_owned()),
        (_, None) if is_ready => (ObjectState::Ready, phase.to_owned()),
        (_, Some(why)) => (ObjectState::Waiting, why),
        (_, None) => (ObjectState::Waiting, if phase.is_empty() { "Pending" } else { phase }.to_owned()),
    }
}
