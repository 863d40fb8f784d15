//! The plan's operations, and the graph they make: stages, weights, and what waits for what.

mod build;
mod needs;
mod nodes;

use slipway_event::NodeKind;
use slipway_graph::Graph;
use slipway_problem::Problems;

use crate::name::Revision;
use crate::plan::{
    DeletionIndex, ExternalDependency, ExternalIndex, PlannedDeletion, PlannedObject, VisitIndex,
};
use crate::stage::Stage;

pub use build::{after_failure, build};
pub use needs::force_readiness;

/// Changes of the release's own records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordChanges {
    /// A new revision is recorded as pending first and as deployed last.
    pub create: Option<Revision>,
    /// Revisions that are no longer the deployed one.
    pub supersede: Vec<Revision>,
    /// The last revision is recorded as being deleted.
    pub delete: Option<Revision>,
    /// Revisions forgotten at the end.
    pub forget: Vec<Revision>,
    /// The last revision stays as `uninstalled`.
    pub keep: Option<Revision>,
}

/// An operation: one node of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub stage: Stage,
    pub weight: Option<i64>,
    pub kind: OperationKind,
}

/// The work of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// The start or end of a stage or of a weight in it.
    Boundary,
    Deploy(VisitIndex),
    /// Waits until it is ready.
    TrackReadiness(VisitIndex),
    /// Deletes what has succeeded.
    CleanUp(VisitIndex),
    TrackCleanUp(VisitIndex),
    /// Deletes what the release no longer has.
    Delete(DeletionIndex),
    TrackAbsence(DeletionIndex),
    /// Waits for something outside of the release.
    TrackPresence(ExternalIndex),
    CreateRevision,
    FinishRevision,
    /// The revision under way is recorded as failed.
    FailRevision,
    SupersedeRevision(Revision),
    BeginDelete(Revision),
    ForgetRevision(Revision),
    KeepHistory(Revision),
}

impl OperationKind {
    /// The kind of the node in events.
    pub fn node_kind(&self) -> NodeKind {
        match self {
            Self::Boundary => NodeKind::Boundary,
            Self::Deploy(_) => NodeKind::Deploy,
            Self::CleanUp(_) | Self::Delete(_) => NodeKind::Delete,
            Self::TrackReadiness(_) => NodeKind::TrackReadiness,
            Self::TrackPresence(_) => NodeKind::TrackPresence,
            Self::TrackCleanUp(_) | Self::TrackAbsence(_) => NodeKind::TrackAbsence,
            Self::CreateRevision
            | Self::FinishRevision
            | Self::FailRevision
            | Self::SupersedeRevision(_)
            | Self::BeginDelete(_)
            | Self::ForgetRevision(_)
            | Self::KeepHistory(_) => NodeKind::Record,
        }
    }
}

/// The part of the work an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationCategory {
    Meta,
    Resource,
    Track,
    Release,
}

impl Operation {
    pub fn category(&self) -> OperationCategory {
        match self.kind {
            OperationKind::Boundary => OperationCategory::Meta,
            OperationKind::Deploy(_) | OperationKind::CleanUp(_) | OperationKind::Delete(_) => {
                OperationCategory::Resource
            }
            OperationKind::TrackReadiness(_)
            | OperationKind::TrackCleanUp(_)
            | OperationKind::TrackAbsence(_)
            | OperationKind::TrackPresence(_) => OperationCategory::Track,
            OperationKind::CreateRevision
            | OperationKind::FinishRevision
            | OperationKind::FailRevision
            | OperationKind::SupersedeRevision(_)
            | OperationKind::BeginDelete(_)
            | OperationKind::ForgetRevision(_)
            | OperationKind::KeepHistory(_) => OperationCategory::Release,
        }
    }
}

/// Everything a graph is built from.
#[derive(Debug, Default)]
pub struct GraphInput<'a> {
    pub objects: &'a [PlannedObject],
    pub deletions: &'a [PlannedDeletion],
    /// Everything outside of the release that some object waits for.
    pub externals: &'a [ExternalDependency],
    pub records: RecordChanges,
    pub release_namespace: &'a str,
    /// Drop waits nothing comes after.
    pub no_final_tracking: bool,
    /// But not those for hooks.
    pub track_hooks: bool,
}

/// A graph and what could not be honoured in it.
#[derive(Debug)]
pub struct PlannedGraph {
    pub graph: Graph<Operation>,
    pub warnings: Problems,
    /// Automatic dependencies that hold, for explanations.
    pub references: Vec<ObjectReference>,
}

/// A dependency found in the objects themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// The object that waits.
    pub dependent: String,
    /// The object it waits for.
    pub dependency: String,
    /// The field that names it.
    pub field: String,
}
