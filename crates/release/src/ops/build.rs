//! Putting a graph together, in order: operations, boundaries, what has to come first, what should.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use slipway_graph::{Defect, Graph, GraphBuilder, Id, KeptEdges};
use slipway_problem::{Problem, Problems};

use super::needs::{DependencyFinder, ResourceIndex, even_later};
use super::{GraphInput, Operation, OperationCategory, OperationKind, PlannedGraph};
use crate::name::Revision;
use crate::plan::{
    DeletionIndex, Indexed, ObjectIndex, PlannedDeletion, PlannedObject, PlannedVisit, VisitIndex, indexed,
};
use crate::resource::{RecordPart, ResourceSettings};
use crate::stage::Stage;

/// An object with the operations on each of its visits.
#[derive(Debug)]
pub(super) struct ObjectNodes<'a> {
    pub(super) object: &'a PlannedObject,
    pub(super) visits: Vec<VisitNodes<'a>>,
}

impl ObjectNodes<'_> {
    /// Tells that some visit changes the object.
    pub(super) fn is_deployed(&self) -> bool {
        self.visits.iter().any(|nodes| nodes.deploy.is_some())
    }
}

/// The operations on one visit.
#[derive(Debug)]
pub(super) struct VisitNodes<'a> {
    pub(super) visit: &'a PlannedVisit,
    pub(super) deploy: Option<Id>,
    pub(super) ready: Option<Id>,
    pub(super) gone: Option<Id>,
}

/// The operations on an object that is deleted.
#[derive(Debug)]
pub(super) struct DeletionNodes<'a> {
    pub(super) deletion: &'a PlannedDeletion,
    pub(super) delete: Id,
    pub(super) gone: Id,
}

indexed!(ObjectNodes<'a>, ObjectIndex, 'a);
indexed!(DeletionNodes<'a>, DeletionIndex, 'a);

/// The part of a stage an operation is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StageSlot {
    /// Ordered by what it waits for alone.
    Free,
    /// Once everything of a lower weight is over.
    Weight(i64),
    /// Once everything else of the stage is over.
    Last,
}

impl StageSlot {
    pub(super) fn from_settings(settings: &ResourceSettings) -> StageSlot {
        match settings.weight {
            _ if settings.comes_last => StageSlot::Last,
            Some(weight) => StageSlot::Weight(weight),
            None => StageSlot::Free,
        }
    }

    fn boundary_id(self, stage: Stage, side: &str) -> Id {
        Id::from(match self {
            StageSlot::Free => format!("stage/{stage}/{side}"),
            StageSlot::Weight(weight) => format!("stage/{stage}/weight:{weight}/{side}"),
            StageSlot::Last => format!("stage/{stage}/last/{side}"),
        })
    }

    fn start_id(self, stage: Stage) -> Id {
        self.boundary_id(stage, "start")
    }

    fn end_id(self, stage: Stage) -> Id {
        self.boundary_id(stage, "end")
    }

    fn new_operation(self, stage: Stage, kind: OperationKind) -> Operation {
        let weight = match self {
            StageSlot::Weight(weight) => Some(weight),
            StageSlot::Free | StageSlot::Last => None,
        };
        Operation { stage, weight, kind }
    }
}

pub(super) struct OperationGraphBuilder<'a> {
    pub(super) graph: GraphBuilder<Operation>,
    pub(super) input: &'a GraphInput<'a>,
    taken: HashMap<String, usize>,
    /// Last nodes of each container: what its end waits for.
    containers: BTreeMap<(Stage, StageSlot), Vec<Id>>,
    /// Operations that wait, as annotations say, for something that comes last.
    pub(super) even_later: HashSet<Id>,
}

impl<'a> OperationGraphBuilder<'a> {
    fn new(input: &'a GraphInput<'a>) -> Self {
        Self {
            graph: Graph::builder(),
            input,
            taken: HashMap::new(),
            containers: BTreeMap::new(),
            even_later: HashSet::new(),
        }
    }

    /// A name of its own: objects of one kind's name in two groups get numbers.
    pub(super) fn unique_id(&mut self, verb: &str, what: &str, iteration: u32) -> Id {
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

    pub(super) fn add_operation(
        &mut self,
        id: &Id,
        stage: Stage,
        slot: StageSlot,
        kind: OperationKind,
        after: Option<&Id>,
    ) {
        let first = after.cloned().unwrap_or_else(|| slot.start_id(stage));
        self.graph.add(id.clone(), slot.new_operation(stage, kind), [first]);
        let ends = self.containers.entry((stage, slot)).or_default();
        // Only the last of a chain must be waited for.
        if let Some(position) = after.and_then(|after| ends.iter().rposition(|known| known == after)) {
            ends[position] = id.clone();
        } else {
            ends.push(id.clone());
        }
    }

    fn add_boundaries(&mut self) {
        let mut stages: BTreeMap<Stage, Vec<StageSlot>> = BTreeMap::new();
        for (stage, slot) in self.containers.keys() {
            stages.entry(*stage).or_default().push(*slot);
        }
        let mut previous: Option<Id> = None;
        for (stage, slots) in stages {
            self.graph.add(
                StageSlot::Free.start_id(stage),
                StageSlot::Free.new_operation(stage, OperationKind::Boundary),
                previous,
            );
            let mut ends = self.containers.remove(&(stage, StageSlot::Free)).unwrap_or_default();
            let mut last = StageSlot::Free.start_id(stage);
            for slot in slots.into_iter().filter(|slot| *slot != StageSlot::Free) {
                let mut before = vec![last];
                if slot == StageSlot::Last {
                    before.extend(ends.iter().filter(|id| !self.even_later.contains(*id)).cloned());
                }
                self.graph.add(
                    slot.start_id(stage),
                    slot.new_operation(stage, OperationKind::Boundary),
                    before,
                );
                let inside = self.containers.remove(&(stage, slot)).unwrap_or_default();
                self.graph.add(
                    slot.end_id(stage),
                    slot.new_operation(stage, OperationKind::Boundary),
                    inside,
                );
                last = slot.end_id(stage);
            }
            ends.push(last);
            self.graph.add(
                StageSlot::Free.end_id(stage),
                StageSlot::Free.new_operation(stage, OperationKind::Boundary),
                ends,
            );
            previous = Some(StageSlot::Free.end_id(stage));
        }
    }
}

/// Builds the graph. Only dependencies written by hand (and weights) can make it impossible; automatic ones
/// that contradict them are left out with a warning.
pub fn build_graph(input: &GraphInput<'_>) -> Result<PlannedGraph, Problems> {
    let mut builder = OperationGraphBuilder::new(input);
    builder.add_records();
    let deletions = builder.add_deletions();
    let externals = builder.add_externals();
    let in_objects =
        ResourceIndex::new(input.objects.indexed().map(|(index, object)| (index, &object.resource)));
    let in_deletions =
        ResourceIndex::new(input.deletions.indexed().map(|(index, deletion)| (index, &deletion.resource)));
    let objects = builder.add_objects(&externals, &even_later(input, &in_objects));
    builder.add_boundaries();

    let mut warnings = Problems::new();
    let mut needs: Vec<(Id, Id)> = Vec::new();
    let finder = DependencyFinder {
        release_namespace: input.release_namespace,
        objects: &objects,
        deletions: &deletions,
        in_objects: &in_objects,
        in_deletions: &in_deletions,
    };
    finder.explicit_needs(&mut needs, &mut warnings);
    finder.before_deletions(&mut needs);
    for (id, need) in needs {
        builder.graph.need(id, need);
    }

    let automatic = finder.automatic_dependencies();
    for refused in builder.graph.wish(automatic.wishes) {
        warnings.push(
            Problem::warning(format!("`{}` does not wait for `{}`", refused.id, refused.need))
                .hint("weights or dependencies of the chart say otherwise"),
        );
    }
    let graph = builder.graph.try_build().map_err(|defects| cycle_problems(input, defects))?;
    let graph = if input.no_final_tracking { without_final_tracking(graph, input) } else { graph };
    Ok(PlannedGraph { graph: graph.reduced(), warnings, references: automatic.references })
}

/// Builds what follows a failure: the revision is recorded as failed, if it was recorded at all, and unwanted
/// objects are deleted.
pub fn after_failure(
    input: &GraphInput<'_>,
    revision: Option<Revision>,
    unwanted: &[VisitIndex],
) -> Result<Graph<Operation>, Problems> {
    let mut builder = OperationGraphBuilder::new(input);
    if let Some(revision) = revision {
        let id = Id::from(format!("update release: v{revision} failed"));
        builder.add_operation(&id, Stage::Init, StageSlot::Free, OperationKind::FailRevision, None);
    }
    for &index in unwanted {
        let PlannedObject { resource, visits, .. } = input.objects.at(index.object);
        builder.add_clean_up(
            &resource.id.to_string(),
            visits[index.visit].iteration,
            Stage::Uninstall,
            index,
        );
    }
    builder.add_boundaries();
    Ok(builder.graph.try_build().map_err(|defects| cycle_problems(input, defects))?.reduced())
}

/// Words cycles as what they are to the user, and points at the first object in them.
fn cycle_problems(input: &GraphInput<'_>, defects: Vec<Defect>) -> Problems {
    let blame = |path: &[Id], problem: Problem| {
        let named = |object: &&PlannedObject| {
            let what = format!(": {}", object.resource.id);
            path.iter().any(|id| id.ends_with(&what) && !id.starts_with("stage/"))
        };
        match input.objects.iter().find(named) {
            Some(PlannedObject { resource, .. }) => {
                let word = resource.settings.needs.first().map_or("", |need| need.annotation.as_str());
                resource.origin.place_problem(&resource.object, word, problem)
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
fn without_final_tracking(graph: Graph<Operation>, input: &GraphInput<'_>) -> Graph<Operation> {
    let is_hook = |operation: &Operation| match operation.kind {
        OperationKind::TrackReadiness(index) => {
            input.objects.at(index.object).resource.stored == RecordPart::Hook
        }
        _ => false,
    };
    let mut leads: Vec<bool> = vec![false; graph.len()];
    for node in graph.nodes().rev() {
        leads[node.position()] = node
            .dependents()
            .any(|after| leads[after.position()] || after.value().category() == OperationCategory::Resource);
    }
    let drop: BTreeSet<Id> = graph
        .nodes()
        .filter(|node| node.value().category() == OperationCategory::Track && !leads[node.position()])
        .filter(|node| !(input.track_hooks && is_hook(node.value())))
        .map(|node| node.id().clone())
        .collect();
    graph.select(KeptEdges::Contracted, |node| !drop.contains(node.id()))
}
