//! The journal of a run: a durable record before and after everything it does, so that it can be resumed.

mod memory;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_problem::Problem;

use crate::run::RetryClass;
use crate::{Fingerprint, Id};

pub use memory::{MemoryJournal, NoJournal};

/// One line of a journal: that an attempt at a node started, or how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum JournalRecord {
    /// The worker is about to run. Without a later record of the same attempt, nobody knows how far it
    /// got.
    Started { id: Id, attempt: u32 },
    /// The worker succeeded. `output` is handed to the nodes that need this one, also after a resume.
    Succeeded {
        id: Id,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        output: Value,
    },
    /// The worker found nothing to do.
    Skipped { id: Id, attempt: u32, reason: String },
    /// The attempt failed; another one may follow.
    Failed { id: Id, attempt: u32, class: RetryClass, error: String },
    /// The attempt was stopped.
    Cancelled { id: Id, attempt: u32 },
}

impl JournalRecord {
    /// The node it is about.
    pub fn id(&self) -> &Id {
        match self {
            Self::Started { id, .. }
            | Self::Succeeded { id, .. }
            | Self::Skipped { id, .. }
            | Self::Failed { id, .. }
            | Self::Cancelled { id, .. } => id,
        }
    }

    /// The attempt it is about, counted from 1 over all runs of the journal.
    pub fn attempt(&self) -> u32 {
        match *self {
            Self::Started { attempt, .. }
            | Self::Succeeded { attempt, .. }
            | Self::Skipped { attempt, .. }
            | Self::Failed { attempt, .. }
            | Self::Cancelled { attempt, .. } => attempt,
        }
    }
}

/// Keeps the records of a run where they survive it.
///
/// A journal belongs to one graph. Errors and outputs are recorded as given: they must hold no secret.
pub trait Journal: Send {
    /// Binds the journal to a graph and gives what earlier runs recorded, oldest first. Fails if it is
    /// bound to another graph.
    fn begin(
        &mut self,
        graph: &Fingerprint,
    ) -> impl Future<Output = Result<Vec<JournalRecord>, JournalError>> + Send;

    /// Adds records, in order, and returns once they would survive a crash. After an error none, some or
    /// all may have been added; adding them again is harmless.
    fn append(&mut self, records: &[JournalRecord]) -> impl Future<Output = Result<(), JournalError>> + Send;
}

impl<J: Journal> Journal for &mut J {
    fn begin(
        &mut self,
        graph: &Fingerprint,
    ) -> impl Future<Output = Result<Vec<JournalRecord>, JournalError>> + Send {
        (**self).begin(graph)
    }

    fn append(&mut self, records: &[JournalRecord]) -> impl Future<Output = Result<(), JournalError>> + Send {
        (**self).append(records)
    }
}

/// The reason why a journal cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system refused.
    #[error("{}: cannot {doing} the journal: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: Arc<io::Error> },
    /// Another process is at work with it.
    #[error("{}: another process is using this journal", path.display())]
    Locked { path: PathBuf },
    /// Something other than its end is damaged.
    #[error("{0}")]
    Corrupt(Box<Problem>),
    /// It was made by a version of the program with another format.
    #[error("{}: journal format {found} is not supported (this program writes format {supported})", path.display())]
    Version { path: PathBuf, found: u64, supported: u64 },
    /// It records a run of another graph, or of the same graph with other inputs.
    #[error("the journal belongs to another plan: it records {journal}, this plan is {graph}")]
    Mismatch { journal: Fingerprint, graph: Fingerprint },
    /// It names a node the graph does not have, although the fingerprints agree.
    #[error("the journal records `{id}`, which is not in the plan")]
    UnknownNode { id: Id },
    /// A journal kept elsewhere failed in its own way.
    #[error("{0}")]
    Other(String),
}
