//! Applies units: prove, check, lock, write the intent, roll out, verify, write the end.

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_cluster::lock::{ClusterLock, HeldLock, LockError, LockOptions};
use slipway_cluster::{Cluster, NamespaceCreation};
use slipway_event::{Events, Memory};
use slipway_problem::Problem;
use slipway_release::{ExecuteOptions, MissingNamespace, PlanOptions, ReleaseReport, ReleaseStatus};
use tokio_util::sync::CancellationToken;

use crate::container::UnitFile;
use crate::deploy::{DeployContext, DeployOutcome};
use crate::deployed::mark_verification;
use crate::error::UnitError;
use crate::evidence::{EvidenceRule, applies, require_evidence};
use crate::ledger::{ApplyLedger, ApplyStatus, EntryKind, LedgerEntry, UnitLedger, UnitTarget};
use crate::overlay::Overlay;
use crate::plan::{PlanContext, UNIT_DIGEST, UnitPlan, plan_unit};
use crate::proof::SecretUse;
use crate::rollback::roll_back;
use crate::strategy;
use crate::verify::{VerifyBaseline, VerifyOptions, VerifyReport, VerifyRequest, run_checks, take_baseline};

/// The manager of what units write by themselves.
const MANAGER: &str = "slipway";
/// The most events of an apply that are kept.
const MOST_EVENTS: usize = 20_000;

/// The treatment of a unit that is deployed already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedApply {
    /// Nothing is done.
    #[default]
    Skip,
    Force,
}

/// The reaction to a verification that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedVerification {
    /// The apply is reported as failed, and the release stays.
    #[default]
    Hold,
    /// The release goes back to its last good revision.
    Rollback,
}

/// Evidence from elsewhere that an apply needs.
#[derive(Clone, Debug, PartialEq)]
pub enum EvidenceNeed {
    /// A plain apply.
    None,
    /// A promotion: verified in one of these environments.
    From(EvidenceRule),
    /// A promotion that somebody answers for.
    Waived,
}

/// An apply or a promotion of a unit.
#[derive(Clone)]
pub struct ApplyRequest<'a> {
    pub unit: &'a UnitFile,
    pub target: UnitTarget,
    pub overlay: Option<Overlay>,
    pub plan: PlanOptions,
    pub execute: ExecuteOptions,
    pub repeated: RepeatedApply,
    pub evidence: EvidenceNeed,
    /// None verifies nothing: the apply is no evidence then.
    pub verify: Option<VerifyOptions>,
    pub on_failure: FailedVerification,
    /// Another strategy than the unit's own.
    pub strategy: Option<Value>,
}

/// Everything an apply works with besides.
#[derive(Clone)]
pub struct ApplyContext<'a> {
    pub plan: PlanContext<'a>,
    pub ledger: UnitLedger,
    pub cancel: CancellationToken,
    /// Keeps the events of the run, to be written to the ledger.
    pub recorder: Option<Arc<Memory>>,
}

/// The end of an apply.
#[derive(Debug)]
pub enum ApplyOutcome {
    /// The target runs this unit already.
    AlreadyApplied {
        revision: u32,
    },
    Applied {
        apply_id: String,
        report: Box<ReleaseReport>,
        verification: Option<VerifyReport>,
    },
    Paused {
        apply_id: String,
        step: String,
    },
    TakenBack {
        apply_id: String,
        why: String,
    },
}

/// Applies a unit. Nothing in the cluster changes before the intent is in the ledger.
pub async fn apply_unit(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
) -> Result<ApplyOutcome, UnitError> {
    let ApplyRequest { unit, target, .. } = request;
    let entries = context.ledger.entries()?;
    let evidence = match &request.evidence {
        EvidenceNeed::None => Value::Null,
        EvidenceNeed::Waived => json!({"waived": true}),
        EvidenceNeed::From(rule) => {
            let proof = require_evidence(&entries, target, rule)?;
            json!({"applyId": proof.apply_id, "env": proof.target.env})
        }
    };
    let planned = plan_for_apply(request, &entries, context).await?;
    if let Some(report) = planned.policy.as_ref().filter(|report| report.is_denied()) {
        return Err(UnitError::Refused(report.problems()));
    }
    let is_forced = request.repeated == RepeatedApply::Force;
    if let Some(revision) = planned.applied_revision.filter(|_| !is_forced) {
        return Ok(ApplyOutcome::AlreadyApplied { revision });
    }
    check_interrupted(&entries, target, unit)?;
    let cluster = context.plan.cluster;
    let lock = acquire_lock(cluster, target, context.plan.events).await?;
    let gated = cluster.with_write_gate(lock.write_gate());
    let applied = Box::pin(apply_locked(request, context, planned, evidence, &gated)).await;
    let _ = lock.release().await;
    applied
}

async fn plan_for_apply(
    request: &ApplyRequest<'_>,
    entries: &[LedgerEntry],
    context: &ApplyContext<'_>,
) -> Result<UnitPlan, UnitError> {
    let ApplyRequest { unit, target, overlay, .. } = request;
    let mut options = request.plan.clone();
    if request.repeated == RepeatedApply::Force {
        options.new_revision = true;
    }
    plan_unit(unit, target, overlay.as_ref(), SecretUse::Fetch, options, entries, &context.plan).await
}

/// Refuses to begin while an earlier rollout by steps is unfinished: what it left is for `resume` or `abort`.
fn check_interrupted(entries: &[LedgerEntry], target: &UnitTarget, unit: &UnitFile) -> Result<(), UnitError> {
    let open = applies(entries)
        .into_iter()
        .rev()
        .find(|apply| apply.target.is_same_place(target) && apply.status.is_open());
    let Some(open) = open.filter(|_| unit.strategy().is_some()) else { return Ok(()) };
    let has_steps = entries
        .iter()
        .any(|entry| entry.kind == EntryKind::ApplyStep && entry.apply_id() == Some(open.apply_id.as_str()));
    if !has_steps {
        return Ok(());
    }
    let problem = Problem::error(format!("apply {} of this unit is {}", open.apply_id, open.status));
    Err(problem.hint("go on with `slipway unit resume`, or take it back with `slipway unit abort`").into())
}

pub(crate) async fn acquire_lock(
    cluster: &Cluster,
    target: &UnitTarget,
    events: &Events,
) -> Result<HeldLock, UnitError> {
    cluster.ensure_namespace(&target.namespace, MANAGER, NamespaceCreation::Create).await?;
    let name = format!("unit/{}", target.release);
    let held = ClusterLock::acquire(cluster, &target.namespace, &name, &LockOptions::default(), events).await;
    held.map_err(|error| match error {
        error @ LockError::Held { .. } => UnitError::Locked(error.to_string()),
        LockError::Cluster(error) => error.into(),
    })
}

async fn apply_locked(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
    planned: UnitPlan,
    evidence: Value,
    cluster: &Cluster,
) -> Result<ApplyOutcome, UnitError> {
    let ApplyRequest { unit, target, .. } = request;
    let before = last_unit(&planned);
    let baseline = match &request.verify {
        Some(_) => Some(take_baseline(cluster, &planned.request, &planned.proven.rendered).await?),
        None => None,
    };
    let started = json!({
        "unit": unit.digest(), "objectSet": planned.proven.object_set, "overlay": planned.proven.overlay,
        "evidence": evidence, "before": before, "policy": planned.policy,
        "strategy": request.strategy.as_ref().or(unit.strategy()),
    });
    if !evidence.is_null() {
        context.ledger.append(
            EntryKind::Promotion,
            target,
            json!({"evidence": evidence, "overlay": planned.proven.overlay}),
        )?;
    }
    let ledger = ApplyLedger::start(context.ledger.clone(), target.clone(), started)?;
    let rolled = roll_out(request, context, &planned, &ledger, cluster).await;
    finish_apply(request, context, &planned, &ledger, rolled, baseline, cluster).await
}

/// Goes on with an apply whose beginning is in the ledger.
pub(crate) async fn resume_locked(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
    planned: UnitPlan,
    ledger: ApplyLedger,
    cluster: &Cluster,
) -> Result<ApplyOutcome, UnitError> {
    let baseline = match &request.verify {
        Some(_) => Some(take_baseline(cluster, &planned.request, &planned.proven.rendered).await?),
        None => None,
    };
    let rolled = roll_out(request, context, &planned, &ledger, cluster).await;
    finish_apply(request, context, &planned, &ledger, rolled, baseline, cluster).await
}

/// The unit that was deployed before.
fn last_unit(planned: &UnitPlan) -> Value {
    let last = planned.release.history.last_deployed();
    last.map_or(
        Value::Null,
        |last| json!({"revision": last.version, "unit": last.info.annotations.get(UNIT_DIGEST)}),
    )
}

/// Rolls the objects out: by the unit's strategy, or as a plain release.
async fn roll_out(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
    planned: &UnitPlan,
    ledger: &ApplyLedger,
    cluster: &Cluster,
) -> Result<DeployOutcome, UnitError> {
    let mut release = planned.request.clone();
    // The namespace was made for the lock.
    release.options.missing_namespace = MissingNamespace::Create;
    let deploy = DeployContext {
        cluster,
        request: &release,
        rendered: &planned.proven.rendered,
        options: &request.execute,
        ledger,
        events: context.plan.events,
        cancel: context.cancel.clone(),
    };
    match request.strategy.as_ref().or(request.unit.strategy()) {
        Some(json) => strategy::deploy(&strategy::Strategy::parse(json)?, &(&deploy).into()).await,
        None => deploy_plainly(&deploy).await,
    }
}

/// Deploys a release as a whole.
pub(crate) async fn deploy_plainly(context: &DeployContext<'_>) -> Result<DeployOutcome, UnitError> {
    let DeployContext { cluster, request, options, events, cancel, .. } = context;
    let report = slipway_release::apply(cluster, request, options, events, cancel.clone()).await?;
    Ok(DeployOutcome::Deployed(Box::new(report)))
}

async fn finish_apply(
    request: &ApplyRequest<'_>,
    context: &ApplyContext<'_>,
    planned: &UnitPlan,
    ledger: &ApplyLedger,
    rolled: Result<DeployOutcome, UnitError>,
    baseline: Option<VerifyBaseline>,
    cluster: &Cluster,
) -> Result<ApplyOutcome, UnitError> {
    let apply_id = ledger.apply_id().to_string();
    let report = match rolled {
        Ok(DeployOutcome::Deployed(report)) => report,
        Ok(DeployOutcome::Paused { step }) => {
            keep_events(context, ledger)?;
            ledger.finish(ApplyStatus::Paused, json!({"step": step}))?;
            return Ok(ApplyOutcome::Paused { apply_id, step });
        }
        Ok(DeployOutcome::TakenBack { why }) => {
            keep_events(context, ledger)?;
            ledger.finish(ApplyStatus::Aborted, json!({"error": why}))?;
            return Ok(ApplyOutcome::TakenBack { apply_id, why });
        }
        Err(error) => {
            keep_events(context, ledger)?;
            let mut text = error.to_string();
            context.plan.events.redactor().redact_in_place(&mut text);
            ledger.finish(ApplyStatus::Failed, json!({"error": text}))?;
            return Err(error);
        }
    };
    let revision = report.revision.get();
    let mut verification = None;
    if let (Some(options), Some(baseline)) = (&request.verify, baseline) {
        let checks = VerifyRequest {
            unit: Some(request.unit),
            request: &planned.request,
            rendered: &planned.proven.rendered,
            baseline,
            options: options.clone(),
        };
        let found = run_checks(cluster, &checks, context.plan.events).await?;
        ledger.record_verification(&found)?;
        let (driver, now) = (planned.request.options.driver, context.plan.now);
        let verified = found.is_passed().then_some(now);
        mark_verification(cluster, &request.target, request.unit, driver, verified).await?;
        verification = Some(found);
    }
    let is_good = verification.as_ref().is_none_or(VerifyReport::is_passed);
    keep_events(context, ledger)?;
    let status = if is_good { ApplyStatus::Succeeded } else { ApplyStatus::Failed };
    let rollback = match request.on_failure {
        FailedVerification::Rollback if !is_good => {
            Some(roll_back(request, None, Some(ledger.apply_id()), context, cluster).await)
        }
        _ => None,
    };
    ledger.finish(
        status,
        json!({
            "revision": revision, "objectSet": planned.proven.object_set, "notes": report.notes,
            "skipped": report.status == ReleaseStatus::Skipped,
            "error": verification.as_ref().filter(|found| !found.is_passed()).map(VerifyReport::likely_cause),
            "rollback": rollback.as_ref().and_then(|back| back.as_ref().ok()).map(|back| back.revision.get()),
        }),
    )?;
    rollback.transpose()?;
    Ok(ApplyOutcome::Applied { apply_id, report, verification })
}

/// Keeps the events of the run, which have no secrets.
pub(crate) fn keep_events(context: &ApplyContext<'_>, ledger: &ApplyLedger) -> Result<(), UnitError> {
    let Some(recorder) = &context.recorder else { return Ok(()) };
    let mut records = recorder.drain();
    if records.is_empty() {
        return Ok(());
    }
    records.truncate(MOST_EVENTS);
    let mut content = Vec::new();
    for record in &records {
        content.extend(serde_json::to_vec(record).unwrap_or_default());
        content.push(b'\n');
    }
    ledger.append_content(EntryKind::ApplyEvents, json!({"count": records.len()}), &content).map(drop)
}
