//! Events a run reports while it runs.

use std::time::Duration;

use super::{AttemptFailure, NodeTotals, Outcome, StopReason};
use crate::Id;

/// Something that happened in a run.
///
/// Events come in the order things happened, each after it was recorded in the journal. A node that runs
/// gives `NodeStarted`, for each failed attempt followed by another `NodeRetrying` and `NodeStarted`,
/// and at last `NodeFinished`; a node that does not run gives `NodeFinished` alone. Every node finishes
/// exactly once.
#[derive(Debug)]
pub enum RunEvent<'a, E> {
    /// The run begins.
    RunStarted {
        /// The number of nodes.
        nodes: usize,
        /// The number of nodes an earlier run did.
        resumed: usize,
    },
    /// All needs of a node are done; it waits for a place.
    NodeReady { id: &'a Id },
    /// An attempt begins.
    NodeStarted {
        id: &'a Id,
        /// Counted from 1 over all runs of the journal.
        attempt: u32,
        /// Set if an earlier run left it unfinished.
        interrupted: bool,
    },
    /// An attempt failed; another begins after a delay.
    NodeRetrying { id: &'a Id, attempt: u32, failure: &'a AttemptFailure<E>, delay: Duration },
    /// A node ended, whether it ran or not.
    NodeFinished { id: &'a Id, attempts: u32, outcome: &'a Outcome<E>, duration: Duration },
    /// Nothing new starts from here on.
    RunStopping { reason: &'a StopReason },
    /// The run is over.
    RunFinished { totals: &'a NodeTotals, stopped: Option<&'a StopReason>, duration: Duration },
}
