//! Evidence: what the ledger says a unit has been through.

use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_problem::Problem;

use crate::error::UnitError;
use crate::ledger::{ApplyStatus, EntryKind, LedgerEntry, UnitTarget};
use crate::verify::VerificationStatus;

/// An apply as the ledger tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedUnit {
    pub apply_id: String,
    pub target: UnitTarget,
    pub started_at: String,
    pub ended_at: Option<String>,
    pub status: ApplyStatus,
    pub revision: Option<u64>,
    pub overlay: Option<String>,
    /// The last verification of it passed.
    pub verified: Option<bool>,
    /// Its target was rolled back afterwards, and not verified since.
    pub rolled_back: bool,
}

/// Every apply, in the order they began.
pub fn applies(entries: &[LedgerEntry]) -> Vec<AppliedUnit> {
    let mut all: Vec<AppliedUnit> = Vec::new();
    for entry in entries {
        if entry.kind == EntryKind::Rollback {
            // The intent is enough: what runs there now is not what was verified. Which revision it is, only the cluster
            // knows, and a verification finds out.
            let there = all.iter_mut().filter(|apply| apply.target.is_same_place(&entry.target));
            there.for_each(|apply| apply.rolled_back = true);
            continue;
        }
        let Some(id) = entry.apply_id() else { continue };
        let text = |key: &str| entry.payload.get(key).and_then(Value::as_str).map(str::to_owned);
        match entry.kind {
            EntryKind::ApplyStarted => all.push(AppliedUnit {
                apply_id: id.to_owned(),
                target: entry.target.clone(),
                started_at: entry.ts.clone(),
                ended_at: None,
                status: ApplyStatus::Interrupted,
                revision: None,
                overlay: text("overlay"),
                verified: None,
                rolled_back: false,
            }),
            EntryKind::ApplyFinished => {
                if let Some(apply) = all.iter_mut().find(|apply| apply.apply_id == id) {
                    // An end this program does not know is no success and nothing to go on with.
                    apply.status = read_status(&entry.payload).unwrap_or(ApplyStatus::Failed);
                    apply.ended_at = Some(entry.ts.clone());
                    apply.revision = entry.payload.get("revision").and_then(Value::as_u64);
                }
            }
            EntryKind::Verification => {
                if let Some(apply) = all.iter_mut().find(|apply| apply.apply_id == id) {
                    let status: Option<VerificationStatus> = read_status(&entry.payload);
                    apply.verified = Some(status == Some(VerificationStatus::Passed));
                    apply.rolled_back &= apply.verified != Some(true);
                }
            }
            _ => {}
        }
    }
    all
}

fn read_status<S: DeserializeOwned>(payload: &Value) -> Option<S> {
    payload.get("status").and_then(|status| S::deserialize(status).ok())
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
    apply.status == ApplyStatus::Succeeded && apply.verified == Some(true) && !apply.rolled_back
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
    let env = last.and_then(|apply| apply.target.env.as_ref()).or(rule.from.last());
    let env = env.map_or("ENV", String::as_str);
    let (why, next) = match last {
        None => {
            let next = format!("apply it there with `slipway unit apply --to {env}`");
            ("it was never applied there".to_owned(), next)
        }
        Some(apply) => {
            let id = &apply.apply_id;
            match (apply.status, apply.verified) {
                (ApplyStatus::Succeeded, _) if apply.rolled_back => (
                    format!("its target was rolled back after apply {id}"),
                    format!("apply it there again with `slipway unit apply --to {env}`"),
                ),
                (ApplyStatus::Succeeded, None) => (
                    format!("apply {id} was not verified"),
                    format!("verify what runs there with `slipway unit verify --to {env}`"),
                ),
                (ApplyStatus::Succeeded, Some(_)) => (
                    format!("apply {id} was not verified: its checks failed"),
                    format!(
                        "`slipway unit replay --apply {id}` shows them; then `slipway unit verify --to {env}`"
                    ),
                ),
                (ApplyStatus::Paused | ApplyStatus::Interrupted, _) => (
                    format!("apply {id} is {}", apply.status),
                    format!("go on with it: `slipway unit resume --to {env}`"),
                ),
                (ApplyStatus::Failed | ApplyStatus::Aborted, _) => (
                    format!("apply {id} ended as {}", apply.status),
                    format!(
                        "`slipway unit replay --apply {id}` shows why; then `slipway unit apply --to {env}`"
                    ),
                ),
            }
        }
    };
    let problem = Problem::error(format!("the unit is not verified in {place}: {why}"));
    let problem = problem.hint(format!("{next}, or promote without evidence with --allow-unverified"));
    Err(UnitError::NoEvidence(Box::new(problem)))
}
