//! Following objects until they are ready, there, or gone.
//!
//! [`status`](fn@status) is the pure heart: an object in, [`Readiness`] out. A [`Tracker`] feeds it from
//! shared watches, counts the failures of pods, passes on logs and events, and when something does not
//! become ready collects a [`Digest`] of why. What may not be watched is read now and then; what may
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

use slipway_event::{Event, Events, ObjectState};
use slipway_problem::Problem;
use tokio::time::Instant;

use crate::error::{Error, ErrorClass};
use crate::observe::{Observer, Seen};
use crate::request::seconds;
use crate::{Cluster, Deadline};

pub use crate::observe::Vigil;
pub use digest::{Container, Digest, LastWords};
pub use rules::{FailMode, LogRules, ReadyRules, TrackOptions};
pub(crate) use status::scalar;
pub use status::{Condition, Context, Readiness, is_ready_at_once, status};

/// Why an object is not what it was to become.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrackError {
    #[error("{at} did not become ready: {why}")]
    NotReady { at: Box<ObjectRef>, why: String, digest: Box<Digest> },
    #[error("{at} is not {goal} after {}: {why}{}", seconds(*after), last_error(trouble.as_deref()))]
    TimedOut {
        at: Box<ObjectRef>,
        /// `ready`, `there` or `gone`.
        goal: &'static str,
        after: Duration,
        why: String,
        /// The error that requests about it met last, if none has been answered since.
        trouble: Option<Box<Error>>,
        digest: Box<Digest>,
    },
    #[error("{at} was deleted while it was waited for")]
    Deleted { at: Box<ObjectRef> },
    #[error(transparent)]
    Cluster(#[from] Error),
}

impl TrackError {
    /// What is known about the failure, if anything was collected.
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            TrackError::NotReady { digest, .. } | TrackError::TimedOut { digest, .. } => Some(digest),
            TrackError::Deleted { .. } | TrackError::Cluster(_) => None,
        }
    }
}

fn last_error(trouble: Option<&Error>) -> String {
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
    fn warn(&self, what: &str, error: &Error) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(what.to_owned()) {
            let problem = Problem::warning(format!("{what}: {}", error.message))
                .hint("grant get, list and watch to see more while things become ready");
            self.events.send(Event::Warning { problem });
        }
    }

    fn tell(&self, at: &ObjectRef, rules: &ReadyRules, state: ObjectState, message: Option<String>) {
        let (node, object) = (rules.node.clone(), at.clone());
        self.events.send(Event::Object { node, object, state, message });
    }

    /// Watches a place before something is written there that may be gone again before anybody looks.
    pub async fn attend(&self, at: &ObjectRef) -> Result<Vigil, Error> {
        Vigil::begin(&self.cluster, at).await
    }

    /// Waits until an object is ready. An object that exists only to be there is ready at once.
    pub async fn ready(&self, at: &ObjectRef, rules: &ReadyRules) -> Result<(), TrackError> {
        self.ready_since(at, rules, None).await
    }

    /// As [`ready`](Self::ready), with all that was seen since a place was attended to.
    pub async fn ready_since(
        &self,
        at: &ObjectRef,
        rules: &ReadyRules,
        vigil: Option<Vigil>,
    ) -> Result<(), TrackError> {
        let result = self.follow(at, rules, vigil).await;
        match result {
            Ok(()) => {
                self.tell(at, rules, ObjectState::Ready, None);
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
                self.tell(at, rules, ObjectState::Failed, Some(e.to_string()));
                Err(e)
            }
        }
    }

    async fn follow(
        &self,
        at: &ObjectRef,
        rules: &ReadyRules,
        vigil: Option<Vigil>,
    ) -> Result<(), TrackError> {
        let has_own_rule = rules.ready_when.is_some() || rules.failed_when.is_some();
        if !has_own_rule && is_ready_at_once(&at.gvk.group, &at.gvk.kind) {
            return Ok(());
        }
        let cluster = self.bounded(rules.timeout);
        let observer = Observer::resume(&cluster, at, vigil).await?;
        session::Session::new(self, cluster, at, rules, observer).run().await
    }

    /// The cluster for a wait of at most `timeout`.
    fn bounded(&self, timeout: Option<Duration>) -> Cluster {
        match timeout {
            Some(timeout) => self.cluster.with_deadline(Deadline::after(timeout)),
            None => self.cluster.clone(),
        }
    }

    /// Waits until an object is there.
    pub async fn present(&self, at: &ObjectRef, timeout: Duration) -> Result<(), TrackError> {
        let goal = Goal { at, name: "there", timeout: Some(timeout), cluster: self.bounded(Some(timeout)) };
        let last = Mutex::new("it does not exist".to_owned());
        let wait = async {
            let mut pause = Duration::from_millis(250);
            // Its kind may come later than the wish for it.
            let mut observer = loop {
                match Observer::start(&goal.cluster, at).await {
                    Err(e) if e.class == ErrorClass::NoKind => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_secs(5));
                        self.cluster.invalidate_kinds().await;
                    }
                    started => break started?,
                }
            };
            loop {
                if let Seen::Present(_) = observer.seen() {
                    // A watch may lag behind a deletion: the server has the last word.
                    if goal.cluster.get(at).await?.is_some() {
                        return Ok(());
                    }
                }
                observer.changed().await?;
            }
        };
        goal.reach(&last, wait).await
    }

    /// Waits until an object is gone: any of that name, or the one with a certain uid.
    pub async fn absent(
        &self,
        at: &ObjectRef,
        uid: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(), TrackError> {
        let goal = Goal { at, name: "gone", timeout, cluster: self.bounded(timeout) };
        let last = Mutex::new("it was not looked at yet".to_owned());
        let wait = async {
            let mut observer = match Observer::start(&goal.cluster, at).await {
                Err(e) if e.is_absent() => return Ok(()),
                started => started?,
            };
            loop {
                match observer.seen() {
                    Seen::Absent => return Ok(()),
                    Seen::Present(object) => {
                        let is_other = uid.is_some_and(|uid| object["metadata"]["uid"] != uid);
                        if is_other {
                            return Ok(());
                        }
                        *last.lock().unwrap_or_else(PoisonError::into_inner) = why_still_there(&object);
                    }
                }
                match observer.changed().await {
                    Err(e) if e.is_absent() => return Ok(()),
                    changed => changed?,
                }
            }
        };
        goal.reach(&last, wait).await
    }
}

/// What an object is to become, within the deadline of a cluster handle.
struct Goal<'a> {
    at: &'a ObjectRef,
    /// `there` or `gone`.
    name: &'static str,
    timeout: Option<Duration>,
    cluster: Cluster,
}

impl Goal<'_> {
    /// Waits, and reports the reason in `last` when the time is over first.
    async fn reach(
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
                after: waited_for(started, self.timeout),
                why: last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                trouble: deadline.trouble().map(Box::new),
                digest: Box::default(),
            })
        })
    }
}

/// The timeout that passed, or the time until a deadline that came before it.
fn waited_for(started: Instant, timeout: Option<Duration>) -> Duration {
    let elapsed = started.elapsed();
    timeout.filter(|timeout| elapsed >= *timeout).unwrap_or(elapsed)
}

/// What keeps an object from going.
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
