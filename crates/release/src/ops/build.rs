//! Putting a graph together, in order: operations, boundaries, what has to come first, what should.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slipway_graph::{Defect, Edges, Graph, GraphBuilder, Id};
use slipway_problem::{Problem, Problems};

use super::needs::{Found, Index};
use super::{Act, Built, Category, Deployed, Op, Parts};
use crate::resource::Stored;
use crate::stage::Stage;

/// The ids of the operations on one visit.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    pub(super) deploy: Option<Id>,
    pub(super) ready: Option<Id>,
    pub(super) gone: Option<Id>,
}

pub(super) struct Builder<'a> {
    pub(super) graph: GraphBuilder<Op>,
    pub(super) parts: &'a Parts<'a>,
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

    pub(super) fn add(&mut self, id: &Id, stage: Stage, weight: Option<i64>, act: Act, after: Option<&Id>) {
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
