//! What every step works with: the cluster, the files, how to wait and how to tell.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{
    At, Cluster, Delete, Deleted, Error, ErrorClass, Kind, ListOptions, Patch, Propagation, Trouble,
    WriteOptions,
};
use slipway_event::{Event, Events};
use slipway_manifest::{Gvk, object};
use slipway_problem::Problem;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, StepError, advice};
use crate::model::{Selection, Step};
use crate::remote::Remote;

/// The field manager, and the owner named by labels.
pub const MANAGER: &str = "khook";
/// The label of what a runbook made itself: jobs and the record.
pub const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";
/// How often a condition is looked at.
pub const POLL: Duration = Duration::from_secs(2);
/// How long finding out why something did not happen may take.
const POST_MORTEM: Duration = Duration::from_secs(5);
/// How many objects a failure names.
const NAMED: usize = 5;
/// How often a write that met another one is sent again.
const CONFLICTS: u32 = 5;
/// How often a kind that is not served is asked for again.
const REFRESH: Duration = Duration::from_secs(10);

/// Where steps work.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub cluster: &'a Cluster,
    /// The directory relative paths start from.
    pub base: &'a Path,
    pub remote: &'a dyn Remote,
    pub events: &'a Events,
    /// The longest pause between two looks at something awaited.
    pub poll: Duration,
}

/// A run's place and what its steps know of each other.
pub(crate) struct World<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) document: &'a str,
    /// Kinds whose definition was applied in this run: they will be served any moment.
    defined: Mutex<BTreeSet<Gvk>>,
}

impl<'a> World<'a> {
    pub(crate) fn new(place: Place<'a>, document: &'a str) -> Self {
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

    /// How the cluster serves a kind now; what an earlier step brought is seen.
    pub(crate) async fn kind(&self, gvk: &Gvk) -> Result<Option<Arc<Kind>>, Error> {
        if let Some(kind) = self.cluster().kind(gvk).await? {
            return Ok(Some(kind));
        }
        self.cluster().invalidate_kinds().await;
        self.cluster().kind(gvk).await
    }

    /// What a person calls `deploy`, `pods` or `certificates.cert-manager.io`.
    pub(crate) async fn named(&self, name: &str) -> Result<Option<Arc<Kind>>, Error> {
        let lower = name.to_ascii_lowercase();
        let find = |kinds: &slipway_cluster::Kinds| {
            kinds.by_name(name).or_else(|| kinds.by_name(&lower)).map(Arc::clone)
        };
        if let Some(kind) = find(&*self.cluster().kinds().await?) {
            return Ok(Some(kind));
        }
        self.cluster().invalidate_kinds().await;
        Ok(find(&*self.cluster().kinds().await?))
    }

    pub(crate) fn warn(&self, step: &str, message: impl std::fmt::Display) {
        let problem = Problem::warning(format!("step \"{step}\": {message}"));
        self.place.events.send(Event::Warning { problem });
    }
}

/// One attempt at a step.
pub(crate) struct Attempt<'a> {
    pub(crate) world: &'a World<'a>,
    pub(crate) step: &'a Step,
    pub(crate) cancel: CancellationToken,
    pub(crate) deadline: Instant,
    /// Whether an earlier attempt, of this run or of one that was killed, may have left work half done
    /// since this moment.
    pub(crate) interrupted_since: Option<jiff::Timestamp>,
    /// What is still awaited, as last seen.
    unmet: Mutex<Unmet>,
    /// What requests are up against.
    pub(crate) trouble: Trouble,
}

#[derive(Clone, Debug, Default)]
struct Unmet {
    what: String,
    objects: Vec<Value>,
    /// Finding out more takes the logs of this job.
    job: Option<(String, String)>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        world: &'a World<'a>,
        step: &'a Step,
        cancel: CancellationToken,
        interrupted_since: Option<jiff::Timestamp>,
    ) -> Self {
        let deadline = Instant::now() + step.timeout;
        let (unmet, trouble) = (Mutex::default(), Trouble::default());
        Self { world, step, cancel, deadline, interrupted_since, unmet, trouble }
    }

    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.world.cluster()
    }

    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Says how far it is.
    pub(crate) fn note(&self, message: impl Into<String>) {
        let node = Some(self.step.name.clone());
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

    /// Why the attempt was stopped: its time is over, or the run is.
    pub(crate) async fn stopped(&self) -> StepError {
        if Instant::now() < self.deadline {
            return StepError::canceled();
        }
        let unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let trouble = self.trouble.last();
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
        let error = StepError::new(ErrorKind::Timeout, message);
        match trouble.as_ref().and_then(advice) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// Patches an object; whoever writes it at the same moment is waited out.
    pub(crate) async fn patch(&self, at: &At, patch: &Patch) -> Result<Value, Error> {
        let mut turn = 0;
        loop {
            match self.cluster().patch(at, patch, &WriteOptions::manager(MANAGER), None).await {
                Err(error) if error.class == ErrorClass::Conflict && turn < CONFLICTS => {
                    self.pause(&mut turn).await;
                }
                answer => return answer,
            }
        }
    }

    /// What an object says about why it is not there yet.
    async fn explain(&self, object: &Value) -> String {
        let mut said = state_of(object);
        let kind = object::kind(object).unwrap_or_default();
        let Some(namespace) = object::namespace(object) else { return said };
        let labels = object["spec"]["selector"]["matchLabels"].as_object();
        if let (Some(labels), true) = (labels, kind != "Pod") {
            let selector: Vec<String> =
                labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
            for pod in pods(self.cluster(), namespace, &selector.join(",")).await {
                let state = state_of(&pod);
                if !state.is_empty() && pod["status"]["phase"] != "Succeeded" && !is_ready(&pod) {
                    said.push_str(&format!("; {} {state}", describe(&pod)));
                    break;
                }
            }
        }
        let name = object::name(object).unwrap_or_default();
        let of_it = format!("involvedObject.name={name}");
        if let Some(event) = last_warning(self.cluster(), namespace, &of_it, |_| true).await {
            said.push_str(&format!("; {event}"));
        }
        said
    }

    /// Makes sure a namespace is there; one that is being deleted is waited for and made anew.
    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<(), StepError> {
        let at = At::new(Gvk::new("", "v1", "Namespace"), None, name);
        let mut turn = 0;
        loop {
            match self.cluster().get(&at).await {
                Ok(Some(live)) if live["metadata"]["deletionTimestamp"].is_string() => {
                    self.awaits(format!("waiting for namespace/{name} to be gone"), vec![live]);
                    self.pause(&mut turn).await;
                }
                Ok(Some(_)) => return Ok(()),
                // Who may not read namespaces may still be allowed to create one.
                Ok(None) => break,
                Err(error) if error.class == ErrorClass::Forbidden => break,
                Err(error) => return Err(error.into()),
            }
        }
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.cluster().create(&at, &manifest, &WriteOptions::manager(MANAGER)).await {
            Ok(_) => Ok(()),
            Err(error) if error.class == ErrorClass::AlreadyExists => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The kind of an object to write: waits for one that a definition of this run brings.
    pub(crate) async fn kind(&self, gvk: &Gvk) -> Result<Arc<Kind>, StepError> {
        let mut turn = 0;
        loop {
            if let Some(kind) = self.world.kind(gvk).await? {
                return Ok(kind);
            }
            if !self.world.is_defined(gvk) {
                let message = format!("the cluster serves no kind {gvk}");
                return Err(StepError::new(ErrorKind::NotFound, message)
                    .hint("is its definition applied in a step before, and is the version right?"));
            }
            self.awaits(format!("waiting for the kind {gvk} to be served"), Vec::new());
            self.pause(&mut turn).await;
        }
    }

    /// Deletes an object and waits until it, not merely one of its name, is gone. Says whether it was there.
    pub(crate) async fn delete(
        &self,
        at: &At,
        live: &Value,
        propagation: Propagation,
    ) -> Result<(), StepError> {
        self.begin_delete(at, propagation).await?;
        self.gone(at, live["metadata"]["uid"].as_str()).await
    }

    pub(crate) async fn begin_delete(&self, at: &At, propagation: Propagation) -> Result<Deleted, StepError> {
        let propagation = if at.gvk.kind == "Job" { Propagation::Foreground } else { propagation };
        Ok(self.cluster().delete(at, &Delete { propagation, ..Delete::default() }).await?)
    }

    pub(crate) async fn gone(&self, at: &At, uid: Option<&str>) -> Result<(), StepError> {
        let mut turn = 0;
        loop {
            match self.cluster().get(at).await {
                Ok(None) => return Ok(()),
                Ok(Some(live)) if live["metadata"]["uid"].as_str() != uid => return Ok(()),
                Ok(Some(live)) => {
                    self.awaits(format!("waiting for {} to be gone", shown(at)), vec![live]);
                }
                Err(error) if error.is_absent() => return Ok(()),
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(&mut turn).await;
        }
    }

    /// The objects a selection means now; `None` when nobody serves the kind.
    pub(crate) async fn select(
        &self,
        selection: &Selection,
        last: &mut Option<Instant>,
    ) -> Result<Found, Error> {
        let fresh = last.is_none_or(|last| last.elapsed() >= REFRESH.min(self.world.place.poll * 5));
        let kinds = self.cluster().kinds().await?;
        let kind = match kinds.by_name(&selection.kind) {
            Some(kind) => Some(Arc::clone(kind)),
            None if fresh => {
                *last = Some(Instant::now());
                self.world.named(&selection.kind).await?
            }
            None => None,
        };
        let Some(kind) = kind else { return Ok(Found::NoKind) };
        let namespace = selection.namespace.as_deref().unwrap_or("default");
        let namespace = (kind.namespaced && !selection.all_namespaces).then_some(namespace);
        if let Some(name) = &selection.name {
            let at = At::new(kind.gvk.clone(), namespace, name.as_str());
            return match self.cluster().get(&at).await {
                Ok(found) => Ok(Found::Objects(kind, found.into_iter().collect())),
                Err(error) if error.is_absent() => Ok(Found::Objects(kind, Vec::new())),
                Err(error) => Err(error),
            };
        }
        let options = ListOptions {
            labels: selection.selector.clone().unwrap_or_default(),
            fields: selection.field_selector.clone().unwrap_or_default(),
            metadata_only: false,
        };
        match self.cluster().list(&kind, namespace, &options).await {
            Ok(listed) => Ok(Found::Objects(kind, listed.items)),
            Err(error) if error.is_absent() => Ok(Found::Objects(kind, Vec::new())),
            Err(error) => Err(error),
        }
    }
}

/// Whether a loop that looks again anyway may overlook an answer.
pub(crate) fn passes(error: &Error) -> bool {
    error.is_transient() || error.is_expired()
}

/// What a selection found.
pub(crate) enum Found {
    NoKind,
    Objects(Arc<Kind>, Vec<Value>),
}

/// `deployment/web@shop`.
pub(crate) fn describe(object: &Value) -> String {
    shown(&At::live(object))
}

pub(crate) fn shown(at: &At) -> String {
    let kind = at.gvk.kind.to_lowercase();
    match at.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{kind}/{}@{namespace}", at.name),
        None => format!("{kind}/{}", at.name),
    }
}

/// Where an object without a kind of its own lives, as far as its manifest says.
pub(crate) async fn pods(cluster: &Cluster, namespace: &str, selector: &str) -> Vec<Value> {
    let Ok(Some(kind)) = cluster.kind(&Gvk::new("", "v1", "Pod")).await else { return Vec::new() };
    let listed = cluster.list(&kind, Some(namespace), &ListOptions::labels(selector)).await;
    listed.map(|listed| listed.items).unwrap_or_default()
}

/// The last warning about an object the selector of fields and the name fit.
pub(crate) async fn last_warning(
    cluster: &Cluster,
    namespace: &str,
    fields: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Option<String> {
    let kind = cluster.kind(&Gvk::new("", "v1", "Event")).await.ok()??;
    let fields = format!("{fields},type=Warning");
    let options = ListOptions { fields, ..ListOptions::default() };
    let listed = cluster.list(&kind, Some(namespace), &options).await.ok()?;
    let meant = listed
        .items
        .into_iter()
        .filter(|event| event["involvedObject"]["name"].as_str().is_some_and(&is_meant));
    let last = meant.max_by_key(|event| {
        let time = event["lastTimestamp"].as_str().or(event["eventTime"].as_str());
        time.or(event["metadata"]["creationTimestamp"].as_str()).unwrap_or_default().to_owned()
    })?;
    let text = |field: &str| last[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{}: {}", text("reason"), text("message")))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// What an object's own status says: why its containers wait, which condition does not hold, what keeps
/// it from going.
pub(crate) fn state_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_string() {
        let finalizers: Vec<String> =
            metadata["finalizers"].as_array().into_iter().flatten().map(text).collect();
        let mut said = format!("being deleted since {}", text(&metadata["deletionTimestamp"]));
        if !finalizers.is_empty() {
            said.push_str(&format!(", held by finalizers {}", finalizers.join(", ")));
        }
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            if condition["type"].as_str().is_some_and(|kind| kind.starts_with("Namespace"))
                && condition["status"] == "True"
            {
                said.push_str(&format!("; {}", text(&condition["message"])));
            }
        }
        return said;
    }
    let statuses = ["initContainerStatuses", "containerStatuses"];
    for status in statuses.iter().flat_map(|list| object["status"][*list].as_array().into_iter().flatten()) {
        let (waiting, ended) = (&status["state"]["waiting"], &status["state"]["terminated"]);
        if waiting.is_object() {
            let message = text(&waiting["message"]);
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            return format!("{}{message}", text(&waiting["reason"]));
        }
        if ended.is_object() && ended["exitCode"] != 0 {
            return format!("container {} exited with {}", text(&status["name"]), ended["exitCode"]);
        }
    }
    let conditions = object["status"]["conditions"].as_array();
    for condition in conditions.into_iter().flatten() {
        if condition["status"] != "True" {
            let words = [text(&condition["reason"]), text(&condition["message"])];
            let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
            return format!(
                "{}={} {}",
                text(&condition["type"]),
                text(&condition["status"]),
                words.join(": ")
            )
            .trim_end()
            .to_owned();
        }
    }
    match (object.get("status"), object["status"]["phase"].as_str()) {
        (None, _) => "has no status".to_owned(),
        (_, Some(phase)) => phase.to_owned(),
        _ => String::new(),
    }
}
