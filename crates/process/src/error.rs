//! Reasons a program gave no result.

use std::io;
use std::time::Duration;

/// The reason a program gave no result. The text names the program and nothing it was given or said.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("cannot run {program}")]
    NotStarted {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{program} was not done within {limit:?}")]
    TimedOut { program: String, limit: Duration },
    #[error("{program} wrote more than {limit} bytes")]
    TooMuchOutput { program: String, limit: usize },
    /// A program that is asked line by line closed its output.
    #[error("{program} ended without an answer")]
    Ended { program: String },
    /// The caller ended the work.
    #[error("stopped while {program} was running")]
    Interrupted { program: String },
    /// The program ran, but its end could not be learned.
    #[error("lost track of {program}")]
    Lost {
        program: String,
        #[source]
        source: io::Error,
    },
}

impl ProgramError {
    /// Tells that the program does not exist where it was looked for.
    pub fn is_missing_program(&self) -> bool {
        matches!(self, Self::NotStarted { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
