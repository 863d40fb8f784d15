//! The place where the states of steps are kept.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use slipway_event::{Clock, RunId, SystemClock};

use crate::error::UnitError;
use crate::ledger::{ApplyLedger, StepRecord, StepStatus};

/// Keeps the steps of one rollout, in the order they were written.
pub trait StepLog: Send + Sync {
    /// The name of the rollout, which objects it makes for itself carry.
    fn run_id(&self) -> &str;

    fn now(&self) -> Timestamp;

    /// Writes the state of a step; it is durable when this returns.
    fn record(&self, step: &StepRecord) -> Result<(), UnitError>;

    /// Every state of every step so far.
    fn records(&self) -> Result<Vec<StepRecord>, UnitError>;

    /// The last state of a step, with the last signals that are not empty.
    fn last(&self, step: &str) -> Result<Option<StepRecord>, UnitError> {
        let mut found: Option<StepRecord> = None;
        for mut record in self.records()?.into_iter().filter(|record| record.step == step) {
            if record.signals.is_null() {
                record.signals = found.map(|earlier| earlier.signals).unwrap_or_default();
            }
            found = Some(record);
        }
        Ok(found)
    }

    /// Tells that a step has begun, whatever became of it.
    fn has_begun(&self, step: &str) -> Result<bool, UnitError> {
        Ok(self.last(step)?.is_some())
    }

    /// Tells that a step is done.
    fn is_done(&self, step: &str) -> Result<bool, UnitError> {
        Ok(self.last(step)?.is_some_and(|record| record.status == StepStatus::Succeeded))
    }
}

impl StepLog for ApplyLedger {
    fn run_id(&self) -> &str {
        self.apply_id().as_str()
    }

    fn now(&self) -> Timestamp {
        self.ledger().clock().now()
    }

    fn record(&self, step: &StepRecord) -> Result<(), UnitError> {
        self.record_step(step)
    }

    fn records(&self) -> Result<Vec<StepRecord>, UnitError> {
        self.steps()
    }
}

/// A log in memory, for rollouts that nobody resumes.
pub struct MemoryLog {
    run_id: RunId,
    clock: Box<dyn Clock>,
    records: Mutex<Vec<StepRecord>>,
}

impl MemoryLog {
    pub fn new(clock: Box<dyn Clock>) -> Self {
        Self { run_id: RunId::generate(&*clock), clock, records: Mutex::default() }
    }
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new(Box::new(SystemClock))
    }
}

impl StepLog for MemoryLog {
    fn run_id(&self) -> &str {
        self.run_id.as_str()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn record(&self, step: &StepRecord) -> Result<(), UnitError> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(step.clone());
        Ok(())
    }

    fn records(&self) -> Result<Vec<StepRecord>, UnitError> {
        Ok(self.records.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
