//! Evidence: what the ledger says a unit has been through.

use serde_json::Value;

use crate::error::UnitError;
use crate::ledger::{EntryKind, LedgerEntry, UnitTarget};

/// An apply as the ledger tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedUnit {
    pub apply_id: String,
    pub target: UnitTarget,
    pub started_at: String,
    pub ended_at: Option<String>,
    /// `succeeded`, `failed`, `paused`, `aborted`; none while it runs or if it was interrupted.
    pub status: Option<String>,
    pub revision: Option<u64>,
    pub overlay: Option<String>,
    /// The last verification of it passed.
    pub verified: Option<bool>,
}

/// Every apply, in the order they began.
pub fn applies(entries: &[LedgerEntry]) -> Vec<AppliedUnit> {
    let mut all: Vec<AppliedUnit> = Vec::new();
    for entry in entries {
        let Some(id) = entry.apply_id() else { continue };
        let text = |key: &str| entry.payload.get(key).and_then(Value::as_str).map(str::to_owned);
        match entry.kind {
            EntryKind::ApplyStarted => all.push(AppliedUnit {
                apply_id: id.to_owned(),
                target: entry.target.clone(),
                started_at: entry.ts.clone(),
                ended_at: None,
                status: None,
                revision: None,
                overlay: text("overlay"),
                verified: None,
            }),
            EntryKind::ApplyFinished => {
                if let Some(apply) = all.iter_mut().find(|apply| apply.apply_id == id) {
                    apply.status = text("status");
                    apply.ended_at = Some(entry.ts.clone());
                    apply.revision = entry.payload.get("revision").and_then(Value::as_u64);
                }
            }
            EntryKind::Verification => {
                if let Some(apply) = all.iter_mut().find(|apply| apply.apply_id == id) {
                    apply.verified = text("status").map(|status| status == "passed");
                }
            }
            _ => {}
        }
    }
    all
}

/// Environments in which the unit was applied and verified.
pub fn verified_environments(entries: &[LedgerEntry]) -> Vec<String> {
    let mut found: Vec<String> =
        applies(entries).into_iter().filter(is_proven).filter_map(|apply| apply.target.env).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn is_proven(apply: &AppliedUnit) -> bool {
    apply.status.as_deref() == Some("succeeded") && apply.verified == Some(true)
}

/// The evidence a promotion asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvidenceRule {
    /// Environments that count; any one of them is enough. Empty is any environment but the target's.
    pub from: Vec<String>,
    /// Applies the clusters of those environments tell of.
    pub deployed: Vec<AppliedUnit>,
}

/// Finds the evidence a promotion needs.
pub fn require_evidence(
    entries: &[LedgerEntry],
    target: &UnitTarget,
    rule: &EvidenceRule,
) -> Result<AppliedUnit, UnitError> {
    let mut all = applies(entries);
    all.extend(rule.deployed.iter().cloned());
    let counts = |apply: &&AppliedUnit| match &apply.target.env {
        Some(env) if rule.from.is_empty() => Some(env) != target.env.as_ref(),
        Some(env) => rule.from.contains(env),
        None => false,
    };
    if let Some(proof) = all.iter().rev().filter(counts).find(|apply| is_proven(apply)) {
        return Ok(proof.clone());
    }
    let place = match rule.from.as_slice() {
        [] => "another environment".to_owned(),
        names => names.join(" or "),
    };
    let last = all.iter().rev().find(counts);
    let why = match last {
        None => "it was never applied there".to_owned(),
        Some(apply) if apply.status.as_deref() != Some("succeeded") => {
            let status = apply.status.as_deref().unwrap_or("interrupted");
            format!("apply {} ended as {status}", apply.apply_id)
        }
        Some(apply) => match apply.verified {
            Some(_) => format!("apply {} was not verified: its checks failed", apply.apply_id),
            None => format!("apply {} was not verified", apply.apply_id),
        },
    };
    Err(UnitError::NoEvidence(format!("the unit is not verified in {place}: {why}")))
}
