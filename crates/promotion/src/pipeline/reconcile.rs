//! Reconciles one Pipeline.

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::{Cluster, DeletePropagation, ListOptions};
use slipway_event::Clock;
use slipway_manifest::ObjectRef;

use super::summary::{active_bundle, deployment_metrics, environment_statuses, environment_summary};
use crate::Requeue;
use crate::bundle::{BundleReconciler, expired_bundles};
use crate::gate::freeze::active_freeze;
use crate::kinds::{
    self, Condition, ConditionStatus, KindError, NewCondition, Pipeline, PipelinePhase, PipelineSpec,
    PolicyGateSpec, labels, set_condition,
};
use crate::validate::validate_pipeline;

/// The time before a Secret that is missing is looked for again.
const SECRET_CHECK: Duration = Duration::from_secs(60);

/// Keeps the status of Pipelines, and their history within its limit.
#[derive(Clone)]
pub struct PipelineReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    bundles: BundleReconciler,
}

impl PipelineReconciler {
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>, bundles: BundleReconciler) -> Self {
        Self { cluster, clock, bundles }
    }

    /// Checks one Pipeline, sums its Bundles up and deletes those that are no longer kept.
    pub async fn reconcile(&self, namespace: &str, name: &str) -> Result<Requeue, KindError> {
        let pipeline = kinds::get::<PipelineSpec>(&self.cluster, namespace, name).await?;
        let Some(pipeline) = pipeline.filter(|pipeline| !pipeline.metadata.is_being_deleted()) else {
            return Ok(Requeue::Done);
        };
        let now = self.clock.now();
        let bundles = self.bundles.bundles_of(&pipeline).await?;
        for expired in expired_bundles(&pipeline, &bundles) {
            kinds::delete(&self.cluster, expired, DeletePropagation::Background).await?;
        }
        let frozen = ListOptions::with_labels(format!("{}=true", labels::FREEZE));
        let gates = kinds::list::<PolicyGateSpec>(&self.cluster, Some(namespace), &frozen).await?;
        let freeze = active_freeze(&gates, namespace, name);
        let problem = self.find_problem(&pipeline).await?;
        let mut status = pipeline.status.clone();
        status.observed_generation = Some(pipeline.metadata.generation);
        let active = active_bundle(&bundles);
        status.phase = Some(match (&problem, &freeze, active) {
            (Some(_), _, _) => PipelinePhase::Degraded,
            (None, Some(_), _) => PipelinePhase::Paused,
            (None, None, Some(_)) => PipelinePhase::Promoting,
            (None, None, None) => PipelinePhase::Ready,
        });
        status.active_bundle = active.map(|bundle| bundle.name().to_owned());
        status.environments = environment_statuses(&pipeline, &bundles);
        status.environment_summary = Some(environment_summary(&status.environments));
        status.deployment_metrics = deployment_metrics(&pipeline, &bundles, now);
        let next = match &problem {
            Some(problem) if problem.reason == "SecretMissing" => Requeue::after(now, SECRET_CHECK),
            _ => Requeue::Done,
        };
        set_ready(&mut status.conditions, &pipeline, problem, now);
        kinds::patch_status(&self.cluster, &pipeline, &status).await?;
        Ok(next)
    }

    /// Finds what keeps a Pipeline from working; every problem of its spec in one message.
    async fn find_problem(&self, pipeline: &Pipeline) -> Result<Option<PipelineTrouble>, KindError> {
        let problems = validate_pipeline(&pipeline.spec);
        if let Some(first) = problems.first() {
            let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Ok(Some(PipelineTrouble { reason: first.fault.reason(), message }));
        }
        let Some(secret) = &pipeline.spec.git.secret_ref else { return Ok(None) };
        let namespace = secret.namespace.as_deref().unwrap_or(pipeline.namespace());
        let at = ObjectRef::core("Secret", Some(namespace), &secret.name);
        Ok(match self.cluster.get(&at).await? {
            Some(_) => None,
            None => {
                Some(PipelineTrouble { reason: "SecretMissing", message: format!("{at} does not exist") })
            }
        })
    }
}

struct PipelineTrouble {
    reason: &'static str,
    message: String,
}

fn set_ready(
    conditions: &mut Vec<Condition>,
    pipeline: &Pipeline,
    problem: Option<PipelineTrouble>,
    now: jiff::Timestamp,
) {
    let (status, reason, message) = match problem {
        None => (ConditionStatus::True, "Valid", String::new()),
        Some(problem) => (ConditionStatus::False, problem.reason, problem.message),
    };
    let observed_generation = pipeline.metadata.generation;
    set_condition(
        conditions,
        NewCondition { kind: "Ready", status, reason, message, observed_generation },
        now,
    );
}
