//! The end of a Bundle: what it leaves behind, the Bundles that take it back, and life without a pipeline.

use std::time::Duration;

use jiff::Timestamp;
use slipway_cluster::DeletePropagation;

use super::graph::GraphLookup;
use super::org_gates;
use super::outcome::{StatusDraft, condition};
use super::reconcile::{BundleReconciler, QUEUE_CHECK, ReconcileError};
use crate::Requeue;
use crate::kinds::{self, Bundle, BundlePhase, ConditionStatus, Pipeline, find_condition};
use crate::rollback::{RollbackSkip, plan_rollbacks};

/// The time the steps of a superseded Bundle have to end by themselves.
const CANCEL_PATIENCE: Duration = Duration::from_secs(60);

impl BundleReconciler {
    /// Keeps a Bundle for a while after its pipeline is gone: it may only be replaced.
    pub(super) async fn outlive_pipeline(
        &self,
        bundle: &Bundle,
        pipeline: &str,
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        let missing = find_condition(&bundle.status.conditions, condition::PIPELINE_MISSING)
            .filter(|condition| condition.status == ConditionStatus::True);
        let since = missing.and_then(|condition| condition.last_transition_time.parse::<Timestamp>().ok());
        let Some(since) = since else {
            let mut draft = StatusDraft::new(bundle, now);
            let message = format!("pipeline {pipeline} does not exist");
            draft.set(condition::PIPELINE_MISSING, ConditionStatus::True, "NotFound", &message);
            if bundle.phase() == BundlePhase::Available {
                draft.phase(BundlePhase::Available, "PipelineMissing", message);
            }
            self.write(bundle, draft).await?;
            return Ok(Requeue::after(now, self.options.orphan_grace));
        };
        let until = Requeue::after(since, self.options.orphan_grace);
        if until > Requeue::At(now) {
            return Ok(until);
        }
        kinds::delete(&self.cluster, bundle, DeletePropagation::Background).await?;
        Ok(Requeue::Done)
    }

    /// Removes what a superseded Bundle has left behind.
    pub(super) async fn clean_up(&self, bundle: &Bundle, now: Timestamp) -> Result<Requeue, ReconcileError> {
        let pending = find_condition(&bundle.status.conditions, condition::CLEANUP_PENDING)
            .filter(|condition| condition.status == ConditionStatus::True);
        let Some(pending) = pending else { return Ok(Requeue::Done) };
        let steps = self.steps_of(bundle).await?;
        match self.find_graph(bundle).await? {
            GraphLookup::Own(graph) => {
                // Steps close their pull requests and say why; one that nobody carries out is not waited for.
                let since = pending.last_transition_time.parse::<Timestamp>().unwrap_or(now);
                let patience = Requeue::after(since, CANCEL_PATIENCE);
                if steps.iter().any(|step| !step.state().is_terminal()) && patience > Requeue::At(now) {
                    return Ok(patience);
                }
                self.delete_graph(bundle, &graph).await?;
                return Ok(Requeue::after(now, QUEUE_CHECK));
            }
            GraphLookup::Occupied => return Ok(Requeue::after(now, QUEUE_CHECK)),
            GraphLookup::Absent => {}
        }
        if !steps.is_empty() {
            return Ok(Requeue::after(now, QUEUE_CHECK));
        }
        let namespaces = &self.options.policy_namespaces;
        let gates =
            org_gates::of_bundle(&self.cluster, namespaces, bundle.namespace(), bundle.name()).await?;
        org_gates::remove(&self.cluster, &gates).await?;
        let mut draft = StatusDraft::new(bundle, now);
        draft.set(condition::CLEANUP_PENDING, ConditionStatus::False, "Removed", "");
        self.write(bundle, draft).await?;
        Ok(Requeue::Done)
    }

    /// Creates the Bundles that take a failed one back, or one that fails.
    pub(super) async fn take_back(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        siblings: &[Bundle],
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        let plan = plan_rollbacks(pipeline, bundle, siblings);
        let mut draft = StatusDraft::new(bundle, now);
        for rollback in &plan.bundles {
            match kinds::create(&self.cluster, rollback).await {
                Err(error) if error.is_already_there() => {}
                other => drop(other?),
            }
            let environment = rollback.spec.intent().target.unwrap_or_default();
            if let Some(record) = draft.status.environments.get_mut(&environment) {
                record.rolled_back_by = Some(rollback.name().to_owned());
            }
        }
        let without: Vec<&str> = plan
            .notes
            .iter()
            .filter(|note| note.skip == RollbackSkip::NoTarget)
            .map(|note| note.environment.as_str())
            .collect();
        if !without.is_empty() {
            let message = format!("nothing was verified before in {}", without.join(", "));
            let reason = RollbackSkip::NoTarget.reason();
            draft.set(condition::ROLLED_BACK, ConditionStatus::False, reason, message);
        }
        if !plan.bundles.is_empty() {
            let metrics = draft.status.metrics.get_or_insert_default();
            metrics.auto_rollbacks += u32::try_from(plan.bundles.len()).unwrap_or(u32::MAX);
        }
        self.write(bundle, draft).await?;
        Ok(Requeue::Done)
    }
}
