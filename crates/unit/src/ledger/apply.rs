//! The ledger of one apply: its beginning, its steps, its end.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_event::RunId;

use super::entry::{EntryKind, LedgerEntry, UnitTarget};
use super::store::UnitLedger;
use crate::error::UnitError;
use crate::evidence::AppliedUnit;
use crate::verify::VerifyReport;

/// The state of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApplyStatus {
    Succeeded,
    Failed,
    /// It waits for somebody to resume it.
    Paused,
    Aborted,
    /// The ledger tells of no end: it runs, or it was interrupted. Never written.
    Interrupted,
}

impl ApplyStatus {
    /// The name ledgers and reports have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
        }
    }

    /// Tells that there is something left to resume or to abort.
    pub fn is_open(self) -> bool {
        match self {
            Self::Paused | Self::Interrupted => true,
            Self::Succeeded | Self::Failed | Self::Aborted => false,
        }
    }
}

impl fmt::Display for ApplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of one step of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// Written before the step changes anything.
    Started,
    Succeeded,
    Failed,
    Paused,
    Aborted,
}

/// One step of a strategy as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// The name of the step, the same at every resume: `canary/2-weight-10`.
    pub step: String,
    /// The share of traffic or replicas, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u8>,
    pub status: StepStatus,
    /// Everything the step saw or has to remember: replicas before, settings to restore.
    #[serde(default)]
    pub signals: Value,
}

/// Writes the ledger of one apply.
#[derive(Clone, Debug)]
pub struct ApplyLedger {
    ledger: UnitLedger,
    apply_id: RunId,
    target: UnitTarget,
}

impl ApplyLedger {
    /// Begins an apply: the intent is on disk when this returns.
    pub fn start(ledger: UnitLedger, target: UnitTarget, payload: Value) -> Result<Self, UnitError> {
        let apply_id = RunId::generate(&**ledger.clock());
        let mut payload = payload;
        if let Some(fields) = payload.as_object_mut() {
            fields.insert("applyId".to_owned(), apply_id.as_str().into());
        }
        ledger.append(EntryKind::ApplyStarted, &target, payload)?;
        Ok(Self { ledger, apply_id, target })
    }

    /// Goes on with an apply that was begun before.
    pub fn resume(ledger: UnitLedger, target: UnitTarget, apply: &AppliedUnit) -> Result<Self, UnitError> {
        let wrong = |_| UnitError::LedgerChanged { seq: 0, what: "names an apply that cannot be".to_owned() };
        Ok(Self { ledger, apply_id: apply.apply_id.parse().map_err(wrong)?, target })
    }

    /// The name of the apply, which objects it makes for itself carry.
    pub fn apply_id(&self) -> &RunId {
        &self.apply_id
    }

    pub fn target(&self) -> &UnitTarget {
        &self.target
    }

    pub fn ledger(&self) -> &UnitLedger {
        &self.ledger
    }

    /// Writes the state of a step, durably.
    pub fn record_step(&self, step: &StepRecord) -> Result<(), UnitError> {
        let payload = serde_json::to_value(step).unwrap_or_default();
        self.append(EntryKind::ApplyStep, payload).map(drop)
    }

    /// Every state of every step so far, in the order it was written.
    pub fn steps(&self) -> Result<Vec<StepRecord>, UnitError> {
        let entries = self.ledger.entries()?;
        let own = entries.into_iter().filter(|entry| {
            entry.kind == EntryKind::ApplyStep && entry.apply_id() == Some(self.apply_id.as_str())
        });
        own.map(|entry| {
            let seq = entry.seq;
            serde_json::from_value(entry.payload)
                .map_err(|error| UnitError::LedgerChanged { seq, what: format!("is no step: {error}") })
        })
        .collect()
    }

    /// Ends the apply.
    pub fn finish(&self, status: ApplyStatus, payload: Value) -> Result<(), UnitError> {
        let mut payload = payload;
        if let Some(fields) = payload.as_object_mut() {
            fields.insert("status".to_owned(), json!(status));
        }
        self.append(EntryKind::ApplyFinished, payload).map(drop)
    }

    /// Writes what a verification found, with what was collected about failures.
    pub fn record_verification(&self, found: &VerifyReport) -> Result<(), UnitError> {
        let payload = json!({"status": found.status(), "checks": found.checks});
        self.append(EntryKind::Verification, payload)?;
        if let Some(diagnostics) = &found.diagnostics {
            let content = serde_json::to_vec(diagnostics).unwrap_or_default();
            self.append_content(EntryKind::Diagnostics, json!({"cause": found.likely_cause()}), &content)?;
        }
        Ok(())
    }

    /// Writes a fact about the apply.
    pub fn append(&self, kind: EntryKind, payload: Value) -> Result<LedgerEntry, UnitError> {
        self.ledger.append(kind, &self.target, self.with_id(payload))
    }

    /// Writes a fact with a content.
    pub fn append_content(
        &self,
        kind: EntryKind,
        payload: Value,
        content: &[u8],
    ) -> Result<LedgerEntry, UnitError> {
        self.ledger.append_content(kind, &self.target, self.with_id(payload), content)
    }

    fn with_id(&self, mut payload: Value) -> Value {
        if let Some(fields) = payload.as_object_mut() {
            fields.insert("applyId".to_owned(), self.apply_id.as_str().into());
        }
        payload
    }
}
