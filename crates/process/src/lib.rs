//! The one runner of other programs: Git, credential helpers, filters, plugins.
//!
//! A [`Program`] runs without a shell, with a limit of time and of output, and ends when its
//! [`CancellationToken`](tokio_util::sync::CancellationToken) says so. With [`ProcessGroup::Own`] everything it started
//! ends with it. [`Program::start`] keeps one running that is asked line by line. Variables are given one by one unless the
//! whole environment is handed on, and no error shows arguments, variables or output. A [`ShellCommand`] is what users write
//! for a shell themselves: its output is passed on while it runs, and it ends with this process.

mod error;
mod group;
mod guard;
mod program;
mod run;
mod session;
mod shell;

pub use error::ProgramError;
pub use group::ProcessGroup;
pub use program::{Program, ProgramLimits, ProgramOutput};
pub use run::block_on;
pub use session::ProgramSession;
pub use shell::{OutputStream, ShellCommand, shell_word};
