//! Runs on disk: the frozen plan, the append-only log, the summary anyone can rebuild from it.
//!
//! The records themselves are [`slipway_journal`]'s; here is what a stack adds to them.

mod store;

pub use slipway_journal::{
    Disk, ErrorRecord, EventType, FileDisk, LockHolder, Log, NodeStatus, NodeSummary, Replayed, RunEvent,
    RunLock, RunProcess, RunStatus, Summary, Takeover,
};
pub use store::{LastRun, ListedRun, Prune, RunMeta, RunStore, StoredRun};
