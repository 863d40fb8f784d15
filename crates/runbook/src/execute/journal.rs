//! Keeps the record up to date while a run is under way.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use slipway_graph::{Fingerprint, Journal, JournalError, JournalRecord as Line, RetryClass};
use slipway_journal::{RecordStore, StoreError};
use tokio::time::Instant;

use super::report::{StepReport, milliseconds};
use super::{Work, now};
use crate::context::RunContext;
use crate::model::Step;
use crate::plan::decision::SkippedStep;
use crate::state::{NodeSnapshot, NodeStatus, RunSnapshot, RunStatus};

/// The record while a run is under way.
pub(super) struct RunRecord<'a> {
    pub(super) store: Option<&'a dyn RecordStore>,
    pub(super) record: Mutex<Option<RunSnapshot>>,
    pub(super) destroys: bool,
    /// The reason why a write failed.
    pub(super) failed: Mutex<Option<String>>,
}

impl RunRecord<'_> {
    fn change(&self, change: impl FnOnce(&mut RunSnapshot)) {
        if let Some(record) = &mut *self.record.lock().unwrap_or_else(PoisonError::into_inner) {
            change(record);
        }
    }

    pub(super) async fn write(&self) -> Result<(), StoreError> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (self.store, record) {
            (Some(store), Some(record)) => record.save(store).await,
            _ => Ok(()),
        }
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The record as it is at the end; nothing if that is what is there already.
    pub(super) fn close(
        &self,
        work: &Work<'_>,
        steps: &[StepReport],
        status: RunStatus,
        now: &str,
        before: Option<&RunSnapshot>,
    ) -> Option<RunSnapshot> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        record.run_status = status;
        record.updated_at = now.to_owned();
        if !self.destroys {
            for step in steps.iter().filter(|step| !work.decisions.skipped.contains_key(&step.name)) {
                if let Some(entry) = record.step_mut(&step.name) {
                    entry.status = Some(step.status);
                    entry.attempts = step.attempts;
                    entry.duration_ms = step.duration_ms;
                    entry.set_error(step.error.as_deref());
                    entry.skip_reason = step.skip_reason.clone();
                    entry.finished_at.get_or_insert_with(|| now.to_owned());
                }
            }
        }
        let same = before.is_some_and(|before| before.says_the_same(&record));
        (!same).then_some(record)
    }
}

/// The record as the kernel's journal: what is proven done does not run, and every step that ended is
/// written before those that need it start.
pub(super) struct StepJournal<'a> {
    pub(super) ledger: &'a RunRecord<'a>,
    pub(super) skipped: &'a HashMap<String, SkippedStep>,
    pub(super) steps: BTreeMap<&'a str, &'a Step>,
    pub(super) started: HashMap<String, Instant>,
    pub(super) place: RunContext<'a>,
}

impl Journal for StepJournal<'_> {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<Line>, JournalError> {
        let known = self.skipped.iter().filter(|(name, _)| self.steps.contains_key(name.as_str()));
        Ok(known
            .map(|(name, skipped)| Line::Skipped {
                id: name.as_str().into(),
                attempt: 0,
                reason: skipped.reason.clone(),
            })
            .collect())
    }

    async fn append(&mut self, lines: &[Line]) -> Result<(), JournalError> {
        let mut changed = false;
        let now = now(&self.place);
        for line in lines {
            let id = line.id().as_str();
            let Some(step) = self.steps.get(id) else { continue };
            let (status, error) = match line {
                Line::Started { .. } => {
                    self.started.entry(id.to_owned()).or_insert_with(Instant::now);
                    continue;
                }
                Line::Succeeded { .. } | Line::Skipped { .. } => (NodeStatus::Succeeded, None),
                Line::Failed { attempt, class, error, .. } => {
                    // One that is tried again has not ended.
                    if *class != RetryClass::Permanent && *attempt <= step.retries {
                        continue;
                    }
                    let error = self.place.events.redactor().redact(error).into_owned();
                    (NodeStatus::Failed, Some(error))
                }
                Line::Cancelled { .. } => (NodeStatus::Failed, Some("canceled".to_owned())),
            };
            let duration = self.started.get(id).map(|started| milliseconds(started.elapsed()));
            let destroys = self.ledger.destroys;
            self.ledger.change(|record| {
                record.updated_at.clone_from(&now);
                let Some(entry) = record.step_mut(id) else { return };
                if destroys {
                    // What was taken away must run again.
                    if status == NodeStatus::Succeeded {
                        *entry = NodeSnapshot::new(&entry.name, &entry.kind, entry.input_hash.clone());
                        changed = true;
                    }
                    return;
                }
                changed = true;
                entry.status = Some(status);
                entry.attempts = Some(line.attempt());
                entry.duration_ms = duration;
                entry.set_error(error.as_deref());
                entry.skip_reason = None;
                entry.finished_at = Some(now.clone());
            });
        }
        if changed {
            // A record that cannot be written now may be written later; the run goes on.
            if let Err(error) = self.ledger.write().await {
                let mut failed = self.ledger.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error.to_string());
            }
        }
        Ok(())
    }
}
