//! Putting a graph together, in order: operations, boundaries, what has to come first, what should.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use slipway_graph::{Defect, Edges, Graph, GraphBuilder, Id};
use slipway_problem::{Problem, Problems};

use super::needs::{Found, Index, even_later};
use super::{Act, Built, Category, Deployed, Op, Parts};
use crate::resource::{Settings, Stored};
use crate::stage::Stage;

/// The ids of the operations on one visit.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    pub(super) deploy: Option<Id>,
    pub(super) ready: Option<Id>,
    pub(super) gone: Option<Id>,
}

/// The part of a stage an operation is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    /// Ordered by what it waits for alone.
    Free,
    /// Once everything of a lower weight is over.
    Weight(i64),
    /// Once everything else of the stage is over.
    Last,
}

impl Slot {
    pub(super) fn of(settings: &Settings) -> Slot {
        match settings.weight {
            _ if settings.comes_last => Slot::Last,
            Some(weight) => Slot::Weight(weight),
            None => Slot::Free,
        }
    }

    fn boundary(self, stage: Stage, side: &str) -> Id {
        Id::from(match self {
            Slot::Free => format!("stage/{stage}/{side}"),
            Slot::Weight(weight) => format!("stage/{stage}/weight:{weight}/{side}"),
            Slot::Last => format!("stage/{stage}/last/{side}"),
        })
    }

    fn start(self, stage: Stage) -> Id {
        self.boundary(stage, "start")
    }

    fn end(self, stage: Stage) -> Id {
        self.boundary(stage, "end")
    }

    fn op(self, stage: Stage, act: Act) -> Op {
        let weight = match self {
            Slot::Weight(weight) => Some(weight),
            Slot::Free | Slot::Last => None,
        };
        Op { stage, weight, act }
    }
}

pub(super) struct Builder<'a> {
    pub(super) graph: GraphBuilder<Op>,
    pub(super) parts: &'a Parts<'a>,
    taken: HashMap<String, usize>,
    /// Last nodes of each container: what its end waits for.
    containers: BTreeMap<(Stage, Slot), Vec<Id>>,
    /// Operations that wait, as annotations say, for something that comes last.
    pub(super) even_later: HashSet<Id>,
}

impl<'a> Builder<'a> {
    fn new(parts: &'a Parts<'a>) -> Self {
        Self {
            graph: Graph::builder(),
            parts,
            taken: HashMap::new(),
            containers: BTreeMap::new(),
            even_later: HashSet::new(),
        }
    }

    /// A name of its own: objects of one kind's name in two groups get numbers.
    pub(super) fn id(&mut self, verb: &str, what: &str, iteration: u32) -> Id {
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

    pub(super) fn add(&mut self, id: &Id, stage: Stage, slot: Slot, act: Act, after: Option<&Id>) {
        let first = after.cloned().unwrap_or_else(|| slot.start(stage));
        self.graph.add(id.clone(), slot.op(stage, act), [first]);
        let ends = self.containers.entry((stage, slot)).or_default();
        // Only the last of a chain must be waited for.
        if let Some(position) = after.and_then(|after| ends.iter().rposition(|known| known == after)) {
            ends[position] = id.clone();
        } else {
            ends.push(id.clone());
        }
    }

    fn boundaries(&mut self) {
        let mut stages: BTreeMap<Stage, Vec<Slot>> = BTreeMap::new();
        for (stage, slot) in self.containers.keys() {
            stages.entry(*stage).or_default().push(*slot);
        }
        let mut previous: Option<Id> = None;
        for (stage, slots) in stages {
            self.graph.add(Slot::Free.start(stage), Slot::Free.op(stage, Act::Boundary), previous);
            let mut ends = self.containers.remove(&(stage, Slot::Free)).unwrap_or_default();
            let mut last = Slot::Free.start(stage);
            for slot in slots.into_iter().filter(|slot| *slot != Slot::Free) {
                let mut before = vec![last];
                if slot == Slot::Last {
                    before.extend(ends.iter().filter(|id| !self.even_later.contains(*id)).cloned());
                }
                self.graph.add(slot.start(stage), slot.op(stage, Act::Boundary), before);
                let inside = self.containers.remove(&(stage, slot)).unwrap_or_default();
                self.graph.add(slot.end(stage), slot.op(stage, Act::Boundary), inside);
                last = slot.end(stage);
            }
            ends.push(last);
            self.graph.add(Slot::Free.end(stage), Slot::Free.op(stage, Act::Boundary), ends);
            previous = Some(Slot::Free.end(stage));
        }
    }
}

/// Builds the graph. Only dependencies written by hand (and weights) can make it impossible; automatic ones
/// that contradict them are left out with a warning.
pub fn build(parts: &Parts<'_>) -> Result<Built, Problems> {
    let mut builder = Builder::new(parts);
    builder.records();
    let removed = builder.removals();
    let awaited = builder.awaited();
    let index = Index::new(parts.items.iter().map(|item| &item.resource));
    let visited = builder.items(&awaited, &even_later(parts, &index));
    builder.boundaries();

    let mut warnings = Problems::new();
    let mut needs: Vec<(Id, Id)> = Vec::new();
    let gone_index = Index::new(parts.removals.iter().map(|removal| &removal.resource));
    let found = Found { parts, index: &index, gone_index: &gone_index, visited: &visited, removed: &removed };
    for (number, item) in parts.items.iter().enumerate() {
        found.by_hand(number, item, &mut needs, &mut warnings);
    }
    found.before_removals(&mut needs);
    for (id, need) in needs {
        builder.graph.need(id, need);
    }

    let (wishes, references) = found.automatic();
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
    let mut builder = Builder::new(parts);
    if let Some(revision) = revision {
        let id = Id::from(format!("update release: v{revision} failed"));
        builder.add(&id, Stage::Init, Slot::Free, Act::FailRevision, None);
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
