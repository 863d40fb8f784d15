//! Reconciles one Bundle: reads everything about it, decides, and writes its status if that changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, Error, ListOptions};
use slipway_event::Clock;
use slipway_kro::ApiGroup;

use super::admission::covered_environments;
use super::graph::GraphLookup;
use super::org_gates;
use super::outcome::{StatusDraft, condition};
use super::progress::{derive_progress, environment_states, graph_environments};
use super::record::{EvidenceSources, record_environment};
use super::supersede::{SupersedeDecision, SupersedeInput, compare_age, decide_supersede, is_taken_back_by};
use crate::gate::GateEvaluator;
use crate::kinds::{
    self, Bundle, BundleEnvironmentStatus, BundleMetrics, BundlePhase, BundleSpec, BundleType,
    ConditionStatus, KindError, MetricCheck, MetricCheckSpec, Pipeline, PipelineSpec, PolicyGate,
    PolicyGateSpec, PromotionStep, PromotionStepSpec, StepState, labels,
};
use crate::translate::check_definition;
use crate::{PromotionOptions, Requeue};

/// The time a queued Bundle waits before it looks again.
pub(super) const QUEUE_CHECK: Duration = Duration::from_secs(30);
/// The time a Graph has to be taken up by its controller.
pub(super) const GRAPH_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// The time before a Graph's name is looked at again while another object has it.
const NAME_CHECK: Duration = Duration::from_secs(5);

/// Why a Bundle could not be reconciled; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Cluster(#[from] Error),
}

/// Takes Bundles from admission to their end.
#[derive(Clone)]
pub struct BundleReconciler {
    pub(super) cluster: Cluster,
    clock: Arc<dyn Clock>,
    pub(super) options: Arc<PromotionOptions>,
    pub(super) group: ApiGroup,
    pub(super) evaluator: Arc<GateEvaluator>,
}

impl BundleReconciler {
    pub fn new(
        cluster: Cluster,
        clock: Arc<dyn Clock>,
        options: Arc<PromotionOptions>,
        group: ApiGroup,
        evaluator: Arc<GateEvaluator>,
    ) -> Self {
        Self { cluster, clock, options, group, evaluator }
    }

    /// Brings one Bundle forward as far as it goes now.
    pub async fn reconcile(&self, namespace: &str, name: &str) -> Result<Requeue, ReconcileError> {
        let bundle = kinds::get::<BundleSpec>(&self.cluster, namespace, name).await?;
        let Some(bundle) = bundle.filter(|bundle| !bundle.metadata.is_being_deleted()) else {
            let gates =
                org_gates::of_bundle(&self.cluster, &self.options.policy_namespaces, namespace, name).await?;
            org_gates::remove(&self.cluster, &gates).await?;
            return Ok(Requeue::Done);
        };
        let now = self.clock.now();
        if bundle.spec.kind == BundleType::Group {
            return self.reconcile_group(&bundle, now).await;
        }
        let Some(pipeline_name) = bundle.pipeline().map(str::to_owned) else {
            let mut draft = StatusDraft::new(&bundle, now);
            let message = format!(
                "the bundle names no pipeline: set `spec.pipeline` or the label `{}`",
                labels::PIPELINE
            );
            draft.set(condition::INVALID_SPEC, ConditionStatus::True, "NoPipeline", &message);
            draft.phase(BundlePhase::Failed, "NoPipeline", message);
            return self.write(&bundle, draft).await.map(|_| Requeue::Done);
        };
        let bundle = self.with_label(bundle, &pipeline_name).await?;
        let Some(pipeline) = kinds::get::<PipelineSpec>(&self.cluster, namespace, &pipeline_name).await?
        else {
            return self.outlive_pipeline(&bundle, &pipeline_name, now).await;
        };
        let siblings = self.bundles_of(&pipeline).await?;
        match bundle.phase() {
            BundlePhase::Available => self.admit(&pipeline, &bundle, &siblings, now).await,
            BundlePhase::Promoting => self.promote(&pipeline, &bundle, &siblings, now).await,
            BundlePhase::Failed if bundle.status.graph_ref.is_some() => {
                match self.can_go_on(&bundle).await? {
                    true => self.promote(&pipeline, &bundle, &siblings, now).await,
                    false => self.take_back(&pipeline, &bundle, &siblings, now).await,
                }
            }
            BundlePhase::Failed | BundlePhase::SkipDenied => {
                self.admit_again(&pipeline, &bundle, &siblings, now).await
            }
            BundlePhase::Superseded => self.clean_up(&bundle, now).await,
            BundlePhase::Verified => Ok(Requeue::Done),
        }
    }

    /// The Bundles of a pipeline.
    pub(crate) async fn bundles_of(&self, pipeline: &Pipeline) -> Result<Vec<Bundle>, KindError> {
        let selector = format!("{}={}", labels::PIPELINE, labels::label_value(pipeline.name()));
        let options = ListOptions::with_labels(selector);
        let mut bundles =
            kinds::list::<BundleSpec>(&self.cluster, Some(pipeline.namespace()), &options).await?;
        bundles.retain(|bundle| bundle.pipeline() == Some(pipeline.name()) || bundle.spec.pipeline.is_none());
        Ok(bundles)
    }

    /// Labels a Bundle that names its pipeline in its spec, so that it is found by it.
    async fn with_label(&self, bundle: Bundle, pipeline: &str) -> Result<Bundle, ReconcileError> {
        let wanted = labels::label_value(pipeline);
        if bundle.metadata.label(labels::PIPELINE) == Some(wanted.as_str()) {
            return Ok(bundle);
        }
        Ok(kinds::patch_metadata(&self.cluster, &bundle, json!({"labels": {labels::PIPELINE: wanted}}))
            .await?)
    }

    pub(super) async fn write(
        &self,
        bundle: &Bundle,
        draft: StatusDraft<'_>,
    ) -> Result<Bundle, ReconcileError> {
        Ok(kinds::patch_status(&self.cluster, bundle, &draft.status).await?)
    }

    /// Follows the Graph of a Bundle.
    async fn promote(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        siblings: &[Bundle],
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        let mut draft = StatusDraft::new(bundle, now);
        let graph = match self.find_graph(bundle).await? {
            GraphLookup::Own(graph) => graph,
            GraphLookup::Occupied => return Ok(Requeue::after(now, NAME_CHECK)),
            GraphLookup::Absent => return self.recreate_graph(pipeline, bundle, draft, now).await,
        };
        let environments = graph_environments(&graph);
        let steps = self.own_steps(bundle).await?;
        let states = environment_states(&environments, &steps);
        let org_gates = org_gates::of_bundle(
            &self.cluster,
            &self.options.policy_namespaces,
            bundle.namespace(),
            bundle.name(),
        )
        .await?;
        org_gates::update_upstreams(&self.cluster, &org_gates, &states).await?;
        self.record(bundle, &mut draft, &states, &steps, org_gates).await?;
        let progress = derive_progress(&environments, &states);
        let step_states: Vec<StepState> = steps.iter().map(PromotionStep::state).collect();
        if self.supersede(pipeline, bundle, siblings, &progress.left, &step_states, &mut draft) {
            let bundle = self.write(bundle, draft).await?;
            return self.clean_up(&bundle, now).await;
        }
        let mut message = String::new();
        if progress.failed.is_empty() {
            draft.settle(condition::DEGRADED, ConditionStatus::False, "Recovered", "");
        } else {
            message = format!("failed in {}", progress.failed.join(", "));
            draft.set(condition::DEGRADED, ConditionStatus::True, "EnvironmentFailed", message.clone());
        }
        match progress.phase {
            BundlePhase::Verified => {
                draft.status.metrics = Some(bundle_metrics(bundle, &draft.status.environments, &steps));
                draft.phase(BundlePhase::Verified, "Verified", "verified in every environment");
            }
            BundlePhase::Failed => draft.phase(BundlePhase::Failed, "Failed", message),
            _ => {
                let names = progress.left.join(", ");
                draft.phase(BundlePhase::Promoting, "Promoting", format!("to {names}"));
            }
        }
        let next = follow_graph(&graph, &mut draft, now);
        let bundle = self.write(bundle, draft).await?;
        if states.values().any(|state| *state == StepState::RollingBack) {
            self.take_back(pipeline, &bundle, siblings, now).await?;
        }
        Ok(next)
    }

    /// Tells that a Bundle has failed no more: somebody had a step of it begin anew.
    async fn can_go_on(&self, bundle: &Bundle) -> Result<bool, ReconcileError> {
        let GraphLookup::Own(graph) = self.find_graph(bundle).await? else { return Ok(false) };
        let environments = graph_environments(&graph);
        let states = environment_states(&environments, &self.own_steps(bundle).await?);
        // A step that is gone has not begun anew: somebody removes the Graph.
        let is_gone = |(name, record): (&String, &BundleEnvironmentStatus)| {
            record.state.is_some() && !states.contains_key(name)
        };
        if bundle.status.environments.iter().any(is_gone) {
            return Ok(false);
        }
        Ok(derive_progress(&environments, &states).phase != BundlePhase::Failed)
    }

    /// Makes the Graph again after somebody deleted it.
    async fn recreate_graph(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        mut draft: StatusDraft<'_>,
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        let sources = self.graph_sources(pipeline, bundle).await?;
        let plan = match self.plan_graph(pipeline, bundle, &sources) {
            Ok(plan) => plan,
            Err(error) => return self.refuse(bundle, draft, &error).await,
        };
        if bundle.status.pipeline_spec_hash.as_ref() != Some(&plan.spec_hash) {
            let message = "the Graph was deleted and the pipeline has changed: made again from the pipeline as it is now";
            draft.set(condition::SNAPSHOT_LOST, ConditionStatus::True, "PipelineChanged", message);
            draft.status.pipeline_generation = Some(pipeline.metadata.generation);
            draft.status.pipeline_spec_hash = Some(plan.spec_hash.clone());
        }
        draft.status.step_definitions.clone_from(&plan.definitions);
        let bundle = self.write(bundle, draft).await?;
        self.create_graph(pipeline, &bundle, &sources, &plan).await?;
        Ok(Requeue::after(now, GRAPH_PATIENCE))
    }

    /// The steps a Bundle was admitted with: those people made say nothing about it.
    async fn own_steps(&self, bundle: &Bundle) -> Result<Vec<PromotionStep>, KindError> {
        let mut steps = self.steps_of(bundle).await?;
        steps.retain(|step| check_definition(bundle, step).is_ok());
        Ok(steps)
    }

    pub(super) async fn steps_of(&self, bundle: &Bundle) -> Result<Vec<PromotionStep>, KindError> {
        let selector = format!("{}={}", labels::BUNDLE, labels::label_value(bundle.name()));
        let options = ListOptions::with_labels(selector);
        let mut steps =
            kinds::list::<PromotionStepSpec>(&self.cluster, Some(bundle.namespace()), &options).await?;
        steps.retain(|step| step.spec.bundle_ref == bundle.name());
        Ok(steps)
    }

    /// Copies what steps did into the Bundle's own record.
    async fn record(
        &self,
        bundle: &Bundle,
        draft: &mut StatusDraft<'_>,
        states: &BTreeMap<String, StepState>,
        steps: &[PromotionStep],
        org_gates: Vec<PolicyGate>,
    ) -> Result<(), ReconcileError> {
        let known = |name: &String| bundle.status.environments.get(name);
        let ends = |(name, state): (&String, &StepState)| {
            state.is_terminal() && known(name).is_none_or(|record| record.evidence.is_none())
        };
        let (mut gates, mut metrics): (Vec<PolicyGate>, Vec<MetricCheck>) = (Vec::new(), Vec::new());
        if states.iter().any(ends) {
            let selector = format!("{}={}", labels::BUNDLE, labels::label_value(bundle.name()));
            let options = ListOptions::with_labels(selector);
            gates = kinds::list::<PolicyGateSpec>(&self.cluster, Some(bundle.namespace()), &options).await?;
            gates.extend(org_gates);
            metrics = kinds::list::<MetricCheckSpec>(
                &self.cluster,
                Some(bundle.namespace()),
                &ListOptions::default(),
            )
            .await?;
        }
        for (name, state) in states {
            let own: Vec<&PromotionStep> =
                steps.iter().filter(|step| step.spec.environment == *name).collect();
            let sources = EvidenceSources { gates: &gates, metrics: &metrics };
            let record = record_environment(known(name), *state, &own, sources);
            draft.status.environments.insert(name.clone(), record);
        }
        Ok(())
    }

    /// Gives way to a newer Bundle that is being promoted; true if it did.
    pub(super) fn supersede(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        siblings: &[Bundle],
        left: &[String],
        states: &[StepState],
        draft: &mut StatusDraft<'_>,
    ) -> bool {
        let pending = bundle.status.supersede_pending.as_deref();
        let is_newer = |other: &&Bundle| {
            let runs = other.phase() == BundlePhase::Promoting || pending == Some(other.name());
            let is_other = other.metadata.uid != bundle.metadata.uid && !is_taken_back_by(bundle, other);
            runs && is_other && compare_age(bundle, other).is_lt()
        };
        let mut settling = None;
        for newer in siblings.iter().filter(is_newer) {
            let covered = covered_environments(pipeline, newer);
            let policy = pipeline.spec.supersede;
            match decide_supersede(&SupersedeInput {
                older: bundle,
                newer,
                policy,
                left,
                covered: &covered,
                states,
            }) {
                SupersedeDecision::Keep => {}
                SupersedeDecision::AfterSettling => settling = Some(newer.name().to_owned()),
                SupersedeDecision::Supersede => {
                    draft.status.superseded_by = Some(newer.name().to_owned());
                    draft.status.supersede_pending = None;
                    draft.phase(BundlePhase::Superseded, "Superseded", format!("{} took over", newer.name()));
                    if bundle.status.graph_ref.is_some() {
                        draft.set(
                            condition::CLEANUP_PENDING,
                            ConditionStatus::True,
                            "Removing",
                            "its Graph is being removed",
                        );
                    }
                    return true;
                }
            }
        }
        draft.status.supersede_pending = settling;
        false
    }
}

/// Notes how the Graph is taken, and when to look at a Graph nobody has taken up.
fn follow_graph(graph: &Value, draft: &mut StatusDraft<'_>, now: Timestamp) -> Requeue {
    let conditions = graph["status"]["conditions"].as_array().into_iter().flatten();
    let compiled = conditions.into_iter().find(|one| one["type"] == "Compiled" || one["type"] == "Accepted");
    if let Some(compiled) = compiled {
        let text = |field: &str| compiled[field].as_str().unwrap_or_default().to_owned();
        let status =
            if compiled["status"] == "True" { ConditionStatus::True } else { ConditionStatus::False };
        draft.set(condition::GRAPH_ACCEPTED, status, &text("reason"), text("message"));
    }
    let generation = graph["metadata"]["generation"].as_i64().unwrap_or(0);
    if graph["status"]["observedGeneration"].as_i64().unwrap_or(0) >= generation {
        draft.settle(condition::GRAPH_RESPONDING, ConditionStatus::True, "Observed", "");
        return Requeue::Done;
    }
    let created =
        graph["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let patience = Requeue::after(created.unwrap_or(now), GRAPH_PATIENCE);
    if patience > Requeue::At(now) {
        return patience;
    }
    draft.set(
        condition::GRAPH_RESPONDING,
        ConditionStatus::False,
        "NotObserved",
        "no controller has taken the Graph up",
    );
    Requeue::after(now, GRAPH_PATIENCE)
}

/// The figures of a Bundle that is verified.
fn bundle_metrics(
    bundle: &Bundle,
    environments: &BTreeMap<String, BundleEnvironmentStatus>,
    steps: &[PromotionStep],
) -> BundleMetrics {
    let built = bundle.spec.provenance.as_ref().and_then(|provenance| provenance.build_timestamp);
    let begin = built.unwrap_or(bundle.metadata.created());
    let end = environments.values().filter_map(|record| record.verified_at).max();
    let known = bundle.status.metrics.clone().unwrap_or_default();
    BundleMetrics {
        commit_to_production_minutes: end.map(|end| (end.as_second() - begin.as_second()).max(0) / 60),
        bake_resets: steps.iter().map(|step| step.status.bake_resets).sum(),
        ..known
    }
}
