//! Durable records of runs.
//!
//! * [`FileJournal`] is the kernel's journal in one file, with a checksum on every line.
//! * [`DirectoryStore`] keeps a directory a run: a plan that never changes, an append-only [`Log`] of [`RunEvent`]s, and
//!   whatever documents a format adds. [`files`] writes them so that a crash leaves the old one or the new one.
//! * [`Summary`] is the state of a run folded from its events, [`records`] the same events as the kernel resumes from
//!   them.
//!
//! The files are those of ktl's stack runs: `plan.json`, `events.jsonl`, `summary.json`, `meta.json`.

mod chain;
pub mod digest;
mod error;
mod event;
mod file;
pub mod files;
pub mod log;
mod resume;
mod store;
mod summary;

pub use error::{RecordError, describe_io};
pub use event::{ErrorRecord, EventType, RunEvent};
pub use file::{FileJournal, TornLine};
pub use log::{Disk, FileDisk, Log, Replayed};
pub use resume::records;
pub use store::DirectoryStore;
pub use summary::{NodeStatus, NodeSummary, RunStatus, Summary, Totals};
