//! Following objects until they are ready, there, or gone.
//!
//! [`readiness_of`] is a pure function from an object to its [`Readiness`]. A [`Tracker`] feeds it from
//! shared watches, counts the failures of pods, passes on logs and events, and when something does not
//! become ready collects a [`FailureDigest`] of why. What may not be watched is read now and then; what may
//! not be read at all is left out, with one warning.

mod digest;
mod failures;
mod generic;
mod rules;
mod session;
mod status;

use slipway_manifest::ObjectRef;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slipway_event::{Event, Events, ObjectState, ReplicaCounts};
use slipway_problem::Problem;
use tokio::time::Instant;

use crate::error::{Error, ErrorClass};
use crate::observe::{ObjectObserver, ObservedState};
use crate::request::format_seconds;
use crate::{Cluster, Deadline};

pub use crate::observe::{EarlyWatch, SeenObject};
pub use digest::{
    ContainerEnd, FailingContainer, FailingState, FailureDigest, LogTail, WarningEvent, describe_unready_pods,
};
pub use generic::has_stale_status;
pub use rules::{FailMode, LogRules, ReadyRules, TrackOptions};
pub(crate) use status::scalar_text;
pub use status::{
    FieldCondition, Readiness, ReadinessContext, is_ready_at_once, missed_deadline, readiness_of,
};

/// The reason an object did not become ready, present or absent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrackError {
    #[error("{at} {}", self.verdict().unwrap_or_default())]
    NotReady { at: Box<ObjectRef>, why: String, digest: Box<FailureDigest> },
    #[error("{at} {}", self.verdict().unwrap_or_default())]
    TimedOut {
        at: Box<ObjectRef>,
        /// `ready`, `there` or `gone`.
        goal: &'static str,
        after: Duration,
        why: String,
        /// The error that requests about it met last, if none has been answered since.
        trouble: Option<Box<Error>>,
        digest: Box<FailureDigest>,
    },
    #[error("{at} {}", self.verdict().unwrap_or_default())]
    Deleted { at: Box<ObjectRef> },
    #[error(transparent)]
    Cluster(#[from] Error),
}

impl TrackError {
    /// What is to be said of the object, without its name: `did not become ready: …`.
    pub fn verdict(&self) -> Option<String> {
        match self {
            TrackError::NotReady { why, .. } => Some(format!("did not become ready: {why}")),
            TrackError::TimedOut { goal, after, why, trouble, .. } => Some(format!(
                "is not {goal} after {}: {why}{}",
                format_seconds(*after),
                last_error_text(trouble.as_deref())
            )),
            TrackError::Deleted { .. } => Some("was deleted while it was waited for".to_owned()),
            TrackError::Cluster(_) => None,
        }
    }

    /// The digest of the failure, if one was collected.
    pub fn digest(&self) -> Option<&FailureDigest> {
        match self {
            TrackError::NotReady { digest, .. } | TrackError::TimedOut { digest, .. } => Some(digest),
            TrackError::Deleted { .. } | TrackError::Cluster(_) => None,
        }
    }
}

fn last_error_text(trouble: Option<&Error>) -> String {
    trouble.map(|error| format!("; the last error: {error}")).unwrap_or_default()
}

/// Follows objects; cheap to clone, any number at once.
#[derive(Clone)]
pub struct Tracker {
    cluster: Cluster,
    events: Events,
    options: TrackOptions,
    warned: Arc<Mutex<BTreeSet<String>>>,
}

impl Tracker {
    pub fn new(cluster: Cluster, events: Events, options: TrackOptions) -> Tracker {
        Tracker { cluster, events, options, warned: Arc::default() }
    }

    /// Warns once about what cannot be watched or read.
    fn warn_once(&self, what: &str, error: &Error) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(what.to_owned()) {
            let problem = Problem::warning(format!("{what}: {}", error.message))
                .hint("grant get, list and watch to see more while things become ready");
            self.events.send(Event::Warning { problem });
        }
    }

    fn send_state(
        &self,
        at: &ObjectRef,
        rules: &ReadyRules,
        state: ObjectState,
        message: Option<String>,
        replicas: Option<ReplicaCounts>,
    ) {
        let (node, object) = (rules.node.clone(), at.clone());
        self.events.send(Event::Object { node, object, state, message, replicas });
    }

    /// Watches a place before an object is written there that may be gone before it is read.
    pub async fn watch_early(&self, at: &ObjectRef) -> Result<EarlyWatch, Error> {
        EarlyWatch::begin(&self.cluster, at).await
    }

    /// Waits until an object is ready. An object of a kind without a status is ready at once.
    pub async fn wait_ready(&self, at: &ObjectRef, rules: &ReadyRules) -> Result<(), TrackError> {
        self.wait_ready_since(at, rules, SeenObject::default()).await
    }

    /// As [`wait_ready`](Self::wait_ready), with everything seen of the object before.
    pub async fn wait_ready_since(
        &self,
        at: &ObjectRef,
        rules: &ReadyRules,
        seen: SeenObject,
    ) -> Result<(), TrackError> {
        let result = self.follow_object(at, rules, seen).await;
        match result {
            Ok(replicas) => {
                self.send_state(at, rules, ObjectState::Ready, None, replicas);
                Ok(())
            }
            Err(TrackError::NotReady { why, .. } | TrackError::TimedOut { why, .. })
                if rules.fail_mode == FailMode::Ignore =>
            {
                let problem =
                    Problem::warning(format!("{at} is not ready, and that is to be ignored: {why}"));
                self.events.send(Event::Warning { problem });
                Ok(())
            }
            Err(e) => {
                self.send_state(at, rules, ObjectState::Failed, Some(e.to_string()), None);
                Err(e)
            }
        }
    }

    /// Waits until an object is ready, and returns its replicas if it is a workload.
    async fn follow_object(
        &self,
        at: &ObjectRef,
        rules: &ReadyRules,
        seen: SeenObject,
    ) -> Result<Option<ReplicaCounts>, TrackError> {
        let has_own_rule = rules.ready_when.is_some() || rules.failed_when.is_some();
        if !has_own_rule && is_ready_at_once(&at.gvk.group, &at.gvk.kind) {
            return Ok(None);
        }
        let cluster = self.with_timeout(rules.timeout);
        let observer = ObjectObserver::resume(&cluster, at, seen).await?;
        session::TrackingSession::new(self, cluster, at, rules, observer).run().await
    }

    /// The cluster for a wait of at most `timeout`.
    fn with_timeout(&self, timeout: Option<Duration>) -> Cluster {
        match timeout {
            Some(timeout) => self.cluster.with_deadline(Deadline::after(timeout)),
            None => self.cluster.clone(),
        }
    }

    /// Waits until an object is there.
    pub async fn wait_present(&self, at: &ObjectRef, timeout: Duration) -> Result<(), TrackError> {
        let goal =
            WaitGoal { at, name: "there", timeout: Some(timeout), cluster: self.with_timeout(Some(timeout)) };
        let last = Mutex::new("it does not exist".to_owned());
        let wait = async {
            let mut pause = Duration::from_millis(250);
            // Its kind may be served later.
            let mut observer = loop {
                match ObjectObserver::start(&goal.cluster, at).await {
                    Err(e) if e.class == ErrorClass::NoKind => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_secs(5));
                        self.cluster.invalidate_kinds().await;
                    }
                    started => break started?,
                }
            };
            loop {
                if let ObservedState::Present(_) = observer.current_state() {
                    // A watch may lag behind a deletion: the server decides.
                    if goal.cluster.get(at).await?.is_some() {
                        return Ok(());
                    }
                }
                observer.wait_for_change().await?;
            }
        };
        goal.wait_within(&last, wait).await
    }

    /// Waits until an object is gone: any of that name, or the one with a certain uid.
    pub async fn wait_absent(
        &self,
        at: &ObjectRef,
        uid: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(), TrackError> {
        let goal = WaitGoal { at, name: "gone", timeout, cluster: self.with_timeout(timeout) };
        let last = Mutex::new("it was not looked at yet".to_owned());
        let wait = async {
            let mut observer = match ObjectObserver::start(&goal.cluster, at).await {
                Err(e) if e.is_absent() => return Ok(()),
                started => started?,
            };
            loop {
                match observer.current_state() {
                    ObservedState::Absent => return Ok(()),
                    ObservedState::Present(object) => {
                        let is_other = uid.is_some_and(|uid| object["metadata"]["uid"] != uid);
                        if is_other {
                            return Ok(());
                        }
                        *last.lock().unwrap_or_else(PoisonError::into_inner) = why_still_there(&object);
                    }
                }
                match observer.wait_for_change().await {
                    Err(e) if e.is_absent() => return Ok(()),
                    changed => changed?,
                }
            }
        };
        goal.wait_within(&last, wait).await
    }
}

/// The state an object is waited for, within the deadline of a cluster handle.
struct WaitGoal<'a> {
    at: &'a ObjectRef,
    /// `there` or `gone`.
    name: &'static str,
    timeout: Option<Duration>,
    cluster: Cluster,
}

impl WaitGoal<'_> {
    /// Waits, and reports the reason in `last` when the time is over first.
    async fn wait_within(
        &self,
        last: &Mutex<String>,
        wait: impl Future<Output = Result<(), TrackError>>,
    ) -> Result<(), TrackError> {
        let Some(deadline) = self.cluster.deadline() else { return wait.await };
        let started = Instant::now();
        let waited = tokio::time::timeout_at(deadline.instant(), wait).await;
        waited.unwrap_or_else(|_| {
            Err(TrackError::TimedOut {
                at: Box::new(self.at.clone()),
                goal: self.name,
                after: time_waited(started, self.timeout),
                why: last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                trouble: deadline.last_error().map(Box::new),
                digest: Box::default(),
            })
        })
    }
}

/// The timeout that passed, or the time until a deadline that came before it.
fn time_waited(started: Instant, timeout: Option<Duration>) -> Duration {
    let elapsed = started.elapsed();
    timeout.filter(|timeout| elapsed >= *timeout).unwrap_or(elapsed)
}

/// Returns the reason an object is not deleted yet.
fn why_still_there(object: &serde_json::Value) -> String {
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        return "nobody deleted it".to_owned();
    }
    let finalizers: Vec<&str> =
        metadata["finalizers"].as_array().into_iter().flatten().filter_map(|f| f.as_str()).collect();
    match finalizers.as_slice() {
        [] => "it is being deleted".to_owned(),
        some => format!("its finalizers hold it: {}", some.join(", ")),
    }
}
