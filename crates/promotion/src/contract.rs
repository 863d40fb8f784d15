//! Keeps the status of contracts: whether their consumer is let through now, and why not.

use std::sync::Arc;

use slipway_cluster::{Cluster, ListOptions};
use slipway_event::Clock;

use crate::Requeue;
use crate::gate::{BundleContext, GateContext, GateEvaluator, read_contract};
use crate::kinds::{
    ConditionStatus, KindError, NewCondition, Pipeline, PolicyGate, PolicyGateSpec, PromotionContractSpec,
    get, list, patch_status, set_condition,
};
use crate::translate::{contract_expression, contract_gates};

/// The gates of the contracts a pipeline is the consumer of; none where the kind is not installed.
pub(crate) async fn read_contract_gates(
    cluster: &Cluster,
    pipeline: &Pipeline,
) -> Result<Vec<PolicyGate>, KindError> {
    let options = ListOptions::default();
    match list::<PromotionContractSpec>(cluster, Some(pipeline.namespace()), &options).await {
        Ok(contracts) => Ok(contract_gates(&contracts, pipeline)),
        Err(error) if error.is_absent() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Evaluates contracts; gates of the consumer's bundles are what holds them back.
pub struct ContractReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    evaluator: Arc<GateEvaluator>,
}

impl ContractReconciler {
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>, evaluator: Arc<GateEvaluator>) -> Self {
        Self { cluster, clock, evaluator }
    }

    /// Brings the status of a contract up to date.
    pub async fn reconcile(&self, namespace: &str, name: &str) -> Result<Requeue, KindError> {
        let contract = get::<PromotionContractSpec>(&self.cluster, namespace, name).await?;
        let Some(contract) = contract.filter(|contract| !contract.metadata.is_being_deleted()) else {
            return Ok(Requeue::Done);
        };
        let now = self.clock.now();
        let key = contract.provider_key();
        let provider = read_contract(&self.cluster, &key).await?;
        let mut status = contract.status.clone();
        status.observed_generation = Some(contract.metadata.generation);
        status.provider_version = provider.as_ref().map(|provider| provider.version.clone());
        let environment = &contract.spec.consumer.environment;
        let mut context = GateContext::new(BundleContext::default(), environment, now);
        context.contracts.extend(provider.map(|provider| (key, provider)));
        let gate = PolicyGateSpec { expression: contract_expression(&contract), ..PolicyGateSpec::default() };
        let outcome = self.evaluator.evaluate(&gate, &context);
        if status.satisfied != outcome.ready || status.last_transition_at.is_none() {
            status.last_transition_at = Some(now);
        }
        status.satisfied = outcome.ready;
        status.reason = Some(outcome.reason);
        let (truth, reason) = match (outcome.ready, outcome.fault.is_some()) {
            (true, _) => (ConditionStatus::True, "Satisfied"),
            (false, false) => (ConditionStatus::False, "NotSatisfied"),
            (false, true) => (ConditionStatus::False, "NotEvaluated"),
        };
        let message = status.reason.clone().unwrap_or_default();
        let observed_generation = contract.metadata.generation;
        let new = NewCondition { kind: "Satisfied", status: truth, reason, message, observed_generation };
        set_condition(&mut status.conditions, new, now);
        patch_status(&self.cluster, &contract, &status).await?;
        Ok(outcome.next.map_or(Requeue::Done, Requeue::At))
    }
}
