//! How nodes and runs end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::worker::Outputs;
use super::{Classify, ErrorClass};
use crate::graph::Shape;
use crate::{Id, JournalError};

/// How a node ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<E> {
    /// The worker did it.
    Succeeded,
    /// The worker found nothing to do.
    Skipped { reason: String },
    /// An earlier run of the journal did it.
    Resumed,
    /// The last attempt failed.
    Failed(Failure<E>),
    /// It never started: it needs `by`, directly or not, which failed or was cancelled.
    Blocked { by: Id },
    /// It was stopped while running, because the run was.
    Cancelled,
    /// It never started: the run stopped first.
    NotStarted,
}

impl<E> Outcome<E> {
    /// Whether nodes that need it may start.
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

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure<E> {
    /// The worker's own error.
    Error(E),
    /// It exceeded its timeout; the error, if the worker gave one when told to stop.
    TimedOut { after: Duration, error: Option<E> },
    /// The worker panicked, which is a fault in it.
    Panicked(String),
}

impl<E> Failure<E> {
    /// The worker's own error, if there is one.
    pub fn error(&self) -> Option<&E> {
        match self {
            Self::Error(error) => Some(error),
            Self::TimedOut { error, .. } => error.as_ref(),
            Self::Panicked(_) => None,
        }
    }
}

impl<E: Classify> Failure<E> {
    /// What it means for further attempts.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Error(error) => error.class(),
            Self::TimedOut { .. } => ErrorClass::Timeout,
            Self::Panicked(_) => ErrorClass::Permanent,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.error().and_then(Classify::retry_after)
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::TimedOut { after, error: None } => write!(f, "timed out after {after:?}"),
            Self::TimedOut { after, error: Some(error) } => write!(f, "timed out after {after:?}: {error}"),
            Self::Panicked(message) => write!(f, "internal error: {message}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Failure<E> {}

/// Why a run stopped before its end.
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

/// How many nodes ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Summary {
    pub total: usize,
    pub succeeded: usize,
    pub skipped: usize,
    pub resumed: usize,
    pub failed: usize,
    pub blocked: usize,
    pub cancelled: usize,
    pub not_started: usize,
}

impl Summary {
    pub(super) fn count<E>(&mut self, outcome: &Outcome<E>) {
        self.total += 1;
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

    /// Whether every node is done.
    pub fn is_success(&self) -> bool {
        self.succeeded + self.skipped + self.resumed == self.total
    }
}

/// How one node ended.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport<E> {
    /// The node.
    pub id: Id,
    /// How it ended.
    pub outcome: Outcome<E>,
    /// Attempts made so far, over all runs of the journal.
    pub attempts: u32,
    /// From its first start in this run to its end, waits between attempts included.
    pub duration: Duration,
}

/// How a run ended.
#[derive(Debug)]
pub struct Report<E> {
    /// How each node ended, in the stable order.
    pub nodes: Vec<NodeReport<E>>,
    /// How many nodes ended how.
    pub summary: Summary,
    /// Why it stopped early, if it did.
    pub stopped: Option<StopReason>,
    /// The first error of the journal, if there was one.
    pub journal_error: Option<JournalError>,
    /// How long it took.
    pub duration: Duration,
    pub(super) shape: Arc<Shape>,
    pub(super) outputs: Arc<Outputs>,
}

impl<E> Report<E> {
    /// Whether every node is done and recorded.
    pub fn is_success(&self) -> bool {
        self.summary.is_success() && self.journal_error.is_none()
    }

    /// How one node ended.
    pub fn node(&self, id: &str) -> Option<&NodeReport<E>> {
        self.shape.find(id).map(|position| &self.nodes[position as usize])
    }

    /// What one node gave as its output, in this run or an earlier one.
    pub fn output(&self, id: &str) -> Option<&Value> {
        let position = self.shape.find(id)?;
        self.outputs.get(position as usize)?.get().filter(|output| !output.is_null())
    }

    /// Every failure, in the stable order of the nodes.
    pub fn failures(&self) -> impl Iterator<Item = (&Id, &Failure<E>)> {
        self.nodes.iter().filter_map(|node| match &node.outcome {
            Outcome::Failed(failure) => Some((&node.id, failure)),
            _ => None,
        })
    }
}
