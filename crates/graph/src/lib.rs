//! The graph kernel: every plan in Slipway is a [`Graph`], and [`Run`] is the only thing that runs one.
//!
//! * A [`GraphBuilder`] checks everything at once: duplicates, unknown needs, named cycles.
//! * A [`Graph`] has one stable order (by wave, then by id) however it was put together; it can be
//!   reversed, cut down, reduced, measured and [drawn](Graph::draw).
//! * A [`Run`] starts each node the moment its last need ends, within a [`Policy`], and reports what
//!   happens as [`RunEvent`]s. With a [`Journal`] a run killed at any instruction can be resumed.
//!
//! The crate knows nothing of Kubernetes, reads no clock but tokio's, and never prints.

mod build;
mod cycle;
mod export;
mod fingerprint;
mod graph;
mod id;
mod journal;
mod order;
mod reduce;
mod run;

pub use build::{Defect, GraphBuilder, Refused};
pub use export::{Direction, Drawing, EdgeStyle};
pub use fingerprint::Fingerprint;
pub use graph::{Graph, NodeRef};
pub use id::Id;
pub use journal::{Journal, JournalError, JournalRecord, MemoryJournal, NoJournal};
pub use order::{CriticalPath, KeptEdges};
pub use run::{
    AttemptFailure, Backoff, Classify, Context, Done, NodePolicy, NodeReport, NodeTotals, OnFailure, Outcome,
    Policy, Report, Retry, RetryClass, RetryClasses, Run, RunEvent, RunningNodes, Schedule, StopReason,
    Worker,
};
