//! Outcomes of nodes and reports of runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::worker::Outputs;
use super::{Classify, RetryClass};
use crate::graph::GraphShape;
use crate::{Id, JournalError};

/// The outcome of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<E> {
    /// The worker did it.
    Succeeded,
    /// The worker found nothing to do.
    Skipped { reason: String },
    /// An earlier run of the journal did it.
    Resumed,
    /// The last attempt failed.
    Failed(AttemptFailure<E>),
    /// It never started: it needs `by`, directly or not, which failed or was cancelled.
    Blocked { by: Id },
    /// It was stopped while running, because the run was.
    Cancelled,
    /// It never started: the run stopped first.
    NotStarted,
}

impl<E> Outcome<E> {
    /// Tells that nodes that need it may start.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Skipped { .. } | Self::Resumed)
    }

    /// The outcome in one word, as summaries count it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Skipped { .. } => "skipped",
            Self::Resumed => "resumed",
            Self::Failed(_) => "failed",
            Self::Blocked { .. } => "blocked",
            Self::Cancelled => "cancelled",
            Self::NotStarted => "not-started",
        }
    }
}

/// The failure of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptFailure<E> {
    /// The worker's own error.
    Error(E),
    /// It exceeded its timeout; the error, if the worker gave one when told to stop.
    TimedOut { after: Duration, error: Option<E> },
    /// The worker panicked, which is a fault in it.
    Panicked(String),
}

impl<E> AttemptFailure<E> {
    /// The worker's own error, if there is one.
    pub fn error(&self) -> Option<&E> {
        match self {
            Self::Error(error) => Some(error),
            Self::TimedOut { error, .. } => error.as_ref(),
            Self::Panicked(_) => None,
        }
    }
}

impl<E: Classify> AttemptFailure<E> {
    /// Returns the class, which decides about further attempts.
    pub fn class(&self) -> RetryClass {
        match self {
            Self::Error(error) => error.class(),
            Self::TimedOut { .. } => RetryClass::Timeout,
            Self::Panicked(_) => RetryClass::Permanent,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.error().and_then(Classify::retry_after)
    }
}

impl<E: fmt::Display> fmt::Display for AttemptFailure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::TimedOut { after, error: None } => write!(f, "timed out after {after:?}"),
            Self::TimedOut { after, error: Some(error) } => write!(f, "timed out after {after:?}: {error}"),
            Self::Panicked(message) => write!(f, "internal error: {message}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for AttemptFailure<E> {}

/// The reason why a run stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// Somebody cancelled it.
    Cancelled,
    /// It exceeded its timeout.
    TimedOut,
    /// A node failed, and the policy is to fail fast.
    Failed { id: Id },
    /// The journal could not be written to.
    Journal,
}

/// The number of nodes for each outcome; of a run that is under way, also of those without one yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct NodeTotals {
    pub succeeded: usize,
    pub failed: usize,
    pub skipped: usize,
    pub blocked: usize,
    pub cancelled: usize,
    pub resumed: usize,
    pub not_started: usize,
    /// Nodes that run now, or wait for another attempt.
    #[serde(skip)]
    pub running: usize,
    /// Nodes whose turn has not come.
    #[serde(skip)]
    pub waiting: usize,
}

impl NodeTotals {
    pub(super) fn count<E>(&mut self, outcome: &Outcome<E>) {
        *match outcome {
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Skipped { .. } => &mut self.skipped,
            Outcome::Resumed => &mut self.resumed,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Blocked { .. } => &mut self.blocked,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::NotStarted => &mut self.not_started,
        } += 1;
    }

    /// Returns the number of all nodes.
    pub fn planned(&self) -> usize {
        let ended = self.done() + self.failed + self.blocked + self.cancelled + self.not_started;
        ended + self.running + self.waiting
    }

    /// Returns the number of nodes whose dependents may start.
    fn done(&self) -> usize {
        self.succeeded + self.skipped + self.resumed
    }

    /// Tells that every node is done.
    pub fn is_success(&self) -> bool {
        self.done() == self.planned()
    }
}

/// The report of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport<E> {
    /// The node.
    pub id: Id,
    /// Its outcome.
    pub outcome: Outcome<E>,
    /// Attempts made so far, over all runs of the journal.
    pub attempts: u32,
    /// From its first start in this run to its end, waits between attempts included.
    pub duration: Duration,
}

/// The report of a run.
#[derive(Debug)]
pub struct Report<E> {
    /// The report of each node, in the stable order.
    pub nodes: Vec<NodeReport<E>>,
    /// The number of nodes for each outcome.
    pub totals: NodeTotals,
    /// The reason why it stopped early, if it did.
    pub stopped: Option<StopReason>,
    /// The first error of the journal, if there was one.
    pub journal_error: Option<JournalError>,
    /// The time it took.
    pub duration: Duration,
    pub(super) shape: Arc<GraphShape>,
    pub(super) outputs: Arc<Outputs>,
}

impl<E> Report<E> {
    /// Tells that every node is done and recorded.
    pub fn is_success(&self) -> bool {
        self.totals.is_success() && self.journal_error.is_none()
    }

    /// The report of one node.
    pub fn node(&self, id: &str) -> Option<&NodeReport<E>> {
        self.shape.find(id).map(|position| &self.nodes[position as usize])
    }

    /// The output of one node, from this run or an earlier one.
    pub fn output(&self, id: &str) -> Option<&Value> {
        let position = self.shape.find(id)?;
        self.outputs.get(position as usize)?.get().filter(|output| !output.is_null())
    }

    /// Every failure, in the stable order of the nodes.
    pub fn failures(&self) -> impl Iterator<Item = (&Id, &AttemptFailure<E>)> {
        self.nodes.iter().filter_map(|node| match &node.outcome {
            Outcome::Failed(failure) => Some((&node.id, failure)),
            _ => None,
        })
    }
}
