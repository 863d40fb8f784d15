//! Reasons why a record cannot be kept or read.

use std::io;
use std::path::PathBuf;

use slipway_problem::Problem;

/// Reasons why a record cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// A file is not what was written; the problem says where.
    #[error("{0}")]
    Damaged(Box<Problem>),
    /// A log that was written to cannot be written to any more.
    #[error("run log unwritable: {0}")]
    Unwritable(String),
}

impl RecordError {
    /// Makes an error of what the file system says.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
