//! Everything that is shown: the one writer for both streams, and how things look.

// First, because it brings the macro `say!`.
#[macro_use]
pub mod output;

mod channel;
pub mod diff;
pub mod escape;
pub mod failure;
pub mod next;
pub mod progress;
pub mod prompt;
pub mod report;
pub mod show;
mod stream;
pub mod style;
pub mod table;
