//! Writes what happens in a run to its log, and keeps count.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_graph::{Fingerprint, Journal, JournalError, JournalRecord, Outcome, RunEvent as KernelEvent};

use super::{Failures, RunOptions, RunStart};
use crate::deploy::{FailureClass, NodeError};
use crate::duration;
use crate::error::Error;
use crate::plan::StackPlan;
use crate::record::{EventType, Log, NodeStatus, RunEvent, RunStore, Summary};

/// The summary is written at most this often; its last state always is.
const SUMMARY_EVERY: Duration = Duration::from_millis(250);

/// Makes the event a run begins with.
pub(super) fn opening_event(
    start: &RunStart,
    plan: &StackPlan,
    options: &RunOptions,
    history: &[RunEvent],
) -> RunEvent {
    let StackPlan { run_id, command, nodes, .. } = plan;
    let (mode, drift) = match start {
        RunStart::Beginning => {
            return RunEvent::new(EventType::RunStarted, None, 0)
                .message(format!("{command} {run_id}"))
                .field("command", command.to_string())
                .field("planned", nodes.len())
                .field("pid", options.pid)
                .field("host", options.host.clone());
        }
        RunStart::Resume { drift } => ("resume", drift),
        RunStart::Failed { drift, .. } => ("rerun-failed", drift),
    };
    let drift = drift.as_ref().map(|drift| drift.to_json()).unwrap_or(Value::Array(Vec::new()));
    RunEvent::new(EventType::RunResumed, None, 0)
        .field("mode", mode)
        .field("replayed", history.len())
        .field("drift", drift)
        .field("pid", options.pid)
        .field("host", options.host.clone())
}

/// Writes what happens and keeps count.
pub(super) struct Recorder<'a> {
    inner: Mutex<Recorded>,
    path: PathBuf,
    store: &'a RunStore,
}

struct Recorded {
    log: Log,
    summary: Summary,
    /// The time `summary.json` was written last.
    written: Option<Instant>,
    failure: Option<String>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(store: &'a RunStore, path: PathBuf, log: Log, summary: Summary) -> Self {
        let inner = Mutex::new(Recorded { log, summary, written: None, failure: None });
        Self { inner, path, store }
    }

    /// The directory of the run.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn summary(&self) -> Summary {
        self.lock().summary.clone()
    }

    /// The reason why the record could not be kept, if it could not.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recorded> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, events: Vec<RunEvent>) -> Result<(), Error> {
        let mut inner = self.lock();
        let written = match inner.log.append(events) {
            Ok(written) => written,
            Err(error) => {
                let error = Error::from(error);
                if let Error::Unwritable(reason) = &error {
                    inner.failure.get_or_insert(reason.clone());
                }
                return Err(error);
            }
        };
        for event in &written {
            inner.summary.take(event);
        }
        let due = inner.written.is_none_or(|written| written.elapsed() >= SUMMARY_EVERY);
        let terminal = written.iter().any(|event| event.kind == EventType::RunStarted || event.is_boundary());
        if due && terminal {
            inner.written = Some(Instant::now());
            // A snapshot anyone can rebuild; the log is what counts.
            let _ = self.store.write_summary(&self.path, &inner.summary);
        }
        Ok(())
    }

    pub(super) fn state(&self, id: &str) -> NodeStatus {
        self.lock().summary.status_of(id)
    }

    /// Records what the journal does not: queues, retries, and nodes that never ran.
    pub(super) fn observe(&self, event: &KernelEvent<'_, NodeError>) {
        let event = match event {
            // One that starts at once was queued by the record of its start.
            KernelEvent::NodeReady { id } if self.state(id) == NodeStatus::Planned => {
                RunEvent::new(EventType::NodeQueued, Some(id), 0)
            }
            KernelEvent::NodeRetrying { id, attempt, delay, .. } => {
                RunEvent::new(EventType::NodeRetryScheduled, Some(id), attempt + 1)
                    .message(format!("backoff={}", duration::show(*delay)))
            }
            KernelEvent::NodeFinished { id, outcome, attempts, .. } => match outcome {
                Outcome::Blocked { by } => RunEvent::new(EventType::NodeBlocked, Some(id), *attempts)
                    .message(format!("needs {} ({})", short(by), self.state(by)))
                    .field("by", by.as_str()),
                Outcome::NotStarted => RunEvent::new(EventType::NodeSkipped, Some(id), *attempts)
                    .message("the run stopped before its turn"),
                // A retry that was given up because the run stops.
                Outcome::Failed(failure) if self.state(id) != NodeStatus::Failed => {
                    let error = failure
                        .error()
                        .cloned()
                        .unwrap_or_else(|| NodeError::new(FailureClass::Internal, failure.to_string()));
                    RunEvent::new(EventType::NodeFailed, Some(id), *attempts).error(error.record())
                }
                _ => return,
            },
            _ => return,
        };
        // A failure is remembered by the log, and the next thing that must be recorded stops the run.
        let _ = self.record(vec![event]);
    }
}

/// The name in an id.
fn short(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// The log of a run as the kernel's journal.
pub(super) struct RecordedJournal<'a> {
    pub(super) recorder: &'a Recorder<'a>,
    pub(super) history: Vec<JournalRecord>,
    pub(super) failures: &'a Failures,
}

impl RecordedJournal<'_> {
    /// Leaves out what concerns no node of the graph: only a part of the plan may be run again.
    pub(super) fn within<N>(mut self, graph: &slipway_graph::Graph<N>) -> Self {
        self.history.retain(|record| graph.node(record.id()).is_some());
        self
    }
}

impl Journal for RecordedJournal<'_> {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<JournalRecord>, JournalError> {
        // The plan's own hash was checked when it was read.
        Ok(std::mem::take(&mut self.history))
    }

    async fn append(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        let failed = |id: &str| self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let event = |record: &JournalRecord| match record {
            JournalRecord::Started { id, attempt } => {
                RunEvent::new(EventType::NodeRunning, Some(id), *attempt)
            }
            JournalRecord::Succeeded { id, attempt, output } => {
                let mut event = RunEvent::new(EventType::NodeSucceeded, Some(id), *attempt);
                if let Some(note) = output.get("note").and_then(Value::as_str) {
                    event = event.message(note);
                }
                event.fields = output.as_object().cloned().unwrap_or_default();
                event.fields.remove("note");
                event
            }
            JournalRecord::Skipped { id, attempt, reason } => {
                RunEvent::new(EventType::NodeSucceeded, Some(id), *attempt)
                    .message(reason)
                    .field("changed", false)
            }
            JournalRecord::Failed { id, attempt, error, .. } => {
                let error =
                    failed(id).unwrap_or_else(|| NodeError::new(FailureClass::Internal, error.clone()));
                RunEvent::new(EventType::NodeFailed, Some(id), *attempt).error(error.record())
            }
            JournalRecord::Cancelled { id, attempt } => {
                RunEvent::new(EventType::NodeCanceled, Some(id), *attempt)
            }
        };
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            if let JournalRecord::Started { id, .. } = record
                && self.recorder.state(id) == NodeStatus::Planned
            {
                events.push(RunEvent::new(EventType::NodeQueued, Some(id), 0));
            }
            events.push(event(record));
        }
        self.recorder.record(events).map_err(|error| JournalError::Other(error.to_string()))
    }
}
