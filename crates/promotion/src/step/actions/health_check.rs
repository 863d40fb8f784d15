//! `health-check`: waits until the environment runs the change and is well, and its gates say so too.

use crate::health::{BranchHistory, HealthPolicy, HealthProof, HealthTarget, HealthVerdict, judge};
use crate::kinds::{GateTiming, PromotionStep};
use crate::step::context::StepContext;
use crate::step::outcome::{StepError, StepFailure, StepOutput, StepProgressed};
use crate::step::pull_request::read_gates;

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    let now = context.now();
    let access = context.access().await.ok();
    let history = match (access, context.branches()) {
        (Some(access), Ok(branches)) => {
            Some(BranchHistory { repository: access.repository.clone(), branch: branches.base })
        }
        _ => None,
    };
    let target = HealthTarget::of(context.step);
    let seen = PromotionStep { status: context.status.clone(), ..context.step.clone() };
    let mut proof = HealthProof::of(&seen, &context.bundle.spec.artifacts.images);
    proof.started_at = current_start(context);
    if let Some(history) = &history {
        proof = proof.with_history(history);
    }
    let report = context.shared.health.check(&target, &proof).await;
    drop(proof);
    let mut policy = HealthPolicy::of(&context.step.spec);
    policy.generation = context.step.metadata.generation;
    match judge(context.status, &policy, &report, now) {
        HealthVerdict::Wait { until } => {
            Ok(StepProgressed::Wait { until, message: report.observation.message })
        }
        HealthVerdict::Failed { state, reason, message } => {
            Err(StepError::Failed(StepFailure { state, reason: reason.to_owned(), message }))
        }
        HealthVerdict::Verified => after_gates(context, report.observation.message).await,
    }
}

fn current_start(context: &StepContext<'_>) -> Option<jiff::Timestamp> {
    context.status.steps.get(context.index).and_then(|progress| progress.started_at)
}

/// Waits for the gates that are evaluated after the deployment.
async fn after_gates(context: &StepContext<'_>, message: String) -> Result<StepProgressed, StepError> {
    let now = context.now();
    let gates = read_gates(context).await?;
    let after = gates.iter().filter(|required| {
        required.gate.as_ref().is_some_and(|gate| gate.spec.when == GateTiming::PostDeploy)
    });
    let closed = after
        .clone()
        .find(|required| !required.gate.as_ref().is_some_and(|gate| crate::gate::is_open(gate, now)));
    let Some(closed) = closed else { return Ok(StepOutput::new(message).into()) };
    if let Some(expiry) = context.status.health_check_expiry.filter(|expiry| *expiry <= now) {
        let message = format!("the gate `{}` did not open until {expiry}", closed.shown_name());
        return Err(StepError::failed("GateTimeout", message));
    }
    let next = now.saturating_add(crate::health::CHECK_INTERVAL).unwrap_or(now);
    let message = format!("healthy; the gate `{}` is closed", closed.shown_name());
    Ok(StepProgressed::Wait { until: next, message })
}
