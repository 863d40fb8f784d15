//! Takes a target back to what it ran before a unit.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_event::RunId;
use slipway_release::{ReleaseContent, ReleaseReport, ReleaseRequest};

use crate::apply::{ApplyContext, ApplyRequest, acquire_lock};
use crate::error::UnitError;
use crate::ledger::EntryKind;

/// The state of a rollback: the ledger has one entry for its beginning and one for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RollbackStatus {
    /// Written before anything changes.
    Started,
    Succeeded,
    Failed,
}

/// Rolls a target back to a revision, or its last good one before the current. The intent is in the ledger before anything
/// changes, the end after.
pub async fn rollback_unit(
    request: &ApplyRequest<'_>,
    revision: Option<u32>,
    context: &ApplyContext<'_>,
) -> Result<ReleaseReport, UnitError> {
    let lock = acquire_lock(context.plan.cluster, &request.target, context.plan.events).await?;
    let cluster = context.plan.cluster.with_write_gate(lock.write_gate());
    let report = Box::pin(roll_back(request, revision, None, context, &cluster)).await;
    let _ = lock.release().await;
    report
}

/// Rolls a release back under the lock of its unit: by itself, or as the end of an apply. The revision it makes belongs
/// to the unit it goes back to, not to this one.
pub(crate) async fn roll_back(
    request: &ApplyRequest<'_>,
    to: Option<u32>,
    apply_id: Option<&RunId>,
    context: &ApplyContext<'_>,
    cluster: &Cluster,
) -> Result<ReleaseReport, UnitError> {
    let (target, ledger) = (&request.target, &context.ledger);
    let back = ReleaseRequest {
        name: target.release.as_str().into(),
        namespace: target.namespace.as_str().into(),
        content: ReleaseContent::Revision(to),
        options: request.plan.clone(),
    };
    let rollback_id = RunId::generate(&**ledger.clock());
    let record = |status: RollbackStatus, revision: Option<u32>, error: Option<String>| {
        let mut payload = json!({"rollbackId": rollback_id.as_str(), "applyId": apply_id.map(RunId::as_str), "to": to,
                   "status": status, "revision": revision, "error": error});
        if let Some(fields) = payload.as_object_mut() {
            fields.retain(|_, value| *value != Value::Null);
        }
        ledger.append(EntryKind::Rollback, target, payload)
    };
    record(RollbackStatus::Started, None, None)?;
    let events = context.plan.events;
    match slipway_release::apply(cluster, &back, &request.execute, events, context.cancel.clone()).await {
        Ok(report) => {
            record(RollbackStatus::Succeeded, Some(report.revision.get()), None)?;
            Ok(report)
        }
        Err(failure) => {
            let mut text = failure.to_string();
            events.redactor().redact_in_place(&mut text);
            // The failure is what the user must know of, also where it cannot be written.
            let _ = record(RollbackStatus::Failed, None, Some(text));
            Err(failure.into())
        }
    }
}
