//! The plan's graph: stages, weights, operations and what waits for what.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slipway_graph::{Defect, Edges, Graph, GraphBuilder, Id};
use slipway_problem::{Problem, Problems};

use crate::decide::{Decision, Follow};
use crate::resource::depends::{self, Bindings};
use crate::resource::{NeedState, Resource, Selector, Stored, human};
use crate::stage::Stage;

/// One time an object is deployed: in one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    pub stage: Stage,
    /// Counts from 0 when one object is deployed in several stages.
    pub iteration: u32,
    pub decision: Decision,
    pub follow: Follow,
    /// Something waits for it to be ready, so its failure counts whatever its annotations say.
    pub must_be_ready: bool,
}

/// An object to deploy.
#[derive(Clone, Debug)]
pub struct Deployed {
    pub resource: Resource,
    pub visits: Vec<Visit>,
    /// Whether it exists before the plan runs.
    pub exists: bool,
}

/// An object to delete because the release no longer has it.
#[derive(Clone, Debug)]
pub struct Removed {
    pub resource: Resource,
    pub stage: Stage,
}

/// Something outside of the release that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Awaited {
    pub gvk: slipway_manifest::Gvk,
    /// Empty for the release's own.
    pub namespace: String,
    pub name: String,
}

/// What is done to the release's own records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// A new revision is recorded as pending first and as deployed last.
    pub create: Option<i64>,
    /// Revisions that are no longer the deployed one.
    pub supersede: Vec<i64>,
    /// The last revision is recorded as being deleted.
    pub delete: Option<i64>,
    /// Revisions forgotten at the end.
    pub forget: Vec<i64>,
    /// The last revision stays as `uninstalled`.
    pub keep: Option<i64>,
}

/// An operation: one node of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub stage: Stage,
    pub weight: Option<i64>,
    pub act: Act,
}

/// What an operation does. Numbers point into the plan's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// The start or end of a stage or of a weight in it.
    Boundary,
    Deploy {
        item: usize,
        visit: usize,
    },
    /// Waits until it is ready.
    Ready {
        item: usize,
        visit: usize,
    },
    /// Deletes what has succeeded.
    CleanUp {
        item: usize,
        visit: usize,
    },
    CleanedUp {
        item: usize,
        visit: usize,
    },
    /// Deletes what the release no longer has.
    Remove {
        removal: usize,
    },
    Removed {
        removal: usize,
    },
    /// Waits for something outside of the release.
    Present {
        awaited: usize,
    },
    CreateRevision,
    FinishRevision,
    /// The revision under way is recorded as failed.
    FailRevision,
    Supersede {
        revision: i64,
    },
    BeginDelete {
        revision: i64,
    },
    Forget {
        revision: i64,
    },
    KeepHistory {
        revision: i64,
    },
}

/// Which part of the work an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    Meta,
    Resource,
    Track,
    Release,
}

impl Op {
    pub fn category(&self) -> Category {
        match self.act {
            Act::Boundary => Category::Meta,
            Act::Deploy { .. } | Act::CleanUp { .. } | Act::Remove { .. } => Category::Resource,
            Act::Ready { .. } | Act::CleanedUp { .. } | Act::Removed { .. } | Act::Present { .. } => {
                Category::Track
            }
            _ => Category::Release,
        }
    }
}

/// Everything a graph is built from.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    pub items: &'a [Deployed],
    pub removals: &'a [Removed],
    /// What each item waits for outside of the release.
    pub awaited: &'a [Awaited],
    pub item_awaits: &'a [Vec<usize>],
    pub records: Records,
    pub release_namespace: &'a str,
    /// Drop waits nothing comes after.
    pub no_final_tracking: bool,
    /// But not those for hooks.
    pub track_hooks: bool,
}

/// A graph and what could not be honoured in it.
#[derive(Debug)]
pub struct Built {
    pub graph: Graph<Op>,
    pub warnings: Problems,
    /// Automatic dependencies that hold, for explanations: who, whom, through which field.
    pub references: Vec<(String, String, String)>,
}

/// The ids of the operations on one visit.
#[derive(Clone, Debug, Default)]
struct Ids {
    deploy: Option<Id>,
    ready: Option<Id>,
    gone: Option<Id>,
}

struct Builder<'a> {
    graph: GraphBuilder<Op>,
    parts: &'a Parts<'a>,
    taken: HashMap<String, usize>,
    /// Last nodes of each container: what its end waits for.
    containers: BTreeMap<(Stage, Option<i64>), Vec<Id>>,
}

fn start(stage: Stage, weight: Option<i64>) -> Id {
    Id::from(match weight {
        None => format!("stage/{stage}/start"),
        Some(weight) => format!("stage/{stage}/weight:{weight}/start"),
    })
}

fn end(stage: Stage, weight: Option<i64>) -> Id {
    Id::from(match weight {
        None => format!("stage/{stage}/end"),
        Some(weight) => format!("stage/{stage}/weight:{weight}/end"),
    })
}

impl Builder<'_> {
    /// A name of its own: objects of one kind's name in two groups get numbers.
    fn id(&mut self, verb: &str, what: &str, iteration: u32) -> Id {
        let mut name = format!("{verb}: {what}");
        if iteration > 0 {
            name.push_str(&format!(" (iteration={iteration})"));
        }
        let count = self.taken.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name.push_str(&format!(" (group={count})"));
        }
        Id::from(name)
    }

    fn add(&mut self, id: &Id, stage: Stage, weight: Option<i64>, act: Act, after: Option<&Id>) {
        let first = after.cloned().unwrap_or_else(|| start(stage, weight));
        self.graph.add(id.clone(), Op { stage, weight, act }, [first]);
        let ends = self.containers.entry((stage, weight)).or_default();
        // Only the last of a chain must be waited for.
        if let Some(position) = after.and_then(|after| ends.iter().rposition(|known| known == after)) {
            ends[position] = id.clone();
        } else {
            ends.push(id.clone());
        }
    }

    fn boundaries(&mut self) {
        let mut stages: BTreeMap<Stage, Vec<i64>> = BTreeMap::new();
        for (stage, weight) in self.containers.keys() {
            stages.entry(*stage).or_default().extend(*weight);
        }
        let mut previous: Option<Id> = None;
        let boundary = |stage, weight| Op { stage, weight, act: Act::Boundary };
        for (stage, weights) in stages {
            self.graph.add(start(stage, None), boundary(stage, None), previous);
            let mut last = start(stage, None);
            for weight in weights {
                let weight = Some(weight);
                self.graph.add(start(stage, weight), boundary(stage, weight), [last]);
                let inside = self.containers.remove(&(stage, weight)).unwrap_or_default();
                self.graph.add(end(stage, weight), boundary(stage, weight), inside);
                last = end(stage, weight);
            }
            let mut ends = self.containers.remove(&(stage, None)).unwrap_or_default();
            ends.push(last);
            self.graph.add(end(stage, None), boundary(stage, None), ends);
            previous = Some(end(stage, None));
        }
    }
}

/// Builds the graph. Only dependencies written by hand (and weights) can make it impossible; automatic ones
/// that contradict them are left out with a warning.
pub fn build(parts: &Parts<'_>) -> Result<Built, Problems> {
    let mut builder =
        Builder { graph: Graph::builder(), parts, taken: HashMap::new(), containers: BTreeMap::new() };
    builder.records();
    let removed = builder.removals();
    let awaited = builder.awaited();
    let visited = builder.items(&awaited);
    builder.boundaries();

    let mut warnings = Problems::new();
    let index = Index::new(parts.items.iter().map(|item| &item.resource));
    let mut needs: Vec<(Id, Id)> = Vec::new();
    for (number, item) in parts.items.iter().enumerate() {
        manual(parts, number, item, &index, &visited, &mut needs, &mut warnings);
    }
    let gone_index = Index::new(parts.removals.iter().map(|removal| &removal.resource));
    for (number, removal) in parts.removals.iter().enumerate() {
        for need in &removal.resource.settings.delete_needs {
            for other in gone_index.find(&need.selector) {
                if other != number && parts.removals[other].stage == removal.stage {
                    needs.push((removed[number].0.clone(), removed[other].1.clone()));
                }
            }
            for other in index.find(&need.selector) {
                for (visit, ids) in parts.items[other].visits.iter().zip(&visited[other]) {
                    if visit.stage.cleanup() == removal.stage {
                        needs.extend(ids.gone.clone().map(|gone| (removed[number].0.clone(), gone)));
                    }
                }
            }
        }
    }
    for (id, need) in needs {
        builder.graph.need(id, need);
    }

    let (wishes, references) = automatic(parts, &index, &gone_index, &visited, &removed);
    for refused in builder.graph.wish(wishes) {
        warnings.push(
            Problem::warning(format!("`{}` does not wait for `{}`", refused.id, refused.need))
                .hint("weights or dependencies of the chart say otherwise"),
        );
    }
    let graph = builder.graph.try_build().map_err(|defects| cycles(parts, defects))?;
    let graph = if parts.no_final_tracking { without_final_tracking(graph, parts) } else { graph };
    Ok(Built { graph: graph.reduced(), warnings, references })
}

/// Builds what follows a failure: the revision is recorded as failed, if it was recorded at all, and visits
/// that asked for it are cleaned up.
pub fn after_failure(
    parts: &Parts<'_>,
    revision: Option<u32>,
    unready: &[(usize, usize)],
) -> Result<Graph<Op>, Problems> {
    let mut builder =
        Builder { graph: Graph::builder(), parts, taken: HashMap::new(), containers: BTreeMap::new() };
    if let Some(revision) = revision {
        let id = Id::from(format!("update release: v{revision} failed"));
        builder.add(&id, Stage::Init, None, Act::FailRevision, None);
    }
    for &(item, visit) in unready {
        let Deployed { resource, visits, .. } = &parts.items[item];
        builder.clean_up(&resource.human(), visits[visit].iteration, Stage::Uninstall, item, visit);
    }
    builder.boundaries();
    Ok(builder.graph.try_build().map_err(|defects| cycles(parts, defects))?.reduced())
}

/// Words cycles as what they are to the user, and points at the first object in them.
fn cycles(parts: &Parts<'_>, defects: Vec<Defect>) -> Problems {
    let blame = |path: &[Id], problem: Problem| {
        let named = |item: &&Deployed| {
            let what = format!(": {}", item.resource.human());
            path.iter().any(|id| id.ends_with(&what) && !id.starts_with("stage/"))
        };
        match parts.items.iter().find(named) {
            Some(Deployed { resource, .. }) => {
                let word = resource.settings.needs.first().map_or("", |need| need.annotation.as_str());
                resource.origin.blame(&resource.object, word, problem)
            }
            None => problem,
        }
    };
    let worded = defects.into_iter().map(|defect| {
        let path = match &defect {
            Defect::Cycle { path, .. } => path.clone(),
            _ => Vec::new(),
        };
        match Problem::from(defect) {
            problem if problem.hint.is_none() => {
                let hint = "weights and deploy dependencies of these objects contradict each other";
                blame(&path, problem.hint(hint))
            }
            problem => problem,
        }
    });
    worded.collect()
}

impl Builder<'_> {
    fn records(&mut self) {
        let Records { create, supersede, delete, forget, keep } = self.parts.records.clone();
        if let Some(revision) = create {
            let (first, last) =
                (Id::from("create release"), Id::from(format!("update release: v{revision} deployed")));
            self.add(&first, Stage::Init, None, Act::CreateRevision, None);
            self.add(&last, Stage::Final, None, Act::FinishRevision, None);
        }
        for revision in supersede {
            let id = Id::from(format!("update release: v{revision} superseded"));
            self.add(&id, Stage::Final, None, Act::Supersede { revision }, None);
        }
        if let Some(revision) = delete {
            let id = Id::from(format!("update release: v{revision} uninstalling"));
            self.add(&id, Stage::Init, None, Act::BeginDelete { revision }, None);
        }
        for revision in forget {
            let id = Id::from(format!("delete release: v{revision}"));
            self.add(&id, Stage::Final, None, Act::Forget { revision }, None);
        }
        if let Some(revision) = keep {
            let id = Id::from(format!("update release: v{revision} uninstalled"));
            self.add(&id, Stage::Final, None, Act::KeepHistory { revision }, None);
        }
    }

    fn removals(&mut self) -> Vec<(Id, Id)> {
        let mut ids = Vec::with_capacity(self.parts.removals.len());
        for (number, removal) in self.parts.removals.iter().enumerate() {
            let what = removal.resource.human();
            let delete = self.id("delete", &what, 0);
            let gone = self.id("track absence", &what, 0);
            self.add(&delete, removal.stage, None, Act::Remove { removal: number }, None);
            self.add(&gone, removal.stage, None, Act::Removed { removal: number }, Some(&delete));
            ids.push((delete, gone));
        }
        ids
    }

    /// Waits for what is outside, each once, in the earliest stage that needs it.
    fn awaited(&mut self) -> Vec<Option<Id>> {
        let mut first: Vec<Option<Stage>> = vec![None; self.parts.awaited.len()];
        for (item, awaits) in self.parts.items.iter().zip(self.parts.item_awaits) {
            let stages =
                item.visits.iter().filter(|visit| !visit.decision.is_none()).map(|visit| visit.stage);
            let Some(stage) = stages.min() else { continue };
            for &awaited in awaits {
                first[awaited] = Some(first[awaited].map_or(stage, |known| known.min(stage)));
            }
        }
        let mut ids = Vec::with_capacity(first.len());
        for (number, stage) in first.into_iter().enumerate() {
            let awaited = &self.parts.awaited[number];
            let id = stage.map(|stage| {
                let mut what = format!("{}/{}", awaited.gvk.kind, awaited.name);
                if !awaited.namespace.is_empty() {
                    what.push_str(&format!(" (namespace={})", awaited.namespace));
                }
                let id = self.id("track presence", &what, 0);
                self.add(&id, stage, None, Act::Present { awaited: number }, None);
                id
            });
            ids.push(id);
        }
        ids
    }

    /// Deletes what was deployed and waits until it is gone.
    fn clean_up(&mut self, what: &str, iteration: u32, stage: Stage, item: usize, visit: usize) -> Id {
        let delete = self.id("delete", what, iteration);
        let gone = self.id("track absence", what, iteration);
        self.add(&delete, stage, None, Act::CleanUp { item, visit }, None);
        self.add(&gone, stage, None, Act::CleanedUp { item, visit }, Some(&delete));
        gone
    }

    fn items(&mut self, awaited: &[Option<Id>]) -> Vec<Vec<Ids>> {
        let mut all = Vec::with_capacity(self.parts.items.len());
        for (number, item) in self.parts.items.iter().enumerate() {
            let what = item.resource.human();
            let mut visits = Vec::with_capacity(item.visits.len());
            for (at, visit) in item.visits.iter().enumerate() {
                let mut ids = Ids::default();
                let (stage, weight) = (visit.stage, item.resource.settings.weight);
                if !visit.decision.is_none() {
                    let id = self.id(visit.decision.verb(), &what, visit.iteration);
                    self.add(&id, stage, weight, Act::Deploy { item: number, visit: at }, None);
                    for external in self.parts.item_awaits.get(number).into_iter().flatten() {
                        if let Some(present) = &awaited[*external] {
                            self.graph.need(id.clone(), present.clone());
                        }
                    }
                    ids.deploy = Some(id);
                }
                if visit.follow.track {
                    let id = self.id("track readiness", &what, visit.iteration);
                    let after = ids.deploy.clone();
                    self.add(&id, stage, weight, Act::Ready { item: number, visit: at }, after.as_ref());
                    ids.ready = Some(id);
                }
                if visit.follow.delete_on_success {
                    ids.gone = Some(self.clean_up(&what, visit.iteration, stage.cleanup(), number, at));
                }
                visits.push(ids);
            }
            all.push(visits);
        }
        all
    }
}

/// Finds resources by what selectors say.
struct Index<'a> {
    resources: Vec<&'a Resource>,
    by_name: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(resources: impl Iterator<Item = &'a Resource>) -> Self {
        let resources: Vec<&Resource> = resources.collect();
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, resource) in resources.iter().enumerate() {
            by_name.entry(&resource.id.name).or_default().push(number);
        }
        Self { resources, by_name }
    }

    fn find(&self, selector: &Selector) -> Vec<usize> {
        let fits =
            |number: &usize| selector.matches(&self.resources[*number].gvk, &self.resources[*number].id);
        match &selector.name {
            Some(name) => self
                .by_name
                .get(name.as_str())
                .into_iter()
                .flatten()
                .copied()
                .filter(|number| fits(number))
                .collect(),
            None => (0..self.resources.len()).filter(fits).collect(),
        }
    }
}

fn manual(
    parts: &Parts<'_>,
    number: usize,
    item: &Deployed,
    index: &Index<'_>,
    visited: &[Vec<Ids>],
    needs: &mut Vec<(Id, Id)>,
    warnings: &mut Problems,
) {
    for need in &item.resource.settings.needs {
        let found: Vec<usize> =
            index.find(&need.selector).into_iter().filter(|other| *other != number).collect();
        let mut in_stage = false;
        for (visit, ids) in item.visits.iter().zip(&visited[number]) {
            let Some(deploy) = &ids.deploy else { continue };
            for &other in &found {
                for (theirs, their_ids) in parts.items[other].visits.iter().zip(&visited[other]) {
                    if theirs.stage != visit.stage {
                        continue;
                    }
                    in_stage = true;
                    let on = match need.state {
                        NeedState::Ready => their_ids.ready.as_ref().or(their_ids.deploy.as_ref()),
                        _ => their_ids.deploy.as_ref(),
                    };
                    needs.extend(on.map(|on| (deploy.clone(), on.clone())));
                }
            }
        }
        let deploys = visited[number].iter().any(|ids| ids.deploy.is_some());
        if deploys && !in_stage {
            let why = if found.is_empty() {
                "nothing of the release matches"
            } else {
                "what matches is deployed in another stage"
            };
            let problem = Problem::warning(format!(
                "{}: annotation `{}` ({}) has no effect: {why}",
                item.resource.human(),
                need.annotation,
                need.selector
            ));
            warnings.push(item.resource.origin.blame(&item.resource.object, &need.annotation, problem));
        }
    }
}

/// Pairs of hooks beyond which Helm's kind order is not kept within one weight.
const MOST_HOOK_PAIRS: usize = 4096;

type Wishes = (Vec<(Id, Id)>, Vec<(String, String, String)>);

fn automatic(
    parts: &Parts<'_>,
    index: &Index<'_>,
    gone_index: &Index<'_>,
    visited: &[Vec<Ids>],
    removed: &[(Id, Id)],
) -> Wishes {
    let mut wishes = Vec::new();
    let mut references = Vec::new();
    let bindings = Bindings::of(parts.items.iter().map(|item| &item.resource), parts.release_namespace);
    for (number, item) in parts.items.iter().enumerate() {
        if visited[number].iter().all(|ids| ids.deploy.is_none()) {
            continue;
        }
        for reference in depends::references(&item.resource, &bindings, parts.release_namespace) {
            for other in index.find(&reference.selector) {
                if other == number {
                    continue;
                }
                for (visit, ids) in item.visits.iter().zip(&visited[number]) {
                    for (theirs, their_ids) in parts.items[other].visits.iter().zip(&visited[other]) {
                        if let (true, Some(id), Some(need)) =
                            (visit.stage == theirs.stage, &ids.deploy, &their_ids.deploy)
                        {
                            wishes.push((id.clone(), need.clone()));
                            references.push((
                                item.resource.human(),
                                parts.items[other].resource.human(),
                                reference.field.clone(),
                            ));
                        }
                    }
                }
            }
        }
    }
    hook_order(parts, visited, &mut wishes);
    let others: Vec<&Resource> = parts.removals.iter().map(|removal| &removal.resource).collect();
    for (number, removal) in parts.removals.iter().enumerate() {
        for reference in depends::delete_references(&removal.resource, &others, parts.release_namespace) {
            for other in gone_index.find(&reference.selector) {
                if other != number && parts.removals[other].stage == removal.stage {
                    wishes.push((removed[number].0.clone(), removed[other].1.clone()));
                }
            }
        }
    }
    (wishes, references)
}

/// Hooks of one weight keep Helm's order of kinds: an account before the job that uses it.
fn hook_order(parts: &Parts<'_>, visited: &[Vec<Ids>], wishes: &mut Vec<(Id, Id)>) {
    type Ranked<'a> = BTreeMap<(usize, &'a str), Vec<&'a Id>>;
    let mut groups: BTreeMap<(Stage, i64), Ranked<'_>> = BTreeMap::new();
    for (item, visits) in parts.items.iter().zip(visited) {
        let (Stored::Hook, Some(weight)) = (item.resource.stored, item.resource.settings.weight) else {
            continue;
        };
        for (visit, ids) in item.visits.iter().zip(visits) {
            if let Some(deploy) = &ids.deploy {
                let rank = slipway_chart::install_rank(&item.resource.gvk.kind);
                groups.entry((visit.stage, weight)).or_default().entry(rank).or_default().push(deploy);
            }
        }
    }
    for ranks in groups.into_values() {
        let ranks: Vec<Vec<&Id>> = ranks.into_values().collect();
        for pair in ranks.windows(2) {
            if pair[0].len() * pair[1].len() > MOST_HOOK_PAIRS {
                continue;
            }
            for later in &pair[1] {
                wishes.extend(pair[0].iter().map(|earlier| ((*later).clone(), (*earlier).clone())));
            }
        }
    }
}

/// Takes out waits that no change comes after.
fn without_final_tracking(graph: Graph<Op>, parts: &Parts<'_>) -> Graph<Op> {
    let is_hook = |op: &Op| match op.act {
        Act::Ready { item, .. } => parts.items[item].resource.stored == Stored::Hook,
        _ => false,
    };
    let mut leads: Vec<bool> = vec![false; graph.len()];
    for node in graph.nodes().rev() {
        leads[node.position()] = node
            .dependents()
            .any(|after| leads[after.position()] || after.value().category() == Category::Resource);
    }
    let drop: BTreeSet<Id> = graph
        .nodes()
        .filter(|node| node.value().category() == Category::Track && !leads[node.position()])
        .filter(|node| !(parts.track_hooks && is_hook(node.value())))
        .map(|node| node.id().clone())
        .collect();
    graph.select(Edges::Contracted, |node| !drop.contains(node.id()))
}

/// Marks what something in the same stage waits to be ready: it is waited for whatever it says itself.
pub fn force_readiness(items: &mut [Deployed]) {
    let mut forced: Vec<(usize, Stage)> = Vec::new();
    {
        let index = Index::new(items.iter().map(|item| &item.resource));
        for (number, item) in items.iter().enumerate() {
            for need in item.resource.settings.needs.iter().filter(|need| need.state == NeedState::Ready) {
                for other in index.find(&need.selector).into_iter().filter(|other| *other != number) {
                    let stages = item.visits.iter().filter(|visit| !visit.decision.is_none());
                    forced.extend(stages.map(|visit| (other, visit.stage)));
                }
            }
        }
    }
    for (number, stage) in forced {
        let item = &mut items[number];
        if item.resource.is_crd() {
            continue;
        }
        for visit in item.visits.iter_mut().filter(|visit| visit.stage == stage) {
            if !visit.decision.is_skipped() && (item.exists || !visit.decision.is_none()) {
                visit.follow.track = true;
                visit.must_be_ready = true;
            }
        }
    }
}

/// The visits of a resource at its stages, given what was decided for the first.
pub fn visits(resource: &Resource, stages: &[Stage], decision: &Decision, follow: Follow) -> Vec<Visit> {
    let mut visits: Vec<Visit> = Vec::with_capacity(stages.len());
    for (iteration, stage) in stages.iter().enumerate() {
        let decision = match visits.last() {
            Some(before) if !decision.is_none() && before.follow.delete_on_success => Decision::Create,
            Some(_)
                if !decision.is_none()
                    && resource.settings.has(crate::resource::DeletePolicy::BeforeCreation) =>
            {
                Decision::Recreate { reason: "delete policy before-creation".to_owned() }
            }
            _ => decision.clone(),
        };
        visits.push(Visit {
            stage: *stage,
            iteration: iteration as u32,
            decision,
            follow,
            must_be_ready: false,
        });
    }
    visits
}

/// How an operation is named to people.
pub fn describe(op: &Op, parts: &Parts<'_>) -> String {
    match &op.act {
        Act::Deploy { item, .. }
        | Act::Ready { item, .. }
        | Act::CleanUp { item, .. }
        | Act::CleanedUp { item, .. } => parts.items[*item].resource.human(),
        Act::Remove { removal } | Act::Removed { removal } => human(&parts.removals[*removal].resource.id),
        _ => String::new(),
    }
}
