//! Reasons why a rehearsal did not go well.

use slipway_problem::{Location, Problem, Problems};
use slipway_release::Failure;
use slipway_sandbox::BuildError;
use slipway_sandbox::clone::CloneError;

/// A rehearsal that did not go well, or could not be held.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The run failed on the stage, or is known to fail on the cluster.
    #[error("{0}")]
    Failed(Problems),
    /// A policy denies the plan.
    #[error("{0}")]
    Refused(Problems),
    #[error("cannot ask the cluster for what the rehearsal needs")]
    Cluster(#[from] slipway_cluster::Error),
    #[error("cannot copy the objects the plan touches")]
    Copy(#[from] CloneError),
    #[error("cannot start the embedded cluster of the rehearsal")]
    Stage(#[from] BuildError),
    /// The stack cannot be planned or run at all.
    #[error("{0}")]
    Stack(#[from] slipway_stack::Error),
    /// The runbook cannot be run at all.
    #[error("{0}")]
    Runbook(#[from] slipway_runbook::RunError),
    #[error("cannot make a directory for the record of the rehearsal")]
    Record(#[source] std::io::Error),
    #[error("cannot make the repository of the rehearsal")]
    Repository(#[from] slipway_git::GitError),
    #[error("cannot read or write the objects of the rehearsal")]
    Kind(#[from] slipway_promotion::kinds::KindError),
    #[error("cannot promote in the rehearsal")]
    Promotion(#[from] slipway_promotion::PromotionError),
    /// An object was refused by the embedded cluster, as a real one would.
    #[error("{object} is refused")]
    Object {
        object: String,
        #[source]
        source: slipway_cluster::Error,
    },
    #[error("the rehearsal did not come to rest")]
    Restless,
}

impl RehearsalError {
    pub(crate) fn from_failure(failure: Failure) -> Self {
        match failure {
            Failure::Refused(problems) => Self::Refused(problems),
            failure => Self::Failed(located(problems_of(failure))),
        }
    }
}

/// Returns the problems of a failed run, one by one.
pub(crate) fn problems_of(failure: Failure) -> Problems {
    match failure {
        Failure::Problems(problems)
        | Failure::Source(problems)
        | Failure::Immutable(problems)
        | Failure::Ownership(problems)
        | Failure::Refused(problems)
        | Failure::Stale(problems) => problems,
        Failure::Run { why, .. } => Problem::error(why).into(),
        other => Problem::error(other.to_string()).into(),
    }
}

/// Gives every problem without a place that of the rehearsal.
pub(crate) fn located(found: Problems) -> Problems {
    let at = Location::file("rehearsal");
    let place = |problem: Problem| if problem.at.is_some() { problem } else { problem.at(at.clone()) };
    found.into_iter().map(place).collect()
}
