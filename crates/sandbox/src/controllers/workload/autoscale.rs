//! Autoscalers: they keep a target within its bounds; nothing measures load here.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use crate::status::Result;
use crate::store::{ObjectKey, StoreEvent};

const TABLE: &str = "horizontalpodautoscalers.autoscaling";
const COMPONENT: &str = "horizontal-pod-autoscaler";

pub(super) struct AutoscalerController;

fn table_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Deployment" => "deployments.apps",
        "StatefulSet" => "statefulsets.apps",
        "ReplicaSet" => "replicasets.apps",
        "ReplicationController" => "replicationcontrollers",
        _ => return None,
    })
}

impl Controller for AutoscalerController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        match &*event.table {
            TABLE => queue.push(WorkItem::of(event)),
            "deployments.apps" | "statefulsets.apps" => {
                for scaler in cluster.stored_objects(TABLE, Some(event.object.namespace())) {
                    queue.push(WorkItem::new(TABLE, scaler.namespace(), scaler.name()));
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(scaler) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let target = &scaler["spec"]["scaleTargetRef"];
        let (kind, called) = (target["kind"].as_str().unwrap_or(""), target["name"].as_str().unwrap_or(""));
        let found = table_of(kind).and_then(|t| Some((t, cluster.get(t, namespace_of(&scaler), called)?)));
        let mut conditions = Vec::new();
        let mut counts = (0, 0);
        match found {
            None => {
                let resource = format!("{}s.apps", kind.to_lowercase());
                let message = format!(
                    "the HPA controller was unable to get the target's current scale: {resource} \"{called}\" not found"
                );
                conditions.push(("AbleToScale", "False", "FailedGetScale", message));
            }
            Some((table, object)) => {
                let current = int_or(&object, "/spec/replicas", 1);
                let shown = int_at(&object, "/status/replicas");
                let (least, most) =
                    (int_or(&scaler, "/spec/minReplicas", 1), int_or(&scaler, "/spec/maxReplicas", 1));
                let bounded = if current == 0 { 0 } else { current.clamp(least.min(most), most) };
                counts = (shown, if bounded == current { 0 } else { bounded });
                if bounded == current {
                    let message = "the HPA controller was able to get the target's current scale";
                    conditions.push(("AbleToScale", "True", "SucceededGetScale", message.to_owned()));
                } else {
                    resize_target(&scaler, table, &key_of(&object), bounded, current > most, cluster)?;
                    let message =
                        format!("the HPA controller was able to update the target scale to {bounded}");
                    conditions.push(("AbleToScale", "True", "SucceededRescale", message));
                }
                if current == 0 {
                    let message = "scaling is disabled since the replica count of the target is zero";
                    conditions.push(("ScalingActive", "False", "ScalingDisabled", message.to_owned()));
                } else {
                    let what = text_at(&scaler, "/spec/metrics/0/resource/name");
                    let what = if what.is_empty() { "cpu" } else { what };
                    let message = format!(
                        "the HPA was unable to compute the replica count: failed to get {what} utilization: unable to get metrics for resource {what}: no metrics returned from resource metrics API"
                    );
                    conditions.push(("ScalingActive", "False", "FailedGetResourceMetric", message));
                }
            }
        }
        let now = cluster.now_text();
        cluster.update_status(TABLE, &item.key, MANAGER, |value| {
            let shown: Vec<Value> = conditions
                .iter()
                .map(|(kind, state, reason, message)| {
                    let known = condition(value, kind).filter(|c| c["status"] == *state);
                    let since = known.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
                    json!({
                        "type": kind, "status": state, "lastTransitionTime": since,
                        "reason": reason, "message": message,
                    })
                })
                .collect();
            let mut status = json!({"desiredReplicas": counts.1, "currentMetrics": null});
            put_count(&mut status, "currentReplicas", usize::try_from(counts.0).unwrap_or(0));
            status["conditions"] = shown.into();
            value["status"] = status;
        })?;
        Ok(NextReconcile::Done)
    }
}

fn resize_target(
    scaler: &Value,
    table: &str,
    target: &ObjectKey,
    size: i64,
    above: bool,
    cluster: &ClusterHandle,
) -> Result<()> {
    cluster.update(table, target, MANAGER, |value| value["spec"]["replicas"] = size.into())?;
    let why = if above {
        "Current number of replicas above Spec.MaxReplicas"
    } else {
        "Current number of replicas below Spec.MinReplicas"
    };
    let message = format!("New size: {size}; reason: {why}");
    cluster.record_event(scaler, COMPONENT, "Normal", "SuccessfulRescale", &message);
    Ok(())
}
