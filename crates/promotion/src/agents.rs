//! Agents: processes in other clusters that carry out the steps of one shard, and what is known of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use slipway_cluster::election::read_lease;
use slipway_cluster::{Cluster, ListOptions};
use slipway_event::Clock;

use crate::kinds::{
    ConditionStatus, KindError, NewCondition, PromotionStep, PromotionStepSpec, find_condition, labels, list,
    patch_status, remove_condition, set_condition,
};

/// The condition of steps whose agent is silent.
pub const AGENT_OFFLINE: &str = "AgentOffline";
/// The silence after which an agent counts as offline.
pub const OFFLINE_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The name of an agent's Lease.
pub fn lease_name(shard: &str) -> String {
    labels::bounded_name(&format!("kardinal-agent-{shard}"), shard)
}

/// The shard of a step.
pub fn shard_of(step: &PromotionStep) -> Option<&str> {
    let named = step.metadata.label(labels::SHARD).or(step.spec.shard.as_deref());
    named.filter(|shard| !shard.is_empty())
}

/// Holds the heartbeats of agents against the steps that wait for them.
pub struct AgentMonitor {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    namespace: String,
}

impl AgentMonitor {
    /// Looks for Leases in a namespace.
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>, namespace: String) -> Self {
        Self { cluster, clock, namespace }
    }

    /// Marks the steps of silent agents, and takes the mark from those whose agent is back. Returns the silence of each
    /// agent; none for one that was never heard of.
    pub async fn look(&self) -> Result<BTreeMap<String, Option<Duration>>, KindError> {
        let now = self.clock.now();
        let steps = list::<PromotionStepSpec>(&self.cluster, None, &ListOptions::default()).await?;
        let mut silences = BTreeMap::new();
        for step in &steps {
            let Some(shard) = shard_of(step) else { continue };
            if step.state().is_terminal() {
                // Nobody is missed by what has ended.
                self.mark(step, shard, false).await?;
                continue;
            }
            if !silences.contains_key(shard) {
                let lease = read_lease(&self.cluster, &self.namespace, &lease_name(shard)).await?;
                let heard = lease.filter(|lease| !lease.holder.is_empty()).and_then(|lease| lease.renewed_at);
                let silence =
                    heard.map(|heard| Duration::try_from(now.duration_since(heard)).unwrap_or_default());
                silences.insert(shard.to_owned(), silence);
            }
            let silence = silences.get(shard).copied().flatten();
            let is_offline = silence.is_none_or(|silence| {
                SignedDuration::try_from(silence).is_ok_and(|time| time > OFFLINE_AFTER)
            });
            self.mark(step, shard, is_offline).await?;
        }
        Ok(silences)
    }

    async fn mark(&self, step: &PromotionStep, shard: &str, is_offline: bool) -> Result<(), KindError> {
        if is_offline == find_condition(&step.status.conditions, AGENT_OFFLINE).is_some() {
            return Ok(());
        }
        let mut status = step.status.clone();
        if is_offline {
            let condition = NewCondition {
                kind: AGENT_OFFLINE,
                status: ConditionStatus::True,
                reason: "NoHeartbeat",
                message: format!("the agent of shard {shard} was not heard of for a minute"),
                observed_generation: step.metadata.generation,
            };
            set_condition(&mut status.conditions, condition, self.clock.now());
        } else {
            remove_condition(&mut status.conditions, AGENT_OFFLINE);
        }
        match patch_status(&self.cluster, step, &status).await {
            // Somebody wrote in between: the next look sees what they wrote.
            Err(error) if error.is_conflict() || error.is_absent() => Ok(()),
            written => written.map(drop),
        }
    }
}
