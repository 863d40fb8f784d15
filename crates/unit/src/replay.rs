//! Replays applies from the ledger, without a cluster.

use slipway_event::Record;

use crate::error::UnitError;
use crate::evidence::{AppliedUnit, applies};
use crate::ledger::{EntryKind, LedgerEntry, UnitLedger};

/// A recorded apply.
#[derive(Clone, Debug)]
pub struct RecordedApply {
    pub apply: AppliedUnit,
    /// Its facts, in order.
    pub entries: Vec<LedgerEntry>,
    /// The events of its run, as every sink saw them.
    pub records: Vec<Record>,
    /// What was collected after failed checks.
    pub diagnostics: Option<serde_json::Value>,
}

/// Reads a recorded apply: by its name or number from 1, the last one if none is given.
pub fn read_apply(ledger: &UnitLedger, wanted: Option<&str>) -> Result<RecordedApply, UnitError> {
    let entries = ledger.entries()?;
    let all = applies(&entries);
    let number = wanted.and_then(|wanted| wanted.parse::<usize>().ok());
    let found = match (wanted, number) {
        (None, _) => all.last(),
        (Some(_), Some(number)) => number.checked_sub(1).and_then(|index| all.get(index)),
        (Some(name), None) => all.iter().find(|apply| apply.apply_id == name),
    };
    let Some(apply) = found.cloned() else {
        let message = match (wanted, all.len()) {
            (_, 0) => "the ledger records no apply".to_owned(),
            (wanted, count) => {
                format!("there is no apply `{}`; the ledger records {count}", wanted.unwrap_or_default())
            }
        };
        return Err(UnitError::problem(message));
    };
    let own: Vec<LedgerEntry> =
        entries.into_iter().filter(|entry| entry.apply_id() == Some(apply.apply_id.as_str())).collect();
    let mut records = Vec::new();
    let mut diagnostics = None;
    for entry in &own {
        match entry.kind {
            EntryKind::ApplyEvents => {
                let content = ledger.content(entry)?.unwrap_or_default();
                let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                // Events of a newer program that this one does not know are passed over.
                records.extend(lines.filter_map(|line| serde_json::from_slice::<Record>(line).ok()));
            }
            EntryKind::Diagnostics => {
                let content = ledger.content(entry)?.unwrap_or_default();
                diagnostics = serde_json::from_slice(&content).ok();
            }
            _ => {}
        }
    }
    Ok(RecordedApply { apply, entries: own, records, diagnostics })
}
