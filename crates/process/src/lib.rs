//! The one runner of other programs: Git, credential helpers, filters, plugins.
//!
//! A [`Program`] runs without a shell, with a limit of time and of output, and ends when its
//! [`CancellationToken`](tokio_util::sync::CancellationToken) says so. With [`ProcessGroup::Own`] everything it started
//! ends with it. Variables are given one by one unless the whole environment is handed on, and no error shows
//! arguments, variables or output.

mod error;
mod group;
mod program;
mod run;

pub use error::ProgramError;
pub use group::ProcessGroup;
pub use program::{Program, ProgramLimits, ProgramOutput};
pub use run::block_on;
