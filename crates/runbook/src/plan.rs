//! What each step would do now, and why. Only reads; with a difference asked for, dry runs too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Serialize;
use serde_json::Value;
use slipway_cluster::helm::{Driver, Storage};
use slipway_cluster::{At, ServerVersion};
use slipway_graph::NodeRef;
use slipway_manifest::{Gvk, object};
use tokio_util::sync::CancellationToken;

use crate::diff::{self, Difference};
use crate::error::StepError;
use crate::model::{
    Action, Apply, Delete, Document, Helm, Job, ManifestSource, Patch, Rollout, RolloutVerb, Step, Wait,
};
use crate::run::{self, RESUMED, RunError, graph};
use crate::state::{Record, Store};
use crate::steps::{delete, helm, irreversible, job, rollout, wait};
use crate::world::{Attempt, Found, Place, World, shown};
use crate::{hash, manifests};

/// How long looking at one step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take with a difference.
const PATIENCE_WITH_DIFF: Duration = Duration::from_secs(120);
/// How many steps are looked at at once.
const AT_ONCE: usize = 8;
/// How many objects a detail names.
const NAMED: usize = 3;

/// What would happen to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    Install,
    Upgrade,
    Create,
    Configure,
    Delete,
    Restart,
    Run,
    Wait,
    Skip,
    NoOp,
    Unknown,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Create => "create",
            Self::Configure => "configure",
            Self::Delete => "delete",
            Self::Restart => "restart",
            Self::Run => "run",
            Self::Wait => "wait",
            Self::Skip => "skip",
            Self::NoOp => "no-op",
            Self::Unknown => "unknown",
        }
    }
}

/// Objects by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Objects {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub create: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<String>,
    /// Of kinds nobody serves yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<String>,
}

/// A condition and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhenResult {
    pub expr: String,
    pub result: bool,
}

/// What would happen to one step.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepPlan {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub level: usize,
    pub needs: Vec<String>,
    /// What the step says, in a few words.
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Verb>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<Objects>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<WhenResult>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Difference>,
}

/// The cluster a plan is for.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterSeen {
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// What a run would do; its JSON form is that of `-o json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSeen>,
    pub offline: bool,
    /// Names by level.
    pub levels: Vec<Vec<String>>,
    /// By level, then in the order of the document.
    pub steps: Vec<StepPlan>,
    pub counts: BTreeMap<&'static str, usize>,
}

impl Plan {
    pub fn step(&self, name: &str) -> Option<&StepPlan> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Whether any step has something to show.
    pub fn has_changes(&self) -> bool {
        self.steps.iter().any(|step| step.diff.as_ref().is_some_and(Difference::is_change))
    }

    /// `2 install, 1 wait`, in a fixed order.
    pub fn summary(&self) -> String {
        let order = [
            Verb::Install,
            Verb::Upgrade,
            Verb::Create,
            Verb::Configure,
            Verb::Delete,
            Verb::Restart,
            Verb::Run,
            Verb::Wait,
            Verb::Skip,
            Verb::NoOp,
            Verb::Unknown,
        ];
        let words = order.iter().filter_map(|verb| {
            let count = self.counts.get(verb.as_str())?;
            Some(format!("{count} {}", verb.as_str()))
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn count(mut self) -> Self {
        for verb in self.steps.iter().filter_map(|step| step.action) {
            *self.counts.entry(verb.as_str()).or_default() += 1;
        }
        self
    }
}

/// Whether differences are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    #[default]
    Actions,
    Differences,
}

/// What can be said without a cluster: order, conditions, what each step says.
pub fn offline(document: &Document) -> Result<Plan, RunError> {
    Ok(outline(document)?.count())
}

fn outline(document: &Document) -> Result<Plan, RunError> {
    let graph = graph(document)?;
    let level = |step: &Step| graph.node(&step.name).map_or(0, NodeRef::wave);
    let count = graph.nodes().next_back().map_or(0, |node| node.wave() + 1);
    let mut levels: Vec<Vec<String>> = vec![Vec::new(); count];
    let mut steps: Vec<StepPlan> = Vec::with_capacity(document.steps.len());
    for step in &document.steps {
        let level = level(step);
        levels[level].push(step.name.clone());
        let left = run::left_by_when(step);
        let when =
            step.when.as_ref().map(|when| WhenResult { expr: when.expression.clone(), result: when.holds });
        steps.push(StepPlan {
            name: step.name.clone(),
            kind: step.action.kind().to_owned(),
            level,
            needs: step.needs.clone(),
            summary: summary(&step.action),
            action: left.as_ref().map(|_| Verb::Skip),
            detail: left.map(|left| left.reason),
            objects: None,
            when,
            resumed: false,
            diff: None,
        });
    }
    steps.sort_by_key(|step| step.level);
    let name = document.name.clone();
    Ok(Plan { name, cluster: None, offline: true, levels, steps, counts: BTreeMap::new() })
}

/// What a run would do now.
pub async fn plan(
    document: &Document,
    place: Place<'_>,
    show: Show,
    context: Option<&str>,
) -> Result<Plan, RunError> {
    let mut plan = outline(document)?;
    let version: ServerVersion =
        place.cluster.version().await.map_err(|error| RunError::Internal(error.to_string()))?;
    plan.offline = false;
    plan.cluster = Some(ClusterSeen { version: version.to_string(), context: context.map(str::to_owned) });
    let record = match &document.state {
        Some(state) => Store::new(place.cluster, state).load().await?,
        None => None,
    };
    let done = if document.state.is_some() {
        run::resumable(document, record.as_ref(), &run::hashes(document, place.base))
    } else {
        BTreeSet::new()
    };
    let world = World::new(place, &document.name);
    let earlier = Earlier::of(document, place.base);
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let open: Vec<&Step> = document
        .steps
        .iter()
        .filter(|step| run::left_by_when(step).is_none() && !done.contains(&step.name))
        .collect();
    let looks = open.into_iter().map(|step| {
        let (world, earlier) = (&world, &earlier);
        async move { (step.name.clone(), look(world, step, show, earlier).await) }
    });
    let mut looks = futures::stream::iter(looks).buffer_unordered(AT_ONCE);
    while let Some((name, found)) = looks.next().await {
        seen.insert(name, found);
    }
    for step in &mut plan.steps {
        if done.contains(&step.name) {
            (step.action, step.detail, step.resumed) = (Some(Verb::Skip), Some(RESUMED.to_owned()), true);
        } else if let Some(found) = seen.remove(&step.name) {
            let redactor = place.events.redactor();
            step.action = Some(found.verb);
            step.detail = Some(redactor.redact(&found.detail).into_owned());
            step.objects = found.objects;
            step.diff = found.diff.map(|diff| diff.redacted(redactor));
        }
    }
    for step in &mut plan.steps {
        step.summary = place.events.redactor().redact(&step.summary).into_owned();
    }
    Ok(plan.count())
}

/// What a destroy would do.
pub async fn plan_destroy(document: &Document, place: Place<'_>) -> Result<Plan, RunError> {
    let mut plan = outline(document)?;
    plan.offline = false;
    let world = World::new(place, &document.name);
    for step in &document.steps {
        let Some(told) = plan.steps.iter_mut().find(|told| told.name == step.name) else { continue };
        if told.action.is_some() {
            continue;
        }
        let (verb, detail) = match irreversible(&step.action) {
            Some(why) => (Verb::Skip, why.to_owned()),
            None => match doomed(&world, step).await {
                Ok(objects) if objects.is_empty() => (Verb::NoOp, "nothing is there".to_owned()),
                Ok(objects) => (Verb::Delete, listed(&objects)),
                Err(error) => (Verb::Unknown, error.to_string()),
            },
        };
        told.action = Some(verb);
        told.detail = Some(place.events.redactor().redact(&detail).into_owned());
    }
    plan.levels.reverse();
    let last = plan.levels.len().saturating_sub(1);
    for step in &mut plan.steps {
        step.level = last - step.level;
    }
    plan.steps.sort_by_key(|step| step.level);
    Ok(plan.count())
}

/// What of a step is there to be taken away.
async fn doomed(world: &World<'_>, step: &Step) -> Result<Vec<String>, StepError> {
    match &step.action {
        Action::Helm(helm) => {
            let storage = Storage::new(world.cluster().clone(), Driver::Secret, helm.namespace.as_str());
            let known = !storage.revisions(&helm.release).await?.is_empty();
            Ok(known.then(|| format!("release {}@{}", helm.release, helm.namespace)).into_iter().collect())
        }
        Action::Apply(apply) => {
            let objects = manifests::load(&apply.manifests, world.place.base, world.place.remote).await?;
            let mut found = Vec::new();
            for object in objects.iter().rev() {
                let Some(kind) = world.kind(&object::gvk(object)).await? else { continue };
                let at = At::of(object, apply.namespace.as_deref().unwrap_or("default"), &kind);
                if world.cluster().get(&at).await?.is_some() {
                    found.push(shown(&at));
                }
            }
            Ok(found)
        }
        Action::Job(own) => {
            let at = job::place(own, &step.name);
            match world.cluster().get(&at).await? {
                Some(live) if job::is_foreign(&live) => Err(job::foreign(&at)),
                Some(_) => Ok(vec![shown(&at)]),
                None => Ok(Vec::new()),
            }
        }
        _ => Ok(Vec::new()),
    }
}

/// What steps bring that others may need: kinds and namespaces.
struct Earlier {
    kinds: BTreeSet<Gvk>,
    namespaces: BTreeSet<String>,
    /// Charts may bring anything.
    charts: bool,
}

impl Earlier {
    fn of(document: &Document, base: &Path) -> Self {
        let mut earlier = Self { kinds: BTreeSet::new(), namespaces: BTreeSet::new(), charts: false };
        for step in document.steps.iter().filter(|step| run::left_by_when(step).is_none()) {
            match &step.action {
                Action::Helm(helm) => {
                    earlier.charts = true;
                    earlier.namespaces.extend(helm.create_namespace.then(|| helm.namespace.clone()));
                }
                Action::Apply(apply) => {
                    if let (true, Some(namespace)) = (apply.create_namespace, &apply.namespace) {
                        earlier.namespaces.insert(namespace.clone());
                    }
                    for object in local_objects(&apply.manifests, base) {
                        let gvk = object::gvk(&object);
                        if gvk.kind == "CustomResourceDefinition" {
                            earlier.kinds.extend(slipway_cluster::crd::served_kinds(&object));
                        } else if gvk.kind == "Namespace" {
                            earlier.namespaces.extend(object::name(&object).map(str::to_owned));
                        }
                    }
                }
                Action::Job(job) if job.create_namespace => {
                    earlier.namespaces.insert(job.namespace.clone());
                }
                _ => {}
            }
        }
        earlier
    }
}

/// Objects of sources that need no network.
fn local_objects(sources: &[ManifestSource], base: &Path) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut problems = slipway_problem::Problems::new();
    for source in sources {
        match source {
            ManifestSource::Inline { text, at } => {
                manifests::read(text, &at.file, &mut objects, &mut problems);
            }
            ManifestSource::File(path) => {
                if let Ok(text) = std::fs::read_to_string(base.join(path)) {
                    manifests::read(&text, path, &mut objects, &mut problems);
                }
            }
            ManifestSource::Url(_) | ManifestSource::Kustomize(_) => {}
        }
    }
    object::expand_lists(objects)
}

/// What was found out about a step.
struct Seen {
    verb: Verb,
    detail: String,
    objects: Option<Objects>,
    diff: Option<Difference>,
}

impl Seen {
    fn new(verb: Verb, detail: impl Into<String>) -> Self {
        Self { verb, detail: detail.into(), objects: None, diff: None }
    }
}

async fn look(world: &World<'_>, step: &Step, show: Show, earlier: &Earlier) -> Seen {
    let patience = if show == Show::Differences { PATIENCE_WITH_DIFF } else { PATIENCE };
    let attempt = Attempt::new(world, step, CancellationToken::new(), None);
    let work = async {
        match &step.action {
            Action::Helm(helm) => look_helm(&attempt, helm, show, earlier).await,
            Action::Apply(apply) => look_apply(&attempt, apply, show, earlier).await,
            Action::Delete(delete) => look_delete(&attempt, delete).await,
            Action::Patch(patch) => look_patch(&attempt, patch, show).await,
            Action::Wait(wait) => look_wait(&attempt, wait).await,
            Action::Rollout(rollout) => look_rollout(&attempt, rollout).await,
            Action::Job(job) => look_job(&attempt, job).await,
        }
    };
    match tokio::time::timeout(patience, work).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => {
            let mut seen = Seen::new(Verb::Unknown, first_line(&error.message));
            if show == Show::Differences {
                seen.diff = Some(Difference::unavailable(first_line(&error.message)));
            }
            seen
        }
        Err(_) => Seen::new(Verb::Unknown, format!("looking took longer than {} s", patience.as_secs())),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        text.push_str(&format!(" +{}", names.len() - NAMED));
    }
    text
}

async fn namespace_note(
    attempt: &Attempt<'_>,
    name: &str,
    creates: bool,
    earlier: &Earlier,
) -> Result<String, StepError> {
    let at = At::new(Gvk::new("", "v1", "Namespace"), None, name);
    let exists = attempt.cluster().get(&at).await.map(|live| live.is_some()).unwrap_or(true);
    Ok(if exists {
        "namespace exists".to_owned()
    } else if creates {
        format!("creates namespace {name}")
    } else if earlier.namespaces.contains(name) {
        format!("namespace {name} comes in another step")
    } else {
        format!("namespace {name} is missing")
    })
}

async fn look_helm(
    attempt: &Attempt<'_>,
    helm: &Helm,
    show: Show,
    earlier: &Earlier,
) -> Result<Seen, StepError> {
    let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, helm.namespace.as_str());
    let history = storage.history(&helm.release).await?;
    let namespace = namespace_note(attempt, &helm.namespace, helm.create_namespace, earlier).await?;
    let last = history.last().map(|last| {
        let (chart, version) = (last.chart.name().to_owned(), last.chart.version().to_owned());
        format!("revision {} {chart}-{version} {}", last.version, last.info.status)
    });
    let mut seen = match helm::decide(&history, helm) {
        helm::Decision::Skip => {
            return Ok(Seen::new(Verb::Skip, format!("{} (skipIf: installed)", last.unwrap_or_default())));
        }
        helm::Decision::Install => Seen::new(Verb::Install, format!("no release yet; {namespace}")),
        helm::Decision::Upgrade => {
            Seen::new(Verb::Upgrade, format!("{} → {}", last.unwrap_or_default(), helm.chart))
        }
        helm::Decision::Pending(status, _) => {
            Seen::new(Verb::Upgrade, format!("{} was left {status}; {namespace}", last.unwrap_or_default()))
        }
    };
    if show == Show::Differences {
        seen.diff = Some(diff::of_release(attempt, helm).await);
    }
    Ok(seen)
}

async fn look_apply(
    attempt: &Attempt<'_>,
    apply: &Apply,
    show: Show,
    earlier: &Earlier,
) -> Result<Seen, StepError> {
    let place = attempt.world.place;
    let objects = manifests::load(&apply.manifests, place.base, place.remote).await?;
    let namespace = apply.namespace.as_deref().unwrap_or("default");
    let mut told = Objects::default();
    let mut pairs: Vec<(&Value, Option<At>, Option<Value>)> = Vec::new();
    let mut missing = None;
    for object in &objects {
        let gvk = object::gvk(object);
        let Some(kind) = attempt.cluster().kind(&gvk).await? else {
            let comes = earlier.kinds.contains(&gvk) || earlier.charts;
            let note = if comes { "may arrive in an earlier step" } else { "no step brings it" };
            missing.get_or_insert(format!("kind {} not served yet ({note})", gvk.kind));
            told.unresolved.push(format!(
                "{}/{}",
                gvk.kind.to_lowercase(),
                object::name(object).unwrap_or_default()
            ));
            pairs.push((object, None, None));
            continue;
        };
        let at = At::of(object, namespace, &kind);
        let live = attempt.cluster().get(&at).await?;
        match &live {
            Some(_) => told.update.push(shown(&at)),
            None => told.create.push(shown(&at)),
        }
        pairs.push((object, Some(at), live));
    }
    let all_exist = told.create.is_empty() && told.unresolved.is_empty();
    let mut seen = if apply.skip_if_exists && all_exist {
        return Ok(Seen {
            objects: None,
            ..Seen::new(Verb::Skip, format!("all {} objects exist (skipIf: exists)", objects.len()))
        });
    } else if let Some(missing) = missing {
        Seen::new(Verb::Unknown, missing)
    } else if told.update.is_empty() {
        Seen::new(Verb::Create, listed(&told.create))
    } else if told.create.is_empty() {
        Seen::new(Verb::Configure, listed(&told.update))
    } else {
        Seen::new(Verb::Configure, format!("{}; creates {}", listed(&told.update), listed(&told.create)))
    };
    if show == Show::Differences {
        seen.diff = Some(diff::of_objects(attempt, apply, &pairs).await);
    }
    seen.objects = Some(told);
    Ok(seen)
}

async fn look_delete(attempt: &Attempt<'_>, delete: &Delete) -> Result<Seen, StepError> {
    let names = match delete {
        Delete::Manifests { manifests: sources, namespace, .. } => {
            let place = attempt.world.place;
            let mut found = Vec::new();
            for object in manifests::load(sources, place.base, place.remote).await? {
                let Some(kind) = attempt.cluster().kind(&object::gvk(&object)).await? else { continue };
                let at = At::of(&object, namespace.as_deref().unwrap_or("default"), &kind);
                if attempt.cluster().get(&at).await?.is_some() {
                    found.push(shown(&at));
                }
            }
            found
        }
        Delete::Resource { selection, .. } => match attempt.select(selection, &mut None).await? {
            Found::NoKind => {
                return Ok(Seen::new(Verb::Unknown, format!("type {} is not served", selection.kind)));
            }
            Found::Objects(_, objects) => objects.iter().map(crate::world::describe).collect(),
        },
        Delete::Release { release, namespace, .. } => {
            let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, namespace.as_str());
            let known = !storage.revisions(release).await?.is_empty();
            known.then(|| format!("release {release}@{namespace}")).into_iter().collect()
        }
    };
    let ignore = match delete {
        Delete::Manifests { ignore_not_found, .. }
        | Delete::Resource { ignore_not_found, .. }
        | Delete::Release { ignore_not_found, .. } => *ignore_not_found,
    };
    Ok(match names.len() {
        0 if ignore => Seen::new(Verb::NoOp, "nothing is there"),
        0 => Seen::new(Verb::Unknown, "nothing is there, which fails with ignoreNotFound: false"),
        1 => Seen {
            objects: Some(Objects { delete: names.clone(), ..Objects::default() }),
            ..Seen::new(Verb::Delete, names[0].clone())
        },
        count => {
            let detail = format!("{count} objects: {}", listed(&names));
            Seen {
                objects: Some(Objects { delete: names, ..Objects::default() }),
                ..Seen::new(Verb::Delete, detail)
            }
        }
    })
}

async fn look_patch(attempt: &Attempt<'_>, patch: &Patch, show: Show) -> Result<Seen, StepError> {
    let Some(kind) = attempt.world.named(&patch.kind).await? else {
        return Ok(Seen::new(Verb::Unknown, format!("type {} is not served yet", patch.kind)));
    };
    let at =
        At::new(kind.gvk.clone(), kind.namespaced.then_some(patch.namespace.as_str()), patch.name.as_str());
    let Some(live) = attempt.cluster().get(&at).await? else {
        return Ok(Seen::new(Verb::Unknown, format!("{} is not there yet", shown(&at))));
    };
    let mut seen = Seen::new(Verb::Configure, shown(&at));
    if show == Show::Differences {
        seen.diff = Some(diff::of_patch(attempt, patch, &at, &live).await);
    }
    Ok(seen)
}

async fn look_wait(attempt: &Attempt<'_>, wait: &Wait) -> Result<Seen, StepError> {
    let condition = wait::condition(&wait.until)?;
    let found = attempt.select(&wait.on, &mut None).await?;
    Ok(match wait::judge(&condition, &found, wait) {
        wait::Verdict::Holds(note) => Seen::new(Verb::NoOp, note),
        wait::Verdict::Waits(what, _) => Seen::new(Verb::Wait, what),
    })
}

async fn look_rollout(attempt: &Attempt<'_>, own: &Rollout) -> Result<Seen, StepError> {
    let at = rollout::place(own);
    let live = attempt.cluster().get(&at).await?;
    Ok(match (own.what, live) {
        (RolloutVerb::Restart, Some(_)) => Seen::new(Verb::Restart, shown(&at)),
        (RolloutVerb::Restart, None) => Seen::new(Verb::Unknown, format!("{} is not there yet", shown(&at))),
        (RolloutVerb::Status, None) => Seen::new(Verb::Wait, format!("{} is not there yet", shown(&at))),
        (RolloutVerb::Status, Some(live)) => match rollout::progress(&live) {
            rollout::Progress::Complete => Seen::new(Verb::NoOp, format!("{} is rolled out", shown(&at))),
            rollout::Progress::Waits(why) => Seen::new(Verb::Wait, why),
            rollout::Progress::Stuck(why) | rollout::Progress::Never(why) => Seen::new(Verb::Unknown, why),
        },
    })
}

async fn look_job(attempt: &Attempt<'_>, own: &Job) -> Result<Seen, StepError> {
    let at = job::place(own, &attempt.step.name);
    Ok(match attempt.cluster().get(&at).await? {
        None => Seen::new(Verb::Run, "first run"),
        Some(live) if job::is_foreign(&live) => {
            Seen::new(Verb::Unknown, format!("{} is not managed by khook: apply would fail", shown(&at)))
        }
        Some(live) if own.skip_if_succeeded && job::is_complete(&live) => {
            Seen::new(Verb::Skip, "it has succeeded (skipIf: succeeded)")
        }
        Some(_) => Seen::new(Verb::Run, format!("replaces {}", shown(&at))),
    })
}

/// What a step says, in a few words; never a credential.
fn summary(action: &Action) -> String {
    let sources = |count: usize| format!("{count} source{}", if count == 1 { "" } else { "s" });
    match action {
        Action::Helm(helm) => format!("{} -> {}", helm.chart, helm.namespace),
        Action::Apply(apply) => match &apply.namespace {
            Some(namespace) => format!("{} -> {namespace}", sources(apply.manifests.len())),
            None => sources(apply.manifests.len()),
        },
        Action::Delete(Delete::Manifests { manifests, .. }) => sources(manifests.len()),
        Action::Delete(Delete::Resource { selection, .. }) => {
            format!("{}{}", delete::named(selection), scope(selection))
        }
        Action::Delete(Delete::Release { release, namespace, .. }) => {
            format!("release {release}@{namespace}")
        }
        Action::Patch(patch) => format!("{}/{}", patch.kind, patch.name),
        Action::Wait(wait) => format!("{} on {}{}", wait.until, delete::named(&wait.on), scope(&wait.on)),
        Action::Rollout(own) => {
            let verb = if own.what == RolloutVerb::Restart { "restart" } else { "status of" };
            format!("{verb} {}", shown(&rollout::place(own)))
        }
        Action::Job(job) => job.image.clone(),
    }
}

fn scope(selection: &crate::model::Selection) -> String {
    match (&selection.namespace, selection.all_namespaces) {
        (_, true) => ", all namespaces".to_owned(),
        (Some(namespace), _) => format!(", namespace {namespace}"),
        (None, _) => String::new(),
    }
}

/// What the record says about a document.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub found: bool,
    #[serde(skip)]
    pub secret: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_changed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumable_steps: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_steps: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
}

/// Reads the record and says what the next run would leave out; nothing if the document keeps none.
pub async fn status(document: &Document, place: Place<'_>) -> Result<Option<Status>, RunError> {
    let Some(state) = &document.state else { return Ok(None) };
    let store = Store::new(place.cluster, state);
    let mut status = Status {
        found: false,
        secret: store.place(),
        spec_changed: None,
        resumable_steps: None,
        changed_steps: None,
        record: None,
    };
    let Some(record) = store.load().await? else { return Ok(Some(status)) };
    let hashes = run::hashes(document, place.base);
    let done = run::resumable(document, Some(&record), &hashes);
    let in_order = |wanted: &dyn Fn(&Step) -> bool| -> Vec<String> {
        document.steps.iter().filter(|step| wanted(step)).map(|step| step.name.clone()).collect()
    };
    status.found = true;
    status.spec_changed = Some(record.spec_hash != hash::document(document));
    status.resumable_steps = Some(in_order(&|step| done.contains(&step.name)));
    status.changed_steps = Some(in_order(&|step| {
        let known = record.step(&step.name);
        known.is_some_and(|entry| {
            entry.input_hash.is_some() && hashes.get(&step.name).is_some_and(|hash| *hash != entry.input_hash)
        })
    }));
    status.record = Some(record);
    Ok(Some(status))
}
