//! Disruption budgets, and the bookkeeping of objects that select pods.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent};

const TABLE: &str = "poddisruptionbudgets.policy";

/// Finds the objects of a table whose selector matches the pod an event is about.
pub(super) struct SelectorIndex {
    table: &'static str,
    read: fn(&Value) -> Option<LabelFilter>,
    known: HashMap<WorkItem, LabelFilter>,
}

impl SelectorIndex {
    pub(super) fn new(table: &'static str, read: fn(&Value) -> Option<LabelFilter>) -> SelectorIndex {
        SelectorIndex { table, read, known: HashMap::new() }
    }

    pub(super) fn observe_selected(&mut self, event: &StoreEvent, queue: &mut WorkQueue) {
        if *event.table == *self.table {
            let item = WorkItem::of(event);
            match (self.read)(&event.object.value()).filter(|_| event.change != ChangeType::Deleted) {
                Some(labels) => self.known.insert(item.clone(), labels),
                None => self.known.remove(&item),
            };
            queue.push(item);
        } else if &*event.table == "pods" {
            let pods = || [Some(&event.object), event.prev.as_ref()].into_iter().flatten();
            for (item, labels) in &self.known {
                if *item.key.namespace == *event.object.key.namespace
                    && !labels.is_empty()
                    && pods().any(|p| labels.matches(p))
                {
                    queue.push(item.clone());
                }
            }
        }
    }
}

pub(super) struct DisruptionController {
    budgets: SelectorIndex,
}

impl Default for DisruptionController {
    fn default() -> DisruptionController {
        DisruptionController {
            budgets: SelectorIndex::new(TABLE, |b| LabelFilter::of_selector(&b["spec"]["selector"])),
        }
    }
}

impl Controller for DisruptionController {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        self.budgets.observe_selected(event, queue);
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(budget) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let Some(labels) = LabelFilter::of_selector(&budget["spec"]["selector"]) else {
            return Ok(NextReconcile::Done);
        };
        let mut pods = cluster.select_values("pods", namespace_of(&budget), &labels);
        pods.retain(is_active);
        let healthy = i64::try_from(pods.iter().filter(|p| is_ready(p)).count()).unwrap_or(0);
        let (expected, desired) = wanted_pods(&budget["spec"], &pods, cluster);
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let (state, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let now = cluster.now_text();
        cluster.update_status(TABLE, &item.key, MANAGER, |value| {
            let known = condition(value, "DisruptionAllowed").filter(|c| c["status"] == state);
            let since = known.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
            let generation = value["metadata"]["generation"].clone();
            value["status"] = json!({
                "observedGeneration": generation,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": state, "observedGeneration": generation,
                    "lastTransitionTime": since, "reason": reason, "message": "",
                }],
            });
        })?;
        Ok(NextReconcile::Done)
    }
}

/// Returns how many pods there should be, and how many of them must stay.
fn wanted_pods(spec: &Value, pods: &[Value], cluster: &ClusterHandle) -> (i64, i64) {
    let count = i64::try_from(pods.len()).unwrap_or(0);
    match (&spec["minAvailable"], &spec["maxUnavailable"]) {
        (Value::Number(least), _) => (count, least.as_i64().unwrap_or(0)),
        (Value::Null, Value::Null) => (0, 0),
        (Value::Null, most) => {
            let expected = expected_count(pods, cluster);
            (expected, (expected - amount_of(most, expected, PercentRounding::Up)).max(0))
        }
        (least, _) => {
            let expected = expected_count(pods, cluster);
            (expected, amount_of(least, expected, PercentRounding::Up))
        }
    }
}

/// Returns the sum of the replicas the controllers of these pods want. Pods without one do not count.
fn expected_count(pods: &[Value], cluster: &ClusterHandle) -> i64 {
    let mut controllers: HashMap<String, i64> = HashMap::new();
    for pod in pods {
        let Some(owner) = controller_of(pod) else { continue };
        let Some((uid, wanted)) = scale_of_controller(owner, namespace_of(pod), cluster) else { continue };
        controllers.entry(uid).or_insert(wanted);
    }
    controllers.values().sum()
}

fn controller_of(object: &Value) -> Option<&Value> {
    list_at(object, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true)
}

/// The uid and replicas of a pod's controller. Replica sets of one deployment count as the deployment.
fn scale_of_controller(owner: &Value, namespace: &str, cluster: &ClusterHandle) -> Option<(String, i64)> {
    let table = match owner["kind"].as_str().unwrap_or("") {
        "ReplicaSet" => "replicasets.apps",
        "StatefulSet" => "statefulsets.apps",
        "ReplicationController" => "replicationcontrollers",
        "Deployment" => "deployments.apps",
        _ => return None,
    };
    let object = cluster.get(table, namespace, owner["name"].as_str().unwrap_or(""))?;
    if let Some(above) = controller_of(&object).filter(|above| above["kind"] == "Deployment") {
        return scale_of_controller(above, namespace, cluster);
    }
    Some((uid_of(&object).to_owned(), int_or(&object, "/spec/replicas", 1)))
}
