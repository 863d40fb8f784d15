//! The outcome of carrying out one entry of a step's sequence, and what may be tried after a failure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use slipway_git::{ErrorClass as GitClass, GitError};
use slipway_problem::Problems;
use slipway_scm::{ErrorClass as ScmClass, ScmError};

use crate::kinds::{KindError, StepState};

/// The progress one entry has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepProgressed {
    Done(StepOutput),
    /// Something outside has to happen first.
    Wait {
        until: Timestamp,
        message: String,
    },
}

/// The result of an entry that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StepOutput {
    pub(super) message: String,
    pub(super) outputs: BTreeMap<String, String>,
}

impl StepOutput {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), outputs: BTreeMap::new() }
    }

    pub(super) fn output(mut self, name: &str, value: impl Into<String>) -> Self {
        self.outputs.insert(name.to_owned(), value.into());
        self
    }
}

impl From<StepOutput> for StepProgressed {
    fn from(output: StepOutput) -> Self {
        Self::Done(output)
    }
}

/// The parts of a promotion that may be out of order for a while; each has a condition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    Git,
    Scm,
    Cluster,
    Webhook,
}

impl Dependency {
    pub(super) const ALL: [Self; 4] = [Self::Git, Self::Scm, Self::Cluster, Self::Webhook];

    /// The type of its condition.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::Git => "GitUnavailable",
            Self::Scm => "SCMUnavailable",
            Self::Cluster => "ClusterUnavailable",
            Self::Webhook => "WebhookUnavailable",
        }
    }
}

/// Something that may pass by itself, or once somebody has done something about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepTrouble {
    pub(super) dependency: Dependency,
    /// The reason in the condition, and of the failure if it does not pass.
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Nothing is tried before.
    pub(super) retry_at: Option<Timestamp>,
}

/// The end of a promotion that did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepFailure {
    /// The state the step ends in.
    pub(super) state: StepState,
    /// A word for machines: `MergeConflict`.
    pub(super) reason: String,
    pub(super) message: String,
}

impl StepFailure {
    pub(super) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { state: StepState::Failed, reason: reason.to_owned(), message: message.into() }
    }
}

/// The reason an entry is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StepError {
    #[error("{}: {}", .0.reason, .0.message)]
    Failed(StepFailure),
    #[error("{}: {}", .0.reason, .0.message)]
    Trouble(StepTrouble),
    /// Somebody else has taken the step over: what was done here does not count.
    #[error("another worker has taken the step over")]
    Abandoned,
    /// The process ends.
    #[error("stopped")]
    Stopped,
}

impl StepError {
    pub(super) fn failed(reason: &str, message: impl Into<String>) -> Self {
        Self::Failed(StepFailure::new(reason, message))
    }

    pub(super) fn trouble(dependency: Dependency, reason: &'static str, message: impl Into<String>) -> Self {
        Self::Trouble(StepTrouble { dependency, reason, message: message.into(), retry_at: None })
    }

    /// A failure with every problem of a file.
    pub(super) fn problems(reason: &str, problems: &Problems) -> Self {
        Self::failed(reason, problems.to_string())
    }
}

/// An error with everything that caused it, on one line.
pub(super) fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(1_000).collect()
}

impl From<GitError> for StepError {
    fn from(error: GitError) -> Self {
        let message = explain(&error);
        if error.class() == GitClass::Interrupted {
            return Self::Stopped;
        }
        match error {
            GitError::AccessDenied { .. } => Self::trouble(Dependency::Git, "CredentialsDenied", message),
            GitError::PushDenied { .. } => Self::failed("PushDenied", message),
            GitError::BranchMissing { .. } => Self::failed("BranchMissing", message),
            GitError::CommitMissing { .. } | GitError::UnknownCommit { .. } => {
                Self::failed("CommitMissing", message)
            }
            GitError::Moved { .. } => Self::failed("BranchChanged", message),
            GitError::TooLarge { .. } => Self::failed("RepositoryTooLarge", message),
            GitError::Escapes { .. } => Self::failed("PathEscapes", message),
            GitError::SigningKey { .. } => Self::failed("SigningKey", message),
            GitError::Name(_) => Self::failed("InvalidGitSettings", message),
            GitError::DiskFull { .. } => Self::trouble(Dependency::Git, "DiskFull", message),
            // What is on disk can be made anew: the next try starts from the remote.
            GitError::Files { .. } | GitError::Failed { .. } | GitError::Program { .. } => {
                Self::trouble(Dependency::Git, "LocalRepository", message)
            }
            GitError::Contended { .. } => Self::trouble(Dependency::Git, "BranchContended", message),
            GitError::Unreachable { .. } | GitError::InUse { .. } | GitError::Interrupted { .. } => {
                Self::trouble(Dependency::Git, "GitUnavailable", message)
            }
        }
    }
}

impl From<ScmError> for StepError {
    fn from(error: ScmError) -> Self {
        let message = explain(&error);
        match error.class() {
            ScmClass::Transient { retry_at } => Self::Trouble(StepTrouble {
                dependency: Dependency::Scm,
                reason: match error {
                    ScmError::CircuitOpen { .. } => "CircuitOpen",
                    ScmError::RateLimited { .. } => "RateLimited",
                    _ => "SCMUnavailable",
                },
                message,
                retry_at,
            }),
            ScmClass::Denied => Self::trouble(Dependency::Scm, "CredentialsDenied", message),
            ScmClass::NotFound => Self::failed("PullRequestNotFound", message),
            ScmClass::Permanent => Self::failed("SCMRefused", message),
        }
    }
}

impl From<KindError> for StepError {
    fn from(error: KindError) -> Self {
        let message = explain(&error);
        match error {
            KindError::Cluster(error) => error.into(),
            KindError::Malformed { .. } | KindError::NoKind { .. } => Self::failed("InvalidObject", message),
        }
    }
}

impl From<slipway_cluster::Error> for StepError {
    fn from(error: slipway_cluster::Error) -> Self {
        let message = explain(&error);
        if error.is_transient() || error.class == slipway_cluster::ErrorClass::Conflict {
            Self::trouble(Dependency::Cluster, "ClusterUnavailable", message)
        } else {
            Self::failed("ClusterRefused", message)
        }
    }
}

impl From<slipway_git::InvalidName> for StepError {
    fn from(error: slipway_git::InvalidName) -> Self {
        GitError::from(error).into()
    }
}
