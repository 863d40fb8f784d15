//! What is there before a rollout: workloads, their autoscalers, their Services.

use serde_json::Value;
use slipway_manifest::{Gvk, object};

use super::baseline::{AutoscalerBaseline, WorkloadBaseline};
use super::rollout::{Scene, replicas_of};
use crate::error::UnitError;

impl Scene<'_> {
    /// A live Deployment with what a rollout changes of it.
    pub(crate) async fn read_workload(&self, name: &str) -> Result<Option<WorkloadBaseline>, UnitError> {
        let Some(live) = self.cluster.get(&self.deployment(name)).await? else { return Ok(None) };
        let autoscaler = self.find_autoscaler(name).await?;
        Ok(Some(WorkloadBaseline { name: name.to_owned(), replicas: replicas_of(&live), autoscaler }))
    }

    async fn find_autoscaler(&self, deployment: &str) -> Result<Option<AutoscalerBaseline>, UnitError> {
        let gvk = Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler");
        let all = self.list(&gvk, "").await?;
        let found = all.iter().find(|scaler| {
            let target = &scaler["spec"]["scaleTargetRef"];
            target["kind"] == "Deployment" && target["name"] == deployment
        });
        Ok(found.map(|scaler| AutoscalerBaseline {
            name: object::name(scaler).unwrap_or_default().to_owned(),
            min_replicas: scaler["spec"]["minReplicas"].as_u64(),
            max_replicas: scaler["spec"]["maxReplicas"].as_u64().unwrap_or(1),
        }))
    }
}

/// The labels of a workload's pods.
pub(crate) fn pod_labels(deployment: &Value) -> Option<&serde_json::Map<String, Value>> {
    deployment.pointer("/spec/template/metadata/labels")?.as_object()
}

/// Tells whether a Service selects pods with the labels of a template.
pub(crate) fn selects(service: &Value, deployment: &Value) -> bool {
    let Some(selector) = service.pointer("/spec/selector").and_then(Value::as_object) else { return false };
    let Some(labels) = pod_labels(deployment) else { return false };
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
