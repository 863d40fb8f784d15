//! The scheduler: assigns pods to nodes, or reports why no node fits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::node::{self, NodeMisfit};
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent};

const COMPONENT: &str = "default-scheduler";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Knows the pods that wait, and how full each node is.
#[derive(Default)]
pub(super) struct Scheduler {
    waiting: BTreeSet<WorkItem>,
    placed: HashMap<Box<str>, String>,
    load: BTreeMap<String, usize>,
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        match &*event.table {
            "pods" if event.change == ChangeType::Deleted => {
                self.waiting.remove(&WorkItem::of(event));
                if let Some(node) = self.placed.remove(&event.object.uid)
                    && let Some(load) = self.load.get_mut(&node)
                {
                    *load = load.saturating_sub(1);
                }
            }
            "pods" if event.change == ChangeType::Added => {
                let node = text_at(&event.object.value(), "/spec/nodeName").to_owned();
                if node.is_empty() {
                    self.waiting.insert(WorkItem::of(event));
                    queue.push(WorkItem::of(event));
                } else {
                    self.place_pod(&event.object.uid, node);
                }
            }
            // A gate may have been lifted.
            "pods" if self.waiting.contains(&WorkItem::of(event)) => queue.push(WorkItem::of(event)),
            "nodes" | "persistentvolumeclaims" => {
                for item in &self.waiting {
                    queue.push(item.clone());
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(pod) = cluster.get("pods", &item.key.namespace, &item.key.name) else {
            self.waiting.remove(item);
            return Ok(NextReconcile::Done);
        };
        let gated = !list_at(&pod, "/spec/schedulingGates").is_empty();
        let ours = matches!(text_at(&pod, "/spec/schedulerName"), "" | COMPONENT);
        if !text_at(&pod, "/spec/nodeName").is_empty() {
            self.waiting.remove(item);
            self.place_pod(uid_of(&pod), text_at(&pod, "/spec/nodeName").to_owned());
            return Ok(NextReconcile::Done);
        }
        if is_deleting(&pod) || gated || !ours {
            return Ok(NextReconcile::Done);
        }
        match self.choose_node(&pod, cluster)? {
            NodeChoice::Node(node) => {
                cluster.bind_pod(&item.key, &node)?;
                self.waiting.remove(item);
                self.place_pod(uid_of(&pod), node.clone());
                let who = format!("{}/{}", namespace_of(&pod), name_of(&pod));
                let message = format!("Successfully assigned {who} to {node}");
                record_event(&pod, cluster, "Normal", "Scheduled", "Binding", &message);
            }
            NodeChoice::Wait => {}
            NodeChoice::Nowhere(message) => report_unschedulable(&pod, &message, cluster)?,
        }
        Ok(NextReconcile::Done)
    }
}

enum NodeChoice {
    Node(String),
    /// A volume is being provisioned.
    Wait,
    Nowhere(String),
}

impl Scheduler {
    fn place_pod(&mut self, uid: &str, node: String) {
        if self.placed.insert(uid.into(), node.clone()).is_none() {
            *self.load.entry(node).or_default() += 1;
        }
    }

    fn choose_node(&self, pod: &Value, cluster: &ClusterHandle) -> Result<NodeChoice> {
        let nodes = cluster.list_values("nodes", None);
        if nodes.is_empty() {
            return Ok(NodeChoice::Nowhere("no nodes available to schedule pods".into()));
        }
        let mut misfits: BTreeMap<NodeMisfit, usize> = BTreeMap::new();
        let mut best: Option<(usize, &str)> = None;
        for node in &nodes {
            match node::check_fit(&pod["spec"], node) {
                Ok(()) => {
                    let rank = (self.load.get(name_of(node)).copied().unwrap_or(0), name_of(node));
                    best = Some(best.map_or(rank, |b| b.min(rank)));
                }
                Err(misfit) => *misfits.entry(misfit).or_default() += 1,
            }
        }
        let all = nodes.len();
        let Some((_, node)) = best else {
            return Ok(NodeChoice::Nowhere(explain_misfits(all, &misfits)));
        };
        self.prepare_volumes(pod, node, all, cluster)
    }

    /// Claims must be bound first; those that wait for a consumer are told which node it is.
    fn prepare_volumes(
        &self,
        pod: &Value,
        node: &str,
        nodes: usize,
        cluster: &ClusterHandle,
    ) -> Result<NodeChoice> {
        let mut wait = false;
        for volume in list_at(pod, "/spec/volumes") {
            let claim = match volume["persistentVolumeClaim"]["claimName"].as_str() {
                Some(claim) => claim.to_owned(),
                None if volume["ephemeral"].is_object() => {
                    format!("{}-{}", name_of(pod), volume["name"].as_str().unwrap_or(""))
                }
                None => continue,
            };
            let Some(found) = cluster.get("persistentvolumeclaims", namespace_of(pod), &claim) else {
                let help = format!(
                    "preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
                );
                return Ok(NodeChoice::Nowhere(format!(
                    "0/{nodes} nodes are available: persistentvolumeclaim \"{claim}\" not found. {help}"
                )));
            };
            if text_at(&found, "/status/phase") == "Bound" {
                continue;
            }
            let class =
                cluster.get("storageclasses.storage.k8s.io", "", text_at(&found, "/spec/storageClassName"));
            if class.is_some_and(|c| c["volumeBindingMode"] == "WaitForFirstConsumer") {
                wait = true;
                if annotation(&found, SELECTED_NODE) != Some(node) {
                    cluster.update("persistentvolumeclaims", &key_of(&found), "kube-scheduler", |value| {
                        slipway_manifest::object::set_annotation(value, SELECTED_NODE, node);
                    })?;
                }
                continue;
            }
            let help = format!(
                "preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
            );
            return Ok(NodeChoice::Nowhere(format!(
                "0/{nodes} nodes are available: pod has unbound immediate PersistentVolumeClaims. {help}"
            )));
        }
        Ok(if wait { NodeChoice::Wait } else { NodeChoice::Node(node.to_owned()) })
    }
}

fn explain_misfits(all: usize, misfits: &BTreeMap<NodeMisfit, usize>) -> String {
    let mut reasons: Vec<String> = misfits.iter().map(|(m, n)| format!("{n} {}", m.reason)).collect();
    reasons.sort();
    let helpless: usize = misfits.iter().filter(|(m, _)| !m.preemptible).map(|(_, n)| n).sum();
    let mut help = Vec::new();
    if all > helpless {
        help.push(format!("{} No preemption victims found for incoming pods", all - helpless));
    }
    if helpless > 0 {
        help.push(format!("{helpless} Preemption is not helpful for scheduling"));
    }
    format!(
        "0/{all} nodes are available: {}. preemption: 0/{all} nodes are available: {}.",
        reasons.join(", "),
        help.join(", ")
    )
}

fn report_unschedulable(pod: &Value, message: &str, cluster: &ClusterHandle) -> Result<()> {
    let known = condition(pod, "PodScheduled");
    if known.is_some_and(|c| c["reason"] == "Unschedulable" && c["message"] == message) {
        return Ok(());
    }
    let now = cluster.now_text();
    cluster.update_status("pods", &key_of(pod), "kube-scheduler", |value| {
        let mut conditions = list_at(value, "/status/conditions").to_vec();
        let since = conditions
            .iter()
            .find(|c| c["type"] == "PodScheduled" && c["status"] == "False")
            .map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
        conditions.retain(|c| c["type"] != "PodScheduled");
        conditions.push(json!({
            "type": "PodScheduled", "observedGeneration": value["metadata"]["generation"], "status": "False",
            "lastProbeTime": null, "lastTransitionTime": since, "reason": "Unschedulable", "message": message,
        }));
        value["status"]["conditions"] = conditions.into();
    })?;
    record_event(pod, cluster, "Warning", "FailedScheduling", "Scheduling", message);
    Ok(())
}

/// The scheduler writes events of the newer form: no source, no count, a time with fractions.
fn record_event(pod: &Value, cluster: &ClusterHandle, kind: &str, reason: &str, action: &str, message: &str) {
    let unique = (cluster.now().as_nanosecond() as u64) ^ (cluster.random_number() & 0xffff);
    let event = json!({
        "metadata": {"name": format!("{}.{unique:016x}", name_of(pod)), "namespace": namespace_of(pod)},
        "involvedObject": {
            "kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod),
            "apiVersion": "v1", "resourceVersion": pod["metadata"]["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "source": {},
        "firstTimestamp": null,
        "lastTimestamp": null,
        "type": kind,
        "eventTime": cluster.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "action": action,
        "reportingComponent": COMPONENT,
        "reportingInstance": format!("{COMPONENT}-sandbox"),
    });
    // An event that cannot be recorded must not stop the scheduler.
    let _ = cluster.create("events", namespace_of(pod), event, "kube-scheduler");
}
