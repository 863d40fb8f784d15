//! Goes on with a rollout that paused or was killed, or takes it back.

use serde_json::{Value, json};
use slipway_problem::Problem;

use crate::apply::{ApplyContext, ApplyOutcome, ApplyRequest, acquire_lock, resume_locked};
use crate::error::UnitError;
use crate::evidence::{AppliedUnit, applies};
use crate::ledger::{ApplyLedger, ApplyStatus, EntryKind, LedgerEntry, UnitTarget};
use crate::overlay::Overlay;
use crate::plan::plan_unit;
use crate::proof::SecretUse;
use crate::strategy::{AbortOutcome, AbortRequest, StepLog, abort};

/// The last apply to a target.
fn last_apply(entries: &[LedgerEntry], target: &UnitTarget) -> Option<AppliedUnit> {
    applies(entries).into_iter().rev().find(|apply| apply.target.is_same_place(target))
}

/// The last unfinished apply to a target.
fn open_apply(entries: &[LedgerEntry], target: &UnitTarget) -> Result<AppliedUnit, UnitError> {
    match last_apply(entries, target) {
        Some(apply) if apply.status.is_open() => Ok(apply),
        Some(AppliedUnit { apply_id, status, .. }) => {
            let message =
                format!("apply {apply_id} to {target} ended as {status}: there is nothing to go on with");
            let hint = format!(
                "`slipway unit replay --apply {apply_id}` shows what it did; `slipway unit apply` begins anew"
            );
            Err(Problem::error(message).hint(hint).into())
        }
        None => {
            let problem = Problem::error(format!("this unit was never applied to {target}"));
            let hint = "begin with `slipway unit apply`; `slipway unit inspect` lists the applies of a unit with their targets";
            Err(problem.hint(hint).into())
        }
    }
}

/// The facts an apply began with.
fn started<'e>(entries: &'e [LedgerEntry], apply: &AppliedUnit) -> Option<&'e Value> {
    let is_start = |entry: &&LedgerEntry| {
        entry.kind == EntryKind::ApplyStarted && entry.apply_id() == Some(apply.apply_id.as_str())
    };
    entries.iter().find(is_start).map(|entry| &entry.payload)
}

/// Goes on with the last apply to a target where its ledger ends. The overlay must be the one it began with.
pub async fn resume_unit(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
) -> Result<ApplyOutcome, UnitError> {
    let entries = context.ledger.entries()?;
    let apply = open_apply(&entries, &request.target)?;
    let given = request.overlay.as_ref().map(Overlay::digest);
    if given != apply.overlay.as_deref() {
        let problem = Problem::error(format!("apply {} began with another overlay", apply.apply_id));
        let hint = match apply.overlay {
            Some(_) => "give the overlay it began with: --overlay FILE",
            None => "it began without one: leave --overlay out",
        };
        return Err(problem.hint(hint).into());
    }
    let began =
        started(&entries, &apply).and_then(|payload| payload.get("strategy")).filter(|json| !json.is_null());
    let request = ApplyRequest { strategy: began.cloned(), ..request.clone() };
    let ApplyRequest { unit, target, overlay, .. } = &request;
    let mut options = request.plan.clone();
    // A rollout that promoted already has its revision; one that did not makes it.
    options.new_revision = false;
    let planned =
        plan_unit(unit, target, overlay.as_ref(), SecretUse::Fetch, options, &entries, &context.plan).await?;
    if let Some(report) = planned.policy.as_ref().filter(|report| report.is_denied()) {
        return Err(UnitError::Refused(report.problems()));
    }
    let lock = acquire_lock(context.plan.cluster, target, context.plan.events).await?;
    let cluster = context.plan.cluster.with_write_gate(lock.write_gate());
    let ledger = ApplyLedger::resume(context.ledger.clone(), target.clone(), &apply)?;
    let outcome = Box::pin(resume_locked(&request, context, planned, ledger, &cluster)).await;
    let _ = lock.release().await;
    outcome
}

/// Takes the last rollout to a target back. Objects it left are found by their labels, also where no ledger knows of it. Fails
/// where there was nothing to take back, unless that is because of an abort before.
pub async fn abort_unit(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
) -> Result<AbortOutcome, UnitError> {
    let target = &request.target;
    let entries = context.ledger.entries()?;
    let last = last_apply(&entries, target);
    let ledger = match &last {
        Some(apply) if apply.status.is_open() => {
            Some(ApplyLedger::resume(context.ledger.clone(), target.clone(), apply)?)
        }
        _ => None,
    };
    let lock = acquire_lock(context.plan.cluster, target, context.plan.events).await?;
    let cluster = context.plan.cluster.with_write_gate(lock.write_gate());
    let aborted = abort(&AbortRequest {
        cluster: &cluster,
        namespace: &target.namespace,
        release: &target.release,
        log: ledger.as_ref().map(|ledger| ledger as &dyn StepLog),
        events: context.plan.events,
        timeout: request.execute.readiness_timeout,
    })
    .await;
    let _ = lock.release().await;
    let aborted = aborted?;
    if let Some(ledger) = ledger {
        let removed: Vec<String> = aborted.removed.iter().map(ToString::to_string).collect();
        ledger.finish(ApplyStatus::Aborted, json!({"removed": removed}))?;
        return Ok(aborted);
    }
    match last {
        Some(AppliedUnit { apply_id, status, .. })
            if status != ApplyStatus::Aborted && aborted.removed.is_empty() =>
        {
            let message =
                format!("apply {apply_id} to {target} ended as {status}: there is nothing to take back");
            let hint = "`slipway unit rollback` goes back to what ran before";
            Err(Problem::error(message).hint(hint).into())
        }
        _ => Ok(aborted),
    }
}
