//! What each step would do now, and why. Only reads; with a difference asked for, dry runs too.

pub(crate) mod earlier;
pub(crate) mod look;
mod status;
mod teardown;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use serde::Serialize;
use slipway_cluster::ServerVersion;
use slipway_event::Redactor;
use slipway_graph::NodeRef;

pub use self::status::{Known, Status, status};
pub use self::teardown::plan_destroy;

use self::earlier::Earlier;
use crate::context::{RunContext, SharedContext};
use crate::diff::Difference;
use crate::model::{Document, Step};
use crate::run::{self, RESUMED, RunError, graph};
use crate::state::{self, RunSnapshot};

/// How many steps are looked at at once.
const AT_ONCE: usize = 8;

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

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    Create,
    Update,
    Delete,
    /// It is of a kind nobody serves yet.
    Unresolved,
}

/// Objects by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Objects(BTreeMap<Fate, Vec<String>>);

impl Objects {
    pub fn of(&self, fate: Fate) -> &[String] {
        self.0.get(&fate).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn add(&mut self, fate: Fate, object: String) {
        self.0.entry(fate).or_default().push(object);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A condition and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhenResult {
    pub expr: String,
    pub result: bool,
}

/// What was found out about a step.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    pub action: Verb,
    pub detail: String,
    #[serde(skip_serializing_if = "Objects::is_empty")]
    pub objects: Objects,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Difference>,
}

impl Seen {
    pub(crate) fn new(action: Verb, detail: impl Into<String>) -> Self {
        Self { action, detail: detail.into(), objects: Objects::default(), diff: None }
    }
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
    /// Nothing without a cluster, unless the condition says it all.
    #[serde(flatten)]
    pub seen: Option<Seen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<WhenResult>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
}

impl StepPlan {
    pub fn action(&self) -> Option<Verb> {
        self.seen.as_ref().map(|seen| seen.action)
    }

    pub fn detail(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| seen.detail.as_str())
    }

    pub fn diff(&self) -> Option<&Difference> {
        self.seen.as_ref()?.diff.as_ref()
    }
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
        self.steps.iter().filter_map(StepPlan::diff).any(Difference::is_change)
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

    /// Masks every text that is not one of the format's own words.
    fn mask(mut self, redactor: &Redactor) -> Self {
        let mask = |text: &mut String| redactor.redact_in_place(text);
        mask(&mut self.name);
        if let Some(cluster) = &mut self.cluster {
            cluster.context.iter_mut().for_each(mask);
        }
        self.levels.iter_mut().flatten().for_each(mask);
        for step in &mut self.steps {
            mask(&mut step.name);
            mask(&mut step.summary);
            step.needs.iter_mut().for_each(mask);
            if let Some(when) = &mut step.when {
                mask(&mut when.expr);
            }
            if let Some(seen) = &mut step.seen {
                mask(&mut seen.detail);
                seen.objects.0.values_mut().flatten().for_each(mask);
                seen.diff = seen.diff.take().map(|diff| diff.redacted(redactor));
            }
        }
        self
    }

    fn count(mut self) -> Self {
        for verb in self.steps.iter().filter_map(StepPlan::action) {
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
pub fn offline(document: &Document, redactor: &Redactor) -> Result<Plan, RunError> {
    Ok(outline(document)?.count().mask(redactor))
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
        let left = run::skipped_by_when(step);
        let when =
            step.when.as_ref().map(|when| WhenResult { expr: when.expression.clone(), result: when.holds });
        steps.push(StepPlan {
            name: step.name.clone(),
            kind: step.action.kind().to_owned(),
            level,
            needs: step.needs.clone(),
            summary: step.action.as_step().describe(),
            seen: left.map(|left| Seen::new(Verb::Skip, left.reason)),
            when,
            resumed: false,
        });
    }
    steps.sort_by_key(|step| step.level);
    let name = document.name.clone();
    Ok(Plan { name, cluster: None, offline: true, levels, steps, counts: BTreeMap::new() })
}

/// What a run would do now.
pub async fn plan(
    document: &Document,
    place: RunContext<'_>,
    show: Show,
    context: Option<&str>,
) -> Result<Plan, RunError> {
    let mut plan = outline(document)?;
    let version: ServerVersion =
        place.cluster.version().await.map_err(|error| RunError::Internal(error.to_string()))?;
    plan.offline = false;
    plan.cluster = Some(ClusterSeen { version: version.to_string(), context: context.map(str::to_owned) });
    let record = match &document.state {
        Some(state) => RunSnapshot::load(&state::open_store(place.cluster, state)).await?,
        None => None,
    };
    let done = if document.state.is_some() {
        run::resumable(document, record.as_ref(), &run::hashes(document, place.base))
    } else {
        BTreeSet::new()
    };
    let world = SharedContext::new(place, &document.name);
    let earlier = Earlier::of(document, place.base);
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let open: Vec<&Step> = document
        .steps
        .iter()
        .filter(|step| run::skipped_by_when(step).is_none() && !done.contains(&step.name))
        .collect();
    let looks = open.into_iter().map(|step| {
        let (world, earlier) = (&world, &earlier);
        async move { (step.name.clone(), look::at(world, step, show, earlier).await) }
    });
    let mut looks = futures::stream::iter(looks).buffer_unordered(AT_ONCE);
    while let Some((name, found)) = looks.next().await {
        seen.insert(name, found);
    }
    for step in &mut plan.steps {
        if done.contains(&step.name) {
            (step.seen, step.resumed) = (Some(Seen::new(Verb::Skip, RESUMED)), true);
        } else if let Some(found) = seen.remove(&step.name) {
            step.seen = Some(found);
        }
    }
    Ok(plan.count().mask(place.events.redactor()))
}
