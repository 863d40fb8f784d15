//! Tries a strategy on a copy of its namespace in the embedded cluster.

use slipway_event::Events;
use slipway_rehearsal::{RehearsalError, Stage, StageScope, stage_options, staged_request};
use slipway_release::{ReleaseContent, ReleaseRequest};

use super::log::MemoryLog;
use super::rollout::{Pace, RolloutContext};
use super::run::deploy;
use super::settings::Strategy;
use crate::deploy::DeployOutcome;
use crate::error::UnitError;
use crate::ledger::StepRecord;

use super::log::StepLog as _;

/// A rehearsal that was held.
#[derive(Debug)]
pub struct RehearsedStrategy {
    pub outcome: DeployOutcome,
    /// Every state of every step.
    pub steps: Vec<StepRecord>,
    pub copied_objects: usize,
}

/// Carries a strategy out on a copy; nothing in the cluster is written, and no pause is waited for.
pub async fn rehearse_strategy(
    strategy: &Strategy,
    context: &RolloutContext<'_>,
) -> Result<RehearsedStrategy, UnitError> {
    let silent = Events::silent();
    let content = ReleaseContent::Rendered(Box::new(context.rendered.clone()));
    let request = ReleaseRequest { content, ..context.request.clone() };
    let plan = slipway_release::plan(context.cluster, &request, &silent).await?;
    let mut scope = StageScope::of_plan(&plan);
    // Whatever is in the namespace has a say: Services, autoscalers, quotas, routes.
    scope.namespaces.push(request.namespace.to_string());
    let stage = Stage::copy_of(context.cluster, &scope).await.map_err(not_held)?;
    let options = stage_options(context.options, &plan, stage.unattended_groups().to_vec());
    let request = staged_request(&request);
    let (cluster, log) = (stage.cluster(), MemoryLog::default());
    let trial = RolloutContext {
        cluster: &cluster,
        request: &request,
        options: &options,
        log: &log,
        events: &silent,
        pace: Pace::WithoutPauses,
        ..context.clone()
    };
    let outcome = Box::pin(deploy(strategy, &trial)).await?;
    Ok(RehearsedStrategy { outcome, steps: log.records()?, copied_objects: stage.copied_objects() })
}

fn not_held(error: RehearsalError) -> UnitError {
    match error {
        RehearsalError::Failed(problems) => UnitError::Problems(problems),
        RehearsalError::Refused(problems) => UnitError::Refused(problems),
        RehearsalError::Cluster(error) => UnitError::Cluster(error),
        other => UnitError::problem(other.to_string()),
    }
}
