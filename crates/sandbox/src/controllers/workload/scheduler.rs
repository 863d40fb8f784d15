//! The scheduler: gives pods a node, or says why none will do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use super::node::{self, Misfit};
use crate::status::Result;
use crate::store::{Change, Event};

const COMPONENT: &str = "default-scheduler";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Remembers who waits, and how full each node is.
#[derive(Default)]
pub(super) struct Scheduler {
    waiting: BTreeSet<Item>,
    placed: HashMap<Box<str>, String>,
    load: BTreeMap<String, usize>,
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        match &*event.table {
            "pods" if event.change == Change::Deleted => {
                self.waiting.remove(&Item::of(event));
                if let Some(node) = self.placed.remove(&event.object.uid)
                    && let Some(load) = self.load.get_mut(&node)
                {
                    *load = load.saturating_sub(1);
                }
            }
            "pods" if event.change == Change::Added => {
                let node = text(&event.object.value(), "/spec/nodeName").to_owned();
                if node.is_empty() {
                    self.waiting.insert(Item::of(event));
                    queue.push(Item::of(event));
                } else {
                    self.place(&event.object.uid, node);
                }
            }
            // A gate may have been lifted.
            "pods" if self.waiting.contains(&Item::of(event)) => queue.push(Item::of(event)),
            "nodes" | "persistentvolumeclaims" => {
                for item in &self.waiting {
                    queue.push(item.clone());
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(pod) = cluster.get("pods", &item.key.namespace, &item.key.name) else {
            self.waiting.remove(item);
            return Ok(Next::Done);
        };
        let gated = !list(&pod, "/spec/schedulingGates").is_empty();
        let ours = matches!(text(&pod, "/spec/schedulerName"), "" | COMPONENT);
        if !text(&pod, "/spec/nodeName").is_empty() {
            self.waiting.remove(item);
            self.place(uid(&pod), text(&pod, "/spec/nodeName").to_owned());
            return Ok(Next::Done);
        }
        if deleting(&pod) || gated || !ours {
            return Ok(Next::Done);
        }
        match self.choose(&pod, cluster)? {
            Choice::Node(node) => {
                cluster.bind(&item.key, &node)?;
                self.waiting.remove(item);
                self.place(uid(&pod), node.clone());
                let who = format!("{}/{}", namespace(&pod), name(&pod));
                let message = format!("Successfully assigned {who} to {node}");
                tell(&pod, cluster, "Normal", "Scheduled", "Binding", &message);
            }
            Choice::Wait => {}
            Choice::Nowhere(message) => refuse(&pod, &message, cluster)?,
        }
        Ok(Next::Done)
    }
}

enum Choice {
    Node(String),
    /// A volume is on its way.
    Wait,
    Nowhere(String),
}

impl Scheduler {
    fn place(&mut self, uid: &str, node: String) {
        if self.placed.insert(uid.into(), node.clone()).is_none() {
            *self.load.entry(node).or_default() += 1;
        }
    }

    fn choose(&self, pod: &Value, cluster: &Cluster) -> Result<Choice> {
        let nodes = cluster.list("nodes", None);
        if nodes.is_empty() {
            return Ok(Choice::Nowhere("no nodes available to schedule pods".into()));
        }
        let mut misfits: BTreeMap<Misfit, usize> = BTreeMap::new();
        let mut best: Option<(usize, &str)> = None;
        for node in &nodes {
            match node::fits(&pod["spec"], node) {
                Ok(()) => {
                    let rank = (self.load.get(name(node)).copied().unwrap_or(0), name(node));
                    best = Some(best.map_or(rank, |b| b.min(rank)));
                }
                Err(misfit) => *misfits.entry(misfit).or_default() += 1,
            }
        }
        let all = nodes.len();
        let Some((_, node)) = best else {
            return Ok(Choice::Nowhere(explain(all, &misfits)));
        };
        self.volumes(pod, node, all, cluster)
    }

    /// Claims must be bound first; those that wait for a consumer are told which node it is.
    fn volumes(&self, pod: &Value, node: &str, nodes: usize, cluster: &Cluster) -> Result<Choice> {
        let mut wait = false;
        for volume in list(pod, "/spec/volumes") {
            let claim = match volume["persistentVolumeClaim"]["claimName"].as_str() {
                Some(claim) => claim.to_owned(),
                None if volume["ephemeral"].is_object() => {
                    format!("{}-{}", name(pod), volume["name"].as_str().unwrap_or(""))
                }
                None => continue,
            };
            let Some(found) = cluster.get("persistentvolumeclaims", namespace(pod), &claim) else {
                let help = format!(
                    "preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
                );
                return Ok(Choice::Nowhere(format!(
                    "0/{nodes} nodes are available: persistentvolumeclaim \"{claim}\" not found. {help}"
                )));
            };
            if text(&found, "/status/phase") == "Bound" {
                continue;
            }
            let class =
                cluster.get("storageclasses.storage.k8s.io", "", text(&found, "/spec/storageClassName"));
            if class.is_some_and(|c| c["volumeBindingMode"] == "WaitForFirstConsumer") {
                wait = true;
                if annotation(&found, SELECTED_NODE) != Some(node) {
                    cluster.update("persistentvolumeclaims", &key(&found), "kube-scheduler", |value| {
                        slipway_manifest::object::set_annotation(value, SELECTED_NODE, node);
                    })?;
                }
                continue;
            }
            let help = format!(
                "preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
            );
            return Ok(Choice::Nowhere(format!(
                "0/{nodes} nodes are available: pod has unbound immediate PersistentVolumeClaims. {help}"
            )));
        }
        Ok(if wait { Choice::Wait } else { Choice::Node(node.to_owned()) })
    }
}

fn explain(all: usize, misfits: &BTreeMap<Misfit, usize>) -> String {
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

fn refuse(pod: &Value, message: &str, cluster: &Cluster) -> Result<()> {
    let known = condition(pod, "PodScheduled");
    if known.is_some_and(|c| c["reason"] == "Unschedulable" && c["message"] == message) {
        return Ok(());
    }
    let now = cluster.timestamp();
    cluster.update_status("pods", &key(pod), "kube-scheduler", |value| {
        let mut conditions = list(value, "/status/conditions").to_vec();
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
    tell(pod, cluster, "Warning", "FailedScheduling", "Scheduling", message);
    Ok(())
}

/// The scheduler writes events of the newer form: no source, no count, a time with fractions.
fn tell(pod: &Value, cluster: &Cluster, kind: &str, reason: &str, action: &str, message: &str) {
    let unique = (cluster.now().as_nanosecond() as u64) ^ (cluster.random() & 0xffff);
    let event = json!({
        "metadata": {"name": format!("{}.{unique:016x}", name(pod)), "namespace": namespace(pod)},
        "involvedObject": {
            "kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod),
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
    // An event that cannot be recorded must not stop what it tells of.
    let _ = cluster.create("events", namespace(pod), event, "kube-scheduler");
}
