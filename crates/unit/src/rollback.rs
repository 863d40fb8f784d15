//! Takes a target back to what it ran before a unit.

use serde_json::json;
use slipway_release::{ReleaseContent, ReleaseReport, ReleaseRequest};

use crate::apply::{ApplyContext, ApplyRequest, acquire_lock};
use crate::error::UnitError;
use crate::ledger::EntryKind;

/// Rolls a target back to its last good revision before the current one; the ledger says so.
pub async fn rollback_unit(
    request: &ApplyRequest<'_>,
    revision: Option<u32>,
    context: &ApplyContext<'_>,
) -> Result<ReleaseReport, UnitError> {
    let target = &request.target;
    let lock = acquire_lock(context.plan.cluster, target, context.plan.events).await?;
    let cluster = context.plan.cluster.with_write_gate(lock.write_gate());
    let back = ReleaseRequest {
        name: target.release.as_str().into(),
        namespace: target.namespace.as_str().into(),
        content: ReleaseContent::Revision(revision),
        options: request.plan.clone(),
    };
    let events = context.plan.events;
    let report =
        slipway_release::apply(&cluster, &back, &request.execute, events, context.cancel.clone()).await;
    let _ = lock.release().await;
    let report = report?;
    context.ledger.append(
        EntryKind::Rollback,
        target,
        json!({"revision": report.revision.get(), "to": revision, "status": report.status}),
    )?;
    Ok(report)
}
