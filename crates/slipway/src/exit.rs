//! Exit codes: one table for every command.

use std::process::ExitCode;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: something failed; what, was said on standard error.
    Failed,
    /// 2: objects would change.
    Changes,
    /// 3: only a new revision would be made.
    Revision,
    /// 64: the command line or configuration cannot be understood.
    Usage,
    /// A code of one command's own; its help says what it means.
    Other(u8),
    /// 130: stopped by Ctrl-C.
    Interrupted,
    /// 143: stopped by a termination signal.
    Terminated,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Changes => 2,
            Self::Revision => 3,
            Self::Usage => 64,
            Self::Other(code) => code,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// Whether the command did what it was asked to.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Done | Self::Changes | Self::Revision)
    }

    /// The same, or [`Exit::Failed`] of a command that did its work and could not show it.
    pub fn or_failed(self) -> Self {
        if self.is_success() { Self::Failed } else { self }
    }

    /// The code for a failure that reached `main`.
    pub fn of(failure: &anyhow::Error) -> Self {
        if failure.downcast_ref::<UsageError>().is_some() { Self::Usage } else { Self::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Marks a failure as the user's way of calling, not of the work itself.
#[derive(Debug)]
pub struct UsageError(pub slipway_problem::Problems);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for UsageError {}
