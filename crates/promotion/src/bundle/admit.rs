//! Admission of a Bundle: whether it may start, and the Graph it starts with.

use jiff::Timestamp;

use super::admission::{admission_hash, covered_environments, decide_skips, find_hold};
use super::outcome::{StatusDraft, condition};
use super::reconcile::{BundleReconciler, GRAPH_PATIENCE, QUEUE_CHECK, ReconcileError};
use crate::Requeue;
use crate::gate::SkipDecision;
use crate::kinds::{Bundle, BundleEnvironmentStatus, BundlePhase, ConditionStatus, Pipeline};
use crate::translate::BuildError;

impl BundleReconciler {
    /// Looks at a refused Bundle again if what refused it has changed.
    pub(super) async fn admit_again(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        siblings: &[Bundle],
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        if bundle.status.admission_hash.as_deref() == Some(&admission_hash(pipeline, bundle)) {
            return Ok(Requeue::Done);
        }
        self.admit(pipeline, bundle, siblings, now).await
    }

    /// Starts a Bundle, unless it has to wait or cannot be promoted at all.
    pub(super) async fn admit(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        siblings: &[Bundle],
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        let mut draft = StatusDraft::new(bundle, now);
        draft.settle(condition::PIPELINE_MISSING, ConditionStatus::False, "Found", "");
        draft.status.admission_hash = Some(admission_hash(pipeline, bundle));
        let left: Vec<String> = covered_environments(pipeline, bundle).into_iter().collect();
        if self.supersede(pipeline, bundle, siblings, &left, &[], &mut draft) {
            self.write(bundle, draft).await?;
            return Ok(Requeue::Done);
        }
        if let Some(hold) = find_hold(pipeline, bundle, siblings) {
            draft.phase(BundlePhase::Available, hold.reason, hold.message);
            self.write(bundle, draft).await?;
            return Ok(Requeue::after(now, QUEUE_CHECK));
        }
        let sources = self.graph_sources(pipeline, bundle).await?;
        let namespaces = &self.options.policy_namespaces;
        let skips = decide_skips(&self.evaluator, pipeline, bundle, &sources.gates, namespaces, now);
        let denied: Vec<String> =
            skips.iter().filter(|skip| !skip.is_allowed()).map(SkipDecision::message).collect();
        if !denied.is_empty() {
            let message = denied.join("; ");
            draft.set(condition::SKIP_PERMITTED, ConditionStatus::False, "SkipDenied", &message);
            draft.phase(BundlePhase::SkipDenied, "SkipDenied", message);
            self.write(bundle, draft).await?;
            return Ok(Requeue::Done);
        }
        let plan = match self.plan_graph(pipeline, bundle, &sources) {
            Ok(plan) => plan,
            Err(error) => return self.refuse(bundle, draft, &error).await,
        };
        if !skips.is_empty() {
            let message = skips.iter().map(SkipDecision::message).collect::<Vec<_>>().join("; ");
            draft.set(condition::SKIP_PERMITTED, ConditionStatus::True, "SkipAllowed", message);
        }
        for skip in &skips {
            let reason =
                skip.granted_by().map_or_else(|| skip.message(), |gate| format!("allowed by {gate}"));
            let record = BundleEnvironmentStatus {
                skipped: true,
                reason: Some(reason),
                ..BundleEnvironmentStatus::default()
            };
            draft.status.environments.insert(skip.environment.clone(), record);
        }
        draft.settle(condition::INVALID_SPEC, ConditionStatus::False, "Valid", "");
        draft.status.graph_ref = Some(plan.name.clone());
        draft.status.pipeline_generation = Some(pipeline.metadata.generation);
        draft.status.pipeline_spec_hash = Some(plan.spec_hash.clone());
        draft.status.step_definitions.clone_from(&plan.definitions);
        let environments = plan
            .environments
            .iter()
            .map(|environment| environment.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        draft.phase(BundlePhase::Promoting, "Promoting", format!("to {environments}"));
        // The name is on record before the Graph exists: whoever goes on after a crash finds it.
        let bundle = self.write(bundle, draft).await?;
        self.create_graph(pipeline, &bundle, &sources, &plan).await?;
        Ok(Requeue::after(now, GRAPH_PATIENCE))
    }

    pub(super) async fn refuse(
        &self,
        bundle: &Bundle,
        mut draft: StatusDraft<'_>,
        error: &BuildError,
    ) -> Result<Requeue, ReconcileError> {
        draft.set(condition::INVALID_SPEC, ConditionStatus::True, error.reason(), error.to_string());
        draft.phase(BundlePhase::Failed, error.reason(), error.to_string());
        self.write(bundle, draft).await?;
        Ok(Requeue::Done)
    }
}
