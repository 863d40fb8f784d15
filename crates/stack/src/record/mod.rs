//! Runs on disk: the frozen plan, the append-only log, the summary anyone can rebuild from it.

mod event;
pub(crate) mod files;
mod lock;
mod log;
mod store;
mod summary;

pub use event::{ErrorRecord, EventType, RunEvent};
pub use lock::{Holder, Lock, Takeover};
pub use log::{Disk, FileDisk, Log, Replayed};
pub use store::{LastRun, Listed, Meta, Prune, Store, Stored};
pub use summary::{NodeState, NodeSummary, RunState, Summary, Totals};
