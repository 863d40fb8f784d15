//! The scheduler: assigns pods to nodes, or reports why no node fits.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::node::{self, NodeMisfit, NodeUsage, PodDemand};
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent};

const COMPONENT: &str = "default-scheduler";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Knows the pods that wait, and how full each node is.
#[derive(Default)]
pub(super) struct Scheduler {
    waiting: BTreeSet<WorkItem>,
    placed: HashMap<Box<str>, PlacedPod>,
    usage: BTreeMap<String, NodeUsage>,
}

/// A pod on a node, as long as it takes something of it.
struct PlacedPod {
    node: String,
    demand: PodDemand,
    ends_by_itself: bool,
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        match &*event.table {
            "pods" if event.change == ChangeType::Deleted => {
                self.waiting.remove(&WorkItem::of(event));
                self.release_pod(&event.object.uid, queue);
            }
            "pods" if event.change == ChangeType::Added => {
                let pod = event.object.value();
                if text_at(&pod, "/spec/nodeName").is_empty() {
                    self.waiting.insert(WorkItem::of(event));
                    queue.push(WorkItem::of(event));
                } else if !is_finished(&pod) {
                    self.place_pod(&pod);
                }
            }
            // A gate may have been lifted.
            "pods" if self.waiting.contains(&WorkItem::of(event)) => queue.push(WorkItem::of(event)),
            "pods"
                if self.placed.get(&event.object.uid).is_some_and(|pod| pod.ends_by_itself)
                    && is_finished(&event.object.value()) =>
            {
                self.release_pod(&event.object.uid, queue);
            }
            "nodes" | "persistentvolumeclaims" => self.retry_waiting(queue),
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
            self.place_pod(&pod);
            return Ok(NextReconcile::Done);
        }
        if is_deleting(&pod) || gated || !ours {
            return Ok(NextReconcile::Done);
        }
        match self.choose_node(&pod, cluster)? {
            NodeChoice::Node(node) => {
                cluster.bind_pod(&item.key, &node)?;
                self.waiting.remove(item);
                let mut pod = pod;
                pod["spec"]["nodeName"] = node.as_str().into();
                self.place_pod(&pod);
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
    fn place_pod(&mut self, pod: &Value) {
        let Entry::Vacant(vacant) = self.placed.entry(uid_of(pod).into()) else { return };
        let placed = PlacedPod {
            node: text_at(pod, "/spec/nodeName").to_owned(),
            demand: PodDemand::of(&pod["spec"]),
            ends_by_itself: text_at(pod, "/spec/restartPolicy") != "Always",
        };
        self.usage.entry(placed.node.clone()).or_default().add(&placed.demand);
        vacant.insert(placed);
    }

    /// Takes a pod off its node, which may make room for one that waits.
    fn release_pod(&mut self, uid: &str, queue: &mut WorkQueue) {
        let Some(placed) = self.placed.remove(uid) else { return };
        if let Some(usage) = self.usage.get_mut(&placed.node) {
            usage.remove(&placed.demand);
        }
        self.retry_waiting(queue);
    }

    fn retry_waiting(&self, queue: &mut WorkQueue) {
        self.waiting.iter().for_each(|item| queue.push(item.clone()));
    }

    fn choose_node(&self, pod: &Value, cluster: &ClusterHandle) -> Result<NodeChoice> {
        let nodes = cluster.list_values("nodes", None);
        if nodes.is_empty() {
            return Ok(NodeChoice::Nowhere("no nodes available to schedule pods".into()));
        }
        let mut misfits = MisfitCounts::default();
        let mut best: Option<(usize, &str)> = None;
        let (demand, nothing) = (PodDemand::of(&pod["spec"]), NodeUsage::default());
        for node in &nodes {
            let usage = self.usage.get(name_of(node)).unwrap_or(&nothing);
            let fits = node::check_placement(&pod["spec"], node)
                .map_err(|misfit| vec![misfit])
                .and_then(|()| usage.check_room(&demand, node));
            match fits {
                Ok(()) => {
                    let rank = (usage.pods, name_of(node));
                    best = Some(best.map_or(rank, |b| b.min(rank)));
                }
                Err(lacks) => misfits.count_node(lacks),
            }
        }
        let all = nodes.len();
        let Some((_, node)) = best else {
            return Ok(NodeChoice::Nowhere(misfits.explain(all)));
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

/// How many nodes do not fit, by reason.
#[derive(Default)]
struct MisfitCounts {
    reasons: BTreeMap<String, usize>,
    /// The nodes on which evicting others would not help.
    helpless: usize,
}

impl MisfitCounts {
    fn count_node(&mut self, misfits: Vec<NodeMisfit>) {
        self.helpless += usize::from(misfits.iter().any(|misfit| !misfit.preemptible));
        for misfit in misfits {
            *self.reasons.entry(misfit.reason).or_default() += 1;
        }
    }

    /// Says why none of all nodes fits.
    fn explain(&self, all: usize) -> String {
        let mut reasons: Vec<String> =
            self.reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        reasons.sort();
        let mut help = Vec::new();
        if all > self.helpless {
            help.push(format!("{} No preemption victims found for incoming pods", all - self.helpless));
        }
        if self.helpless > 0 {
            help.push(format!("{} Preemption is not helpful for scheduling", self.helpless));
        }
        format!(
            "0/{all} nodes are available: {}. preemption: 0/{all} nodes are available: {}.",
            reasons.join(", "),
            help.join(", ")
        )
    }
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
