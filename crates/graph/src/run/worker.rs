//! The part an engine supplies: the work of one node, and the meaning of its errors.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_problem::{Problem, Problems};
use tokio_util::sync::CancellationToken;

use super::NodePolicy;
use crate::graph::{Graph, NodeRef};
use crate::id::Id;

/// Does the work of nodes `N` of a graph borrowed for `'g`.
///
/// All attempts of a run are polled by the task that polls the run: futures may borrow, a worker that
/// computes for long should do so on threads of its own (`tokio::spawn`, `spawn_blocking`), and a future
/// may be dropped at any await once it was told to stop and its grace is over.
///
/// A closure from [`Context`] to a future of `Result<Done, E>` is a worker; [`Graph::worker`] spares it
/// the annotations.
pub trait Worker<'g, N: 'g>: Sync {
    /// The error of a node that fails.
    type Error: Classify + Send;

    /// Makes one attempt at a node.
    fn work(&self, cx: Context<'g, N>) -> impl Future<Output = Result<Done, Self::Error>> + Send;

    /// The rules for one node, given those of the run.
    fn policy(&self, node: NodeRef<'g, N>, default: &NodePolicy) -> NodePolicy {
        let _ = node;
        *default
    }
}

impl<'g, N, F, R, E> Worker<'g, N> for F
where
    N: 'g,
    F: Fn(Context<'g, N>) -> R + Sync,
    R: Future<Output = Result<Done, E>> + Send,
    E: Classify + Send,
{
    type Error = E;

    fn work(&self, cx: Context<'g, N>) -> impl Future<Output = Result<Done, E>> + Send {
        self(cx)
    }
}

impl<N> Graph<N> {
    /// Gives back a closure that is to be a worker of this graph, having told the compiler so.
    pub fn worker<'g, F, R, E>(&'g self, work: F) -> F
    where
        F: Fn(Context<'g, N>) -> R + Sync,
        R: Future<Output = Result<Done, E>> + Send,
        E: Classify + Send,
    {
        work
    }
}

/// The attempt a worker makes: its node, its number and its cancellation.
pub struct Context<'g, N> {
    pub(super) node: NodeRef<'g, N>,
    pub(super) attempt: u32,
    pub(super) interrupted: bool,
    pub(super) cancel: CancellationToken,
    pub(super) outputs: Arc<Outputs>,
}

/// By position.
pub(super) type Outputs = Vec<OnceLock<Value>>;

impl<'g, N> Context<'g, N> {
    /// The node to work on.
    pub fn node(&self) -> NodeRef<'g, N> {
        self.node
    }

    /// The id of the node.
    pub fn id(&self) -> &'g Id {
        self.node.id()
    }

    /// The value of the node.
    pub fn value(&self) -> &'g N {
        self.node.value()
    }

    /// The number of the attempt, counted from 1 over all runs of the journal.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Tells that an earlier run started this node and nobody recorded how that ended: its effects may be
    /// there in part or in full.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Fires when the attempt should stop: the run is cancelled, or the attempt exceeded its timeout.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancel
    }

    /// The output of another node, from this run or an earlier one; nothing if it gave none,
    /// was skipped, or has not ended. Ask only for nodes this one needs, directly or not: whether any
    /// other has ended is a matter of chance.
    pub fn output(&self, id: &str) -> Option<&Value> {
        let position = self.node.find(id)?;
        self.outputs.get(position as usize)?.get().filter(|output| !output.is_null())
    }
}

/// The result of an attempt that ended well.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The work is done. The output, if not null, is recorded and handed to the nodes that need this one.
    /// It must be small and hold no secret.
    Succeeded(Value),
    /// There was nothing to do. Dependents start as if it was done.
    Skipped { reason: String },
}

impl Done {
    /// The work is done and has no output.
    pub const OK: Self = Self::Succeeded(Value::Null);

    /// There was nothing to do.
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped { reason: reason.into() }
    }
}

/// The class of an error, which decides about another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryClass {
    /// It may pass by itself: the network, a server's bad moment.
    Transient,
    /// The other side asks to slow down.
    Throttled,
    /// Somebody else changed the same thing.
    Conflict,
    /// It took too long.
    Timeout,
    /// It will not change by trying again.
    Permanent,
    /// The work was stopped, not wrong.
    Cancelled,
}

/// A set of error classes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RetryClasses(u8);

impl RetryClasses {
    /// No error at all.
    pub const NONE: Self = Self(0);
    /// Errors that may pass by themselves: transient, throttled, conflict.
    pub const TRANSIENT: Self =
        Self::NONE.with(RetryClass::Transient).with(RetryClass::Throttled).with(RetryClass::Conflict);
    /// Every error but a cancellation.
    pub const ALL: Self = Self::TRANSIENT.with(RetryClass::Timeout).with(RetryClass::Permanent);

    /// Adds a class.
    #[must_use]
    pub const fn with(self, class: RetryClass) -> Self {
        Self(self.0 | 1 << class as u8)
    }

    /// Tells that the class is among them.
    pub const fn contains(self, class: RetryClass) -> bool {
        self.0 & 1 << class as u8 != 0
    }
}

impl fmt::Debug for RetryClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RetryClass::{Cancelled, Conflict, Permanent, Throttled, Timeout, Transient};
        let all = [Transient, Throttled, Conflict, Timeout, Permanent, Cancelled];
        f.debug_set().entries(all.into_iter().filter(|&class| self.contains(class))).finish()
    }
}

/// An error that knows whether trying again makes sense. Its text must hold no secret: it is recorded.
pub trait Classify: fmt::Display {
    /// Returns the class, which decides about another attempt.
    fn class(&self) -> RetryClass;

    /// Returns the time the other side asks to wait at least (HTTP's `Retry-After`).
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

impl Classify for Infallible {
    fn class(&self) -> RetryClass {
        match *self {}
    }
}

impl Classify for Problem {
    fn class(&self) -> RetryClass {
        RetryClass::Permanent
    }
}

impl Classify for Problems {
    fn class(&self) -> RetryClass {
        RetryClass::Permanent
    }
}
