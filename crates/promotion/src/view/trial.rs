//! Gates of a pipeline tried under other conditions, and on past promotions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use slipway_cluster::{Cluster, ErrorClass, ListOptions};

use super::survey::PipelineSurvey;
use crate::gate::{
    GateContext, GateEvaluator, ReplayedPromotion, WindowContext, past_context, replay_history,
};
use crate::kinds::{self, Bundle, ChangeWindow, ChangeWindowSpec, KindError, PolicyGate};
use crate::translate::EnvironmentOrder;

/// Lists the change windows of a cluster; none where they may not be read.
pub async fn list_windows(cluster: &Cluster) -> Result<Vec<ChangeWindow>, KindError> {
    match kinds::list::<ChangeWindowSpec>(cluster, None, &ListOptions::default()).await {
        Err(KindError::Cluster(error)) if error.class == ErrorClass::Forbidden => Ok(Vec::new()),
        found => found,
    }
}

/// Reads the change windows of a cluster, as gates read them.
pub async fn read_windows(cluster: &Cluster) -> Result<BTreeMap<String, WindowContext>, KindError> {
    Ok(window_contexts(&list_windows(cluster).await?))
}

/// Windows by name, as gates read them.
pub fn window_contexts(windows: &[ChangeWindow]) -> BTreeMap<String, WindowContext> {
    windows.iter().map(|one| (one.name().to_owned(), WindowContext::of(&one.spec))).collect()
}

impl PipelineSurvey {
    fn direct_upstreams(&self, environment: &str) -> Vec<String> {
        let order = EnvironmentOrder::of(&self.pipeline.spec);
        let names =
            order.map(|order| order.upstreams(environment).iter().map(|one| (*one).to_owned()).collect());
        names.unwrap_or_default()
    }

    /// The context of a bundle before an environment at another moment. Everything else is as it is now.
    pub fn trial_context(
        &self,
        bundle: &Bundle,
        environment: &str,
        windows: &BTreeMap<String, WindowContext>,
        at: Timestamp,
    ) -> GateContext {
        let upstreams = self.direct_upstreams(environment);
        let mut context = past_context(bundle, &self.bundles, environment, &upstreams, windows, at);
        let pipeline = &self.pipeline;
        context.pipeline.name = pipeline.name().to_owned();
        context.pipeline.namespace = pipeline.namespace().to_owned();
        context.pipeline.labels.clone_from(&pipeline.metadata.labels);
        if let Some(known) = pipeline.spec.environments.iter().find(|known| known.name == environment) {
            context.environment.approval = known.approval;
            context.environment.labels.clone_from(&known.labels);
        }
        if let Some(status) = pipeline.status.environments.iter().find(|known| known.name == environment) {
            context.drift.unreconciled = status.drift;
            context.drift.details.clone_from(&status.drift_details);
            context.drift.since = status.drift_since;
        }
        context
    }

    /// Holds gates against the last promotions into an environment, the newest first.
    pub fn replay(
        &self,
        gates: &[PolicyGate],
        environment: &str,
        windows: &BTreeMap<String, WindowContext>,
        count: usize,
    ) -> Vec<ReplayedPromotion> {
        let labels = &self.pipeline.metadata.labels;
        let applying = super::applying_gates(gates, environment, labels, &self.policy_namespaces);
        let upstreams = self.direct_upstreams(environment);
        let evaluator = GateEvaluator::new();
        replay_history(&evaluator, &applying, &self.bundles, environment, &upstreams, windows, count)
    }
}
