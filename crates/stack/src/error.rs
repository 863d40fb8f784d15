//! Failures of commands on a stack, by what the caller can do about them.

use std::io;
use std::path::PathBuf;

use slipway_journal::{LockHolder, RecordError};
use slipway_problem::{Problem, Problems};

use crate::resume::Drift;

/// The reason why a stack cannot be planned, run or shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Files, selectors or a stored run are wrong.
    #[error("{0}")]
    Invalid(Problems),
    /// Nothing was selected.
    #[error("selection is empty{}", if *.git_only { " (no changed file maps to a release)" } else { "" })]
    Empty { git_only: bool, notices: Vec<String> },
    /// Inputs changed since the plan was made.
    #[error("{0}")]
    Drift(Box<Drift>),
    /// Somebody else runs this stack.
    #[error("stack \"{stack}\" (profile {}) is in use by {}", profile.as_deref().unwrap_or("-"), in_use(holder.as_deref()))]
    Locked { stack: String, profile: Option<String>, holder: Option<Box<LockHolder>> },
    /// A person has to agree and did not.
    #[error("{0}")]
    Unconfirmed(String),
    /// The record of a run cannot be kept.
    #[error("run log unwritable: {0}")]
    Unwritable(String),
    /// A file of ours cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn invalid(code: &str, message: impl Into<String>) -> Self {
        Self::Invalid(Problem::error(message).code(code).into())
    }

    /// The identifier of the message catalogue, where it has one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Invalid(problems) => problems.iter().next().and_then(|problem| problem.code.as_deref()),
            Self::Empty { .. } => Some("ST032"),
            Self::Drift(_) => Some("ST051"),
            Self::Locked { .. } => Some("ST050"),
            Self::Unconfirmed(_) => Some("ST060"),
            Self::Unwritable(_) => Some("ST055"),
            Self::Io { .. } => None,
        }
    }
}

fn in_use(holder: Option<&LockHolder>) -> String {
    match holder {
        Some(holder) => format!("{} since {} (run {})", holder.owner, holder.acquired_at, holder.run_id),
        None => "another process since - (run -)".to_owned(),
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Invalid(problem.into())
    }
}

impl From<RecordError> for Error {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Io { doing, path, source } => Self::Io { doing, path, source },
            RecordError::Damaged(problem) => (*problem).into(),
            RecordError::Unwritable(reason) => Self::Unwritable(reason),
        }
    }
}
