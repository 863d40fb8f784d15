//! Journals that keep nothing on disk.

use super::{Journal, JournalError, JournalRecord};
use crate::Fingerprint;

/// Records nothing: the run cannot be resumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<JournalRecord>, JournalError> {
        Ok(Vec::new())
    }

    async fn append(&mut self, _: &[JournalRecord]) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Records in memory, for tests and for runs that are resumed by the process that started them.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    graph: Option<Fingerprint>,
    records: Vec<JournalRecord>,
}

impl MemoryJournal {
    /// Starts empty and bound to no graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts from records of an earlier run, to be bound to the next graph.
    pub fn of(records: Vec<JournalRecord>) -> Self {
        Self { graph: None, records }
    }

    /// Everything recorded so far.
    pub fn records(&self) -> &[JournalRecord] {
        &self.records
    }
}

impl Journal for MemoryJournal {
    async fn begin(&mut self, graph: &Fingerprint) -> Result<Vec<JournalRecord>, JournalError> {
        match &self.graph {
            Some(bound) if bound != graph => {
                Err(JournalError::Mismatch { journal: bound.clone(), graph: graph.clone() })
            }
            _ => {
                self.graph = Some(graph.clone());
                Ok(self.records.clone())
            }
        }
    }

    async fn append(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        self.records.extend_from_slice(records);
        Ok(())
    }
}
