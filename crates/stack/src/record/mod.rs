//! Runs on disk: the frozen plan, the append-only log, the summary anyone can rebuild from it.
//!
//! The records themselves are [`slipway_journal`]'s; here is what a stack adds to them.

mod lock;
mod store;

pub use lock::{Holder, Lock, Takeover};
pub use slipway_journal::{
    Disk, ErrorRecord, EventType, FileDisk, Log, NodeStatus, NodeSummary, Replayed, RunEvent, RunStatus,
    Summary, Totals,
};
pub use store::{LastRun, Listed, Meta, Prune, Store, Stored};
