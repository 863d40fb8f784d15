//! A document → its plan: which steps run, and what each would do now. Only reads; with a difference asked for, dry runs too.

pub(crate) mod decision;
pub(crate) mod earlier;
pub(crate) mod look;
mod status;
mod teardown;
pub(crate) mod words;

use std::collections::BTreeMap;

use futures::StreamExt as _;
use serde::Serialize;
use slipway_cluster::ServerVersion;
use slipway_event::{Event, Redactor};
use slipway_graph::NodeRef;

pub use self::status::{KnownRecord, Status, status};
pub use self::teardown::plan_destroy;

use self::decision::{RunDecisions, SkipCode, skipped_by_when};
use self::earlier::Earlier;
use crate::context::{RunContext, SharedContext};
use crate::diff::Difference;
use crate::execute::{Command, RunError, RunOptions, graph};
use crate::hash;
use crate::model::{Document, Step};
use crate::state::{self, RunSnapshot};

/// The number of steps looked at at once.
const AT_ONCE: usize = 8;

/// The effect of a run on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepVerb {
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

impl StepVerb {
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

/// The effect of a step on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectFate {
    Create,
    Update,
    Delete,
    /// It is of a kind nobody serves yet.
    Unresolved,
}

/// Objects by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Objects(BTreeMap<ObjectFate, Vec<String>>);

impl Objects {
    pub fn of(&self, fate: ObjectFate) -> &[String] {
        self.0.get(&fate).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn add(&mut self, fate: ObjectFate, object: String) {
        self.0.entry(fate).or_default().push(object);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A condition and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct WhenResult {
    pub expr: String,
    pub result: bool,
}

/// The finding about a step.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct StepPreview {
    pub action: StepVerb,
    pub detail: String,
    #[serde(skip_serializing_if = "Objects::is_empty")]
    pub objects: Objects,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Difference>,
}

impl StepPreview {
    pub(crate) fn new(action: StepVerb, detail: impl Into<String>) -> Self {
        Self { action, detail: detail.into(), objects: Objects::default(), diff: None }
    }
}

/// A step of a plan.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepPlan {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub level: usize,
    pub needs: Vec<String>,
    /// The step in a few words.
    pub summary: String,
    /// Nothing without a cluster, unless the condition says it all.
    #[serde(flatten)]
    pub seen: Option<StepPreview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<WhenResult>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
}

impl StepPlan {
    pub fn action(&self) -> Option<StepVerb> {
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
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ClusterSeen {
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// The plan of a run; its JSON form is that of `-o json`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunbookPlan {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSeen>,
    pub offline: bool,
    /// Names by level.
    pub levels: Vec<Vec<String>>,
    /// By level, then in the order of the document.
    pub steps: Vec<StepPlan>,
    pub counts: BTreeMap<&'static str, usize>,
    /// Absent where no cluster was asked: such a plan is shown and nothing else.
    #[serde(skip)]
    decisions: Option<RunDecisions>,
}

impl RunbookPlan {
    /// Checks that the document and its record are still those the plan was made from.
    pub async fn verify(&self, document: &Document, place: RunContext<'_>) -> Result<(), RunError> {
        let decisions = self.decisions()?;
        if decisions.spec_hash != hash::document(document) {
            return Err(RunError::Stale("the runbook changed since the plan was made"));
        }
        let record = match &document.state {
            Some(state) => RunSnapshot::load(&state::open_store(place.cluster, state)).await?,
            None => None,
        };
        if record == decisions.before {
            return Ok(());
        }
        Err(RunError::Stale("another run wrote the record since the plan was made"))
    }

    /// Returns the decisions, unless the plan was made without a cluster.
    pub(crate) fn decisions(&self) -> Result<&RunDecisions, RunError> {
        let offline = || RunError::Internal("a plan made without a cluster is not executed".to_owned());
        self.decisions.as_ref().ok_or_else(offline)
    }

    pub fn step(&self, name: &str) -> Option<&StepPlan> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Tells that any step has something to show.
    pub fn has_changes(&self) -> bool {
        self.steps.iter().filter_map(StepPlan::diff).any(Difference::is_change)
    }

    /// `2 install, 1 wait`, in a fixed order.
    pub fn summary(&self) -> String {
        let order = [
            StepVerb::Install,
            StepVerb::Upgrade,
            StepVerb::Create,
            StepVerb::Configure,
            StepVerb::Delete,
            StepVerb::Restart,
            StepVerb::Run,
            StepVerb::Wait,
            StepVerb::Skip,
            StepVerb::NoOp,
            StepVerb::Unknown,
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

/// The details a plan shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    #[default]
    Actions,
    Differences,
}

/// Plans without a cluster: order, conditions, what each step says.
pub fn offline(document: &Document, redactor: &Redactor) -> Result<RunbookPlan, RunError> {
    Ok(outline(document)?.count().mask(redactor))
}

fn outline(document: &Document) -> Result<RunbookPlan, RunError> {
    let graph = graph(document)?;
    let level = |step: &Step| graph.node(&step.name).map_or(0, NodeRef::wave);
    let count = graph.nodes().next_back().map_or(0, |node| node.wave() + 1);
    let mut levels: Vec<Vec<String>> = vec![Vec::new(); count];
    let mut steps: Vec<StepPlan> = Vec::with_capacity(document.steps.len());
    for step in &document.steps {
        let level = level(step);
        levels[level].push(step.name.clone());
        let left = skipped_by_when(step);
        let when =
            step.when.as_ref().map(|when| WhenResult { expr: when.expression.clone(), result: when.holds });
        steps.push(StepPlan {
            name: step.name.clone(),
            kind: step.action.kind().to_owned(),
            level,
            needs: step.needs.clone(),
            summary: step.action.as_step().describe(),
            seen: left.map(|left| StepPreview::new(StepVerb::Skip, left.reason)),
            when,
            resumed: false,
        });
    }
    steps.sort_by_key(|step| step.level);
    let name = document.name.clone();
    Ok(RunbookPlan {
        name,
        cluster: None,
        offline: true,
        levels,
        steps,
        counts: BTreeMap::new(),
        decisions: None,
    })
}

/// Decides what a run does: which steps run and which do not. Reads the record, and asks no step.
pub async fn plan_run(
    document: &Document,
    place: RunContext<'_>,
    command: Command,
    options: &RunOptions,
) -> Result<RunbookPlan, RunError> {
    // What is asked for in vain is told before anybody is asked.
    decision::check_names(document, options)?;
    let (before, record_version) = match &document.state {
        Some(state) => {
            let store = state::open_store(place.cluster, state);
            let before = RunSnapshot::load(&store).await?;
            (before, store.version().await)
        }
        None => (None, None),
    };
    let mut decisions = RunDecisions::new(document, place.base, command, options, before);
    decisions.record_version = record_version;
    let redactor = place.events.redactor();
    for why in decisions.skipped.values_mut() {
        redactor.redact_in_place(&mut why.reason);
    }
    let mut plan = outline(document)?;
    plan.offline = false;
    for step in &mut plan.steps {
        if let Some(why) = decisions.skipped.get(&step.name) {
            step.resumed = why.code == SkipCode::Resumed;
            step.seen = Some(StepPreview::new(StepVerb::Skip, why.reason.clone()));
        }
    }
    let title = format!("{} {}", command.as_str(), document.name);
    let nodes = document.steps.len() - decisions.skipped.len();
    place.events.send(Event::PlanMade { title, nodes, changes: None });
    plan.decisions = Some(decisions);
    Ok(plan)
}

/// Plans a run and looks at what each of its steps would do now.
pub async fn plan(
    document: &Document,
    place: RunContext<'_>,
    show: Show,
    context: Option<&str>,
) -> Result<RunbookPlan, RunError> {
    let version: ServerVersion = place.cluster.server_version().await?;
    let mut plan = plan_run(document, place, Command::Apply, &RunOptions::default()).await?;
    plan.cluster = Some(ClusterSeen { version: version.to_string(), context: context.map(str::to_owned) });
    let world = SharedContext::new(place, &document.name);
    let earlier = Earlier::of(document, place.base);
    let mut seen: BTreeMap<String, StepPreview> = BTreeMap::new();
    let skipped = &plan.decisions()?.skipped;
    let open: Vec<&Step> = document.steps.iter().filter(|step| !skipped.contains_key(&step.name)).collect();
    let looks = open.into_iter().map(|step| {
        let (world, earlier) = (&world, &earlier);
        async move { (step.name.clone(), look::at(world, step, show, earlier).await) }
    });
    let mut looks = futures::stream::iter(looks).buffer_unordered(AT_ONCE);
    while let Some((name, found)) = looks.next().await {
        seen.insert(name, found);
    }
    for step in &mut plan.steps {
        if let Some(found) = seen.remove(&step.name) {
            step.seen = Some(found);
        }
    }
    Ok(plan.count().mask(place.events.redactor()))
}
