//! The plan's operations, and the graph they make: stages, weights, and what waits for what.

mod build;
mod needs;
mod nodes;

use slipway_graph::Graph;
use slipway_problem::Problems;

use crate::decide::{Decision, Follow};
use crate::resource::Resource;
use crate::stage::Stage;

pub use build::{after_failure, build};
pub use needs::force_readiness;

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
pub struct ExternalDependency {
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
    pub awaited: &'a [ExternalDependency],
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
