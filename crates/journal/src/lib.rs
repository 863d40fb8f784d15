//! Durable records of runs.
//!
//! * [`FileJournal`] is the kernel's journal in one file, with a checksum on every line.
//! * [`DirectoryStore`] keeps a directory a run: a plan that never changes, an append-only [`Log`] of [`RunEvent`]s, and
//!   whatever documents a format adds. [`files`] writes them so that a crash leaves the old one or the new one.
//! * [`Summary`] is the state of a run folded from its events, [`records`] the same events as the kernel resumes from
//!   them. [`is_proven`] and [`failed_nodes`] say what a run that follows leaves out or does again.
//! * [`RunSnapshot`] is a run as one document, kept in whatever implements [`RecordStore`]: a file, a Secret.
//! * [`RunLock`] lets one process at a time work on a subject.
//!
//! Two layouts exist, both prescribed: the files of ktl's stack runs (`plan.json`, `events.jsonl`, `summary.json`,
//! `meta.json`) and khook's document (`khook.io/state.v1`).

mod chain;
pub mod digest;
mod error;
mod event;
mod file;
pub mod files;
mod lock;
pub mod log;
mod record_store;
mod resume;
pub mod snapshot;
mod store;
mod summary;
pub mod totals;

pub use error::RecordError;
pub use event::{ErrorRecord, EventType, RunEvent};
pub use file::{FileJournal, TornLine};
pub use lock::{LockError, LockHolder, RunLock, Takeover};
pub use log::{Disk, FileDisk, Log, Replayed};
pub use record_store::{
    FileStore, RecordDocument, RecordStore, StoreAction, StoreError, StoreFault, StoreFuture,
};
pub use resume::{RunProcess, failed_nodes, is_proven, records, settled_status};
pub use snapshot::{NodeSnapshot, RunSnapshot};
pub use store::DirectoryStore;
pub use summary::{NodeStatus, NodeSummary, RunStatus, Summary};
