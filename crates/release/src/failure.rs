//! The ways a plan or a run fails.

use slipway_cluster::ErrorClass;
use slipway_problem::{Problem, Problems};

use crate::execute::{ReleaseReport, RunTimeout};

/// The kind of trouble that ended a run; what to do about it depends on that, never on words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// An object did not become ready, or went away while it was waited for.
    NotReady,
    /// Something took longer than it may.
    Timeout,
    /// Another run took the lock of the release.
    LockLost,
    /// The cluster refused a request or did not answer it.
    Cluster(ErrorClass),
    /// The user stopped it.
    Cancelled,
    /// Anything else.
    Other,
}

/// The part of a release whose failure ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedPart {
    /// A hook: it did not succeed, or could not be written.
    Hook,
    /// Anything else.
    Release,
}

/// The failure of a plan or a run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something is wrong with what was asked for; nothing was written.
    #[error("{0}")]
    Problems(Problems),
    /// The source cannot be rendered; nothing was written.
    #[error("{0}")]
    Source(Problems),
    /// Objects would have to change fields that cannot be changed; nothing was written.
    #[error("{0}")]
    Immutable(Problems),
    /// Objects are there already and belong to somebody else; nothing was written.
    #[error("{0}")]
    Ownership(Problems),
    /// A request to the cluster failed.
    #[error(transparent)]
    Cluster(#[from] slipway_cluster::Error),
    /// The release does not exist, or not in that revision.
    #[error("{0}")]
    NotFound(String),
    /// The work began and failed; the report says how far it came.
    #[error("release {} failed: {why}", report.release)]
    Run {
        cause: FailureCause,
        part: FailedPart,
        why: String,
        /// The same in a line a reason, for those who saw the events of the run.
        brief: String,
        report: Box<ReleaseReport>,
    },
    /// Another run holds the lock of the release, for longer than there is time.
    #[error("{0}")]
    Locked(String),
    /// The user stopped it.
    #[error("{message}")]
    Cancelled { message: String, report: Option<Box<ReleaseReport>> },
    /// A policy denies the plan; nothing was written.
    #[error("{0}")]
    Refused(Problems),
    /// A plan does not fit what is there now.
    #[error("{0}")]
    Stale(Problems),
}

impl Failure {
    /// The kind of trouble it is.
    pub fn cause(&self) -> FailureCause {
        match self {
            Self::Cluster(error) => FailureCause::Cluster(error.class),
            Self::Run { cause, .. } => *cause,
            Self::Cancelled { .. } => FailureCause::Cancelled,
            Self::Locked(_) => FailureCause::Timeout,
            Self::Immutable(_) => FailureCause::Cluster(ErrorClass::Immutable),
            Self::Problems(_)
            | Self::Source(_)
            | Self::Ownership(_)
            | Self::NotFound(_)
            | Self::Refused(_)
            | Self::Stale(_) => FailureCause::Other,
        }
    }

    /// The same, with the time limit that passed while something was done, if there was no time to repeat a request.
    pub fn with_timeout(self, timeout: Option<&RunTimeout>, doing: &str) -> Self {
        match (self, timeout) {
            (Self::Cluster(mut error), Some(timeout)) if error.is_late => {
                error.message.push_str(&format!("; the timeout of {timeout} passed while {doing}"));
                Self::Cluster(error)
            }
            (failure, _) => failure,
        }
    }

    /// The report of a run that failed.
    pub fn report(&self) -> Option<&ReleaseReport> {
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
