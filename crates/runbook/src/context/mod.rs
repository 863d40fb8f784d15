//! The contexts of a run and of an attempt at a step: the cluster, the files, how to wait and how to tell.

mod explain;
mod objects;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use slipway_cluster::helm::ReleaseStorage;
use slipway_cluster::{Cluster, Error, LastRequestError, ServedKind};
use slipway_event::{Event, Events};
use slipway_manifest::Gvk;
use slipway_problem::Problem;
use slipway_source::LoadContext;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::explain::{describe, last_warning, pods, shown, state_of};
pub(crate) use self::objects::{Found, passes};
use crate::error::{AttemptError, ErrorKind, advice};
use crate::model::Step;

/// The field manager, and the owner named by labels.
pub const MANAGER: &str = "khook";
/// The label of what a runbook made itself: jobs and the record.
pub const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";
/// The pause between two looks at a condition.
pub const POLL: Duration = Duration::from_secs(2);
/// Time finding out why something did not happen may take.
const POST_MORTEM: Duration = Duration::from_secs(5);
/// The number of objects a failure names.
const NAMED: usize = 5;

/// The cluster, files and events steps work with.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    pub cluster: &'a Cluster,
    /// The directory relative paths start from.
    pub base: &'a Path,
    /// The context charts and files are fetched and read in.
    pub sources: &'a LoadContext,
    pub events: &'a Events,
    /// The longest pause between two looks at something awaited.
    pub poll: Duration,
    pub target: RunTarget,
}

/// The sort of cluster a run works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunTarget {
    #[default]
    Cluster,
    /// A copy for a rehearsal: what runs there is reached by nobody.
    Copy,
}

/// A run's place and what its steps know of each other.
pub(crate) struct SharedContext<'a> {
    pub(crate) place: RunContext<'a>,
    pub(crate) document: &'a str,
    /// Kinds whose definition was applied in this run: they will be served any moment.
    defined: Mutex<BTreeSet<Gvk>>,
}

impl<'a> SharedContext<'a> {
    pub(crate) fn new(place: RunContext<'a>, document: &'a str) -> Self {
        Self { place, document, defined: Mutex::default() }
    }

    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.place.cluster
    }

    /// Takes note of a definition that was applied.
    pub(crate) fn define(&self, definition: &Value) {
        let kinds = slipway_cluster::crd::served_kinds(definition);
        self.defined.lock().unwrap_or_else(PoisonError::into_inner).extend(kinds);
    }

    pub(crate) fn is_defined(&self, gvk: &Gvk) -> bool {
        self.defined.lock().unwrap_or_else(PoisonError::into_inner).contains(gvk)
    }

    /// Finds how the cluster serves a kind now; what an earlier step brought is seen.
    pub(crate) async fn kind(&self, gvk: &Gvk) -> Result<Option<Arc<ServedKind>>, Error> {
        if let Some(kind) = self.cluster().find_kind(gvk).await? {
            return Ok(Some(kind));
        }
        self.cluster().invalidate_kinds().await;
        self.cluster().find_kind(gvk).await
    }

    /// Finds the kind a person calls `deploy`, `pods` or `certificates.cert-manager.io`.
    pub(crate) async fn named(&self, name: &str) -> Result<Option<Arc<ServedKind>>, Error> {
        let lower = name.to_ascii_lowercase();
        let find = |kinds: &slipway_cluster::ServedKinds| {
            kinds.by_name(name).or_else(|| kinds.by_name(&lower)).map(Arc::clone)
        };
        if let Some(kind) = find(&*self.cluster().served_kinds().await?) {
            return Ok(Some(kind));
        }
        self.cluster().invalidate_kinds().await;
        Ok(find(&*self.cluster().served_kinds().await?))
    }

    pub(crate) fn warn(&self, step: &str, message: impl std::fmt::Display) {
        let problem = Problem::warning(format!("step \"{step}\": {message}"));
        self.place.events.send(Event::Warning { problem });
    }
}

/// One attempt at a step.
pub(crate) struct StepContext<'a> {
    pub(crate) world: &'a SharedContext<'a>,
    pub(crate) step: &'a Step,
    pub(crate) cancel: CancellationToken,
    pub(crate) deadline: Instant,
    /// The moment since which an earlier attempt, of this run or of one that was killed, may have left work half done.
    pub(crate) interrupted_since: Option<jiff::Timestamp>,
    /// Objects that are still awaited, as last seen.
    unmet: Mutex<Unmet>,
    /// The trouble requests are up against.
    pub(crate) trouble: LastRequestError,
}

#[derive(Clone, Debug, Default)]
struct Unmet {
    what: String,
    objects: Vec<Value>,
    /// Finding out more takes the logs of this job.
    job: Option<(String, String)>,
}

impl<'a> StepContext<'a> {
    pub(crate) fn new(
        world: &'a SharedContext<'a>,
        step: &'a Step,
        cancel: CancellationToken,
        interrupted_since: Option<jiff::Timestamp>,
    ) -> Self {
        let deadline = Instant::now() + step.timeout;
        let (unmet, trouble) = (Mutex::default(), LastRequestError::default());
        Self { world, step, cancel, deadline, interrupted_since, unmet, trouble }
    }

    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.world.cluster()
    }

    /// The releases of a namespace, where those of the cluster are kept.
    pub(crate) fn release_storage(&self, namespace: &str) -> ReleaseStorage {
        let cluster = self.cluster();
        ReleaseStorage::new(cluster.clone(), cluster.release_driver(), namespace)
    }

    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Says how far it is.
    pub(crate) fn note(&self, message: impl Into<String>) {
        let node = Some(self.step.name.as_str().into());
        let event = Event::Progress { node, message: message.into(), done: None, total: None };
        self.world.place.events.send(event);
    }

    pub(crate) fn warn(&self, message: impl std::fmt::Display) {
        self.world.warn(&self.step.name, message);
    }

    /// Remembers what is missing, for the case that time runs out.
    pub(crate) fn awaits(&self, what: impl Into<String>, objects: Vec<Value>) {
        let mut unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner);
        let what = what.into();
        let changed = unmet.what != what;
        *unmet = Unmet { what, objects, job: unmet.job.take() };
        if changed {
            let mut text = unmet.what.clone();
            if let Some(first) = unmet.objects.first() {
                let state = state_of(first);
                let state = state.lines().next().filter(|state| !state.is_empty());
                let state = state.map(|state| format!(" ({state})")).unwrap_or_default();
                text.push_str(&format!("; waiting on {}{state}", describe(first)));
            }
            drop(unmet);
            self.note(text);
        }
    }

    pub(crate) fn awaits_job(&self, namespace: &str, name: &str) {
        let mut unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner);
        unmet.what = format!("waiting for job/{name}@{namespace}");
        unmet.job = Some((namespace.to_owned(), name.to_owned()));
    }

    /// The next pause of a loop: short at first, then as long as asked for.
    pub(crate) async fn pause(&self, turn: &mut u32) {
        let first = Duration::from_millis(100).min(self.world.place.poll);
        let pause = (first * 2u32.saturating_pow((*turn).min(8))).min(self.world.place.poll);
        *turn += 1;
        tokio::time::sleep(pause).await;
    }

    /// Tells why the attempt was stopped: its time is over, or the run is.
    pub(crate) async fn stopped(&self) -> AttemptError {
        if Instant::now() < self.deadline {
            return AttemptError::canceled();
        }
        let unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let trouble = self.trouble.last_error();
        let mut message = match (&trouble, unmet.what) {
            (Some(error), what) if what.is_empty() => error.to_string(),
            (Some(error), what) => format!("{what}; {error}"),
            (None, what) if what.is_empty() => "the step took too long".to_owned(),
            (None, what) => what,
        };
        let told = tokio::time::timeout(POST_MORTEM, async {
            let mut lines = Vec::new();
            for object in unmet.objects.iter().take(NAMED) {
                lines.push(format!("{}  {}", describe(object), self.explain(object).await));
            }
            if unmet.objects.len() > NAMED {
                lines.push(format!("and {} more", unmet.objects.len() - NAMED));
            }
            if let Some((namespace, name)) = &unmet.job {
                lines.extend(crate::steps::job::last_words(self.cluster(), namespace, name).await);
            }
            lines
        })
        .await;
        for line in told.unwrap_or_default() {
            message.push_str("\n  ");
            message.push_str(&line);
        }
        let error = AttemptError::new(ErrorKind::Timeout, message);
        match trouble.as_ref().and_then(advice) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
