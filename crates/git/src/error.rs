//! Reasons an operation on a repository failed, and what may be tried next.

use std::io;
use std::path::PathBuf;

use slipway_process::ProgramError;

use crate::name::{BranchName, CommitId, InvalidName};

/// The reason an operation on a repository failed. No text of it holds credentials.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Git could not be run, took too long, or was stopped.
    #[error("{doing}")]
    Program {
        doing: String,
        #[source]
        source: ProgramError,
    },
    /// Git itself failed.
    #[error("{doing}: {message}")]
    Failed { doing: String, message: String },
    /// There is no room left on the disk of this machine.
    #[error("{doing}: {message}")]
    DiskFull { doing: String, message: String },
    /// The remote could not be reached, or does not answer.
    #[error("{doing}: {message}")]
    Unreachable { doing: String, message: String },
    /// The remote refuses the credentials, or knows no such repository for them.
    #[error("{doing}: {message}")]
    AccessDenied { doing: String, message: String },
    #[error("{repository} has no branch `{branch}`")]
    BranchMissing { repository: String, branch: BranchName },
    #[error("{repository} has no commit {commit}")]
    CommitMissing { repository: String, commit: CommitId },
    /// No branch has a commit whose id begins like this, or several do.
    #[error("{repository} has no commit {commit}")]
    UnknownCommit { repository: String, commit: String },
    /// The server does not let anybody push this: a protected branch, or a hook.
    #[error("push to `{branch}` was refused: {message}")]
    PushDenied { branch: BranchName, message: String },
    /// Others were faster every time.
    #[error("`{branch}` moved during each of {attempts} attempts to push")]
    Contended { branch: BranchName, attempts: u32 },
    /// The branch holds something else than the caller knows of.
    #[error("`{branch}` was changed by somebody else")]
    Moved { branch: BranchName },
    #[error("{repository} is larger than {limit} bytes")]
    TooLarge { repository: String, limit: u64 },
    /// The path leads out of the work tree through a link.
    #[error("`{path}` leads out of the repository")]
    Escapes { path: String },
    /// Somebody works in the work tree of that name.
    #[error("the work tree `{operation}` is in use")]
    InUse { operation: String },
    #[error("the signing key cannot be used: {reason}")]
    SigningKey { reason: String },
    #[error("{}", path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("stopped while waiting for {repository}")]
    Interrupted { repository: String },
}

/// What may be tried after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same again, later.
    Transient,
    /// The same again once somebody has changed credentials or rights.
    Denied,
    /// Nothing: the same fails again.
    Permanent,
    /// The caller ended the work.
    Interrupted,
}

impl GitError {
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Program { source: ProgramError::Interrupted { .. }, .. } | Self::Interrupted { .. } => {
                ErrorClass::Interrupted
            }
            Self::Program { source: ProgramError::TimedOut { .. }, .. }
            | Self::DiskFull { .. }
            | Self::Unreachable { .. }
            | Self::Contended { .. }
            | Self::InUse { .. } => ErrorClass::Transient,
            Self::AccessDenied { .. } | Self::PushDenied { .. } => ErrorClass::Denied,
            Self::Name(_)
            | Self::Program { .. }
            | Self::Failed { .. }
            | Self::BranchMissing { .. }
            | Self::CommitMissing { .. }
            | Self::UnknownCommit { .. }
            | Self::Moved { .. }
            | Self::TooLarge { .. }
            | Self::Escapes { .. }
            | Self::SigningKey { .. }
            | Self::Files { .. } => ErrorClass::Permanent,
        }
    }

    /// The failure of work on the file or directory at `path`.
    pub fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { doing: path.display().to_string(), message: source.to_string() }
            }
            _ => Self::Files { path, source },
        }
    }
}
