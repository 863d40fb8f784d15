//! Totals in ktl's words, for the documents of its layout: use with `#[serde(with = "slipway_journal::totals")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use slipway_graph::NodeTotals;

/// The counts of nodes by their state, as documents hold them.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "RunTotals")]
pub struct KtlTotals {
    planned: usize,
    succeeded: usize,
    failed: usize,
    skipped: usize,
    running: usize,
    blocked: usize,
    canceled: usize,
}

/// Writes totals. What ktl has no word for is part of `planned` alone.
pub fn serialize<S: Serializer>(totals: &NodeTotals, serializer: S) -> Result<S::Ok, S::Error> {
    KtlTotals {
        planned: totals.planned(),
        succeeded: totals.succeeded,
        failed: totals.failed,
        skipped: totals.skipped,
        running: totals.running,
        blocked: totals.blocked,
        canceled: totals.cancelled,
    }
    .serialize(serializer)
}

/// Reads totals; nodes of no known status are waiting.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeTotals, D::Error> {
    let read = KtlTotals::deserialize(deserializer)?;
    let mut totals = NodeTotals {
        succeeded: read.succeeded,
        failed: read.failed,
        skipped: read.skipped,
        running: read.running,
        blocked: read.blocked,
        cancelled: read.canceled,
        ..NodeTotals::default()
    };
    totals.waiting = read.planned.saturating_sub(totals.planned());
    Ok(totals)
}
