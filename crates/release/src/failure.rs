//! Why something could not be planned or done.

use slipway_problem::{Problem, Problems};

use crate::apply::Report;

/// Why a plan or a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something is wrong with what was asked for; nothing was written.
    #[error("{0}")]
    Problems(Problems),
    /// A request to the cluster failed.
    #[error(transparent)]
    Cluster(#[from] slipway_cluster::Error),
    /// The release does not exist, or not in that revision.
    #[error("{0}")]
    NotFound(String),
    /// The work began and failed; the report says how far it came.
    #[error("{message}")]
    Run { message: String, report: Box<Report> },
    /// The user stopped it.
    #[error("{message}")]
    Cancelled { message: String, report: Option<Box<Report>> },
    /// A saved plan does not fit what is there now.
    #[error("{0}")]
    Stale(Problems),
}

impl Failure {
    /// What a run that failed did.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Run { report, .. } => Some(report),
            Self::Cancelled { report, .. } => report.as_deref(),
            _ => None,
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problems(problem.into())
    }
}
