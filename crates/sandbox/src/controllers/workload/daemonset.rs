//! Daemon sets: one pod on every node that takes it.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::node;
use super::revision::{GENERATION, RevisionHistory, RevisionOwner};
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::StoreEvent;

const TABLE: &str = "daemonsets.apps";
const COMPONENT: &str = "daemonset-controller";
const REVISION: &str = "controller-revision-hash";

pub(super) struct DaemonSetController {
    family: OwnerIndex,
}

impl Default for DaemonSetController {
    fn default() -> DaemonSetController {
        DaemonSetController { family: OwnerIndex::new(TABLE, &["pods"]) }
    }
}

impl Controller for DaemonSetController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        self.family.observe_owned(event, queue);
        if &*event.table == "nodes" {
            for set in cluster.stored_objects(TABLE, None) {
                queue.push(WorkItem::new(TABLE, set.namespace(), set.name()));
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(set) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let Some(selector) = LabelFilter::of_selector(&set["spec"]["selector"]) else {
            return Ok(NextReconcile::Done);
        };
        if is_deleting(&set) {
            return Ok(NextReconcile::Done);
        }
        let revisions = RevisionHistory::sync_revisions(cluster, &set, RevisionOwner::DaemonSet)?;
        let hash = RevisionHistory::hash_of(revisions.update_revision()).to_owned();
        let nodes = cluster.list_values("nodes", None);
        let spread = DaemonSetSync { set: &set, hash: &hash, nodes: &nodes, cluster };
        let pods = owned_children(cluster, "pods", &set, Some(&selector))?;
        let acted = spread.sync_pods(&pods);
        let pods = owned_children(cluster, "pods", &set, Some(&selector))?;
        let next = spread.write_status(&pods)?;
        acted?;
        let limit = int_or(&set, "/spec/revisionHistoryLimit", 10);
        let used = |r: &Value| pods.iter().any(|p| label(p, REVISION) == Some(RevisionHistory::hash_of(r)));
        revisions.trim_history(cluster, limit, used)?;
        Ok(next)
    }
}

struct DaemonSetSync<'a> {
    set: &'a Value,
    hash: &'a str,
    nodes: &'a [Value],
    cluster: &'a ClusterHandle,
}

/// The node a pod is on, or is meant for.
fn node_of(pod: &Value) -> &str {
    let bound = text_at(pod, "/spec/nodeName");
    if bound.is_empty() {
        text_at(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
        )
    } else {
        bound
    }
}

impl DaemonSetSync<'_> {
    /// The pod spec with the tolerations every daemon has.
    fn tolerant_spec(&self) -> Value {
        let mut spec = self.set["spec"]["template"]["spec"].clone();
        let mut tolerations = list_at(&spec, "/tolerations").to_vec();
        let pressure = [
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
            ("network-unavailable", "NoSchedule"),
        ];
        for (name, effect) in pressure {
            if name == "network-unavailable" && spec["hostNetwork"] != true {
                continue;
            }
            let toleration =
                json!({"key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": effect});
            if !tolerations.contains(&toleration) {
                tolerations.push(toleration);
            }
        }
        spec["tolerations"] = tolerations.into();
        spec
    }

    fn wants_node(&self, node: &Value) -> bool {
        !is_deleting(node) && node::check_placement(&self.tolerant_spec(), node).is_ok()
    }

    fn is_new(&self, pod: &Value) -> bool {
        label(pod, REVISION) == Some(self.hash)
    }

    fn is_available(&self, pod: &Value) -> bool {
        let min_ready = int_at(self.set, "/spec/minReadySeconds");
        !is_deleting(pod) && until_available(self.cluster, pod, min_ready).is_some_and(|d| d.is_zero())
    }

    fn sync_pods(&self, pods: &[Value]) -> Result<()> {
        let rolling = text_at(self.set, "/spec/updateStrategy/type") != "OnDelete";
        let wanted = self.nodes.iter().filter(|n| self.wants_node(n)).count();
        let wanted = i64::try_from(wanted).unwrap_or(0);
        let rules = &self.set["spec"]["updateStrategy"]["rollingUpdate"];
        let mut surge = if rolling { amount_of(&rules["maxSurge"], wanted, PercentRounding::Up) } else { 0 };
        let spare = match &rules["maxUnavailable"] {
            Value::Null => 1,
            value => amount_of(value, wanted, PercentRounding::Up),
        };
        let spare = if surge == 0 { spare.max(1) } else { spare };
        let on = |node: &Value| pods.iter().filter(|p| node_of(p) == name_of(node)).collect::<Vec<_>>();
        let mut outdated = Vec::new();
        let mut down = 0;
        for node in self.nodes {
            let here = on(node);
            let live: Vec<&&Value> = here.iter().filter(|p| is_active(p)).collect();
            if !self.wants_node(node) {
                for pod in here.iter().filter(|p| !is_deleting(p)) {
                    delete_pod(self.cluster, self.set, pod, COMPONENT)?;
                }
                continue;
            }
            for pod in here.iter().filter(|p| is_finished(p) && !is_deleting(p)) {
                let message = format!(
                    "Found failed daemon pod {}/{} on node {}, will try to kill it",
                    namespace_of(pod),
                    name_of(pod),
                    name_of(node)
                );
                self.cluster.record_event(self.set, COMPONENT, "Warning", "FailedDaemonPod", &message);
                delete_pod(self.cluster, self.set, pod, COMPONENT)?;
            }
            let new: Vec<&&&Value> = live.iter().filter(|p| self.is_new(p)).collect();
            let old: Vec<&&&Value> = live.iter().filter(|p| !self.is_new(p)).collect();
            if live.is_empty() {
                down += 1;
                if here.iter().all(|p| is_deleting(p)) {
                    self.create_on(name_of(node))?;
                }
                continue;
            }
            if !live.iter().any(|p| self.is_available(p)) {
                down += 1;
            }
            // More than one of a kind is too many.
            for pod in new.iter().skip(1).chain(old.iter().skip(1)) {
                delete_pod(self.cluster, self.set, pod, COMPONENT)?;
            }
            if let (Some(new), Some(old)) = (new.first(), old.first()) {
                if self.is_available(new) || !self.is_available(old) {
                    delete_pod(self.cluster, self.set, old, COMPONENT)?;
                } else {
                    surge -= 1;
                }
            } else if let Some(old) = old.first() {
                outdated.push((***old).clone());
            }
        }
        if rolling {
            self.roll_outdated(&outdated, surge, spare - down)?;
        }
        for pod in pods.iter().filter(|p| !is_deleting(p)) {
            if !self.nodes.iter().any(|n| name_of(n) == node_of(pod)) {
                delete_exactly(self.cluster, "pods", pod)?;
            }
        }
        Ok(())
    }

    /// Replaces outdated pods: beside them while there is surge, else in their place.
    fn roll_outdated(&self, outdated: &[Value], surge: i64, mut spare: i64) -> Result<()> {
        let surges = !self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"].is_null()
            && amount_of(
                &self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"],
                100,
                PercentRounding::Up,
            ) > 0;
        let mut surge = surge;
        for pod in outdated {
            if surges {
                if surge > 0 {
                    self.create_on(node_of(pod))?;
                    surge -= 1;
                }
            } else if !self.is_available(pod) {
                delete_pod(self.cluster, self.set, pod, COMPONENT)?;
            } else if spare > 0 {
                delete_pod(self.cluster, self.set, pod, COMPONENT)?;
                spare -= 1;
            }
        }
        Ok(())
    }

    fn create_on(&self, node: &str) -> Result<()> {
        let mut pod = pod_of_template(self.set, &self.set["spec"]["template"]);
        let labels = &mut pod["metadata"]["labels"];
        labels[REVISION] = self.hash.into();
        labels["pod-template-generation"] = annotation(self.set, GENERATION).unwrap_or("1").into();
        pod["spec"] = self.tolerant_spec();
        let affinity = &mut pod["spec"]["affinity"]["nodeAffinity"];
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [term]});
        create_pod(self.cluster, self.set, pod, COMPONENT)?;
        Ok(())
    }

    fn write_status(&self, pods: &[Value]) -> Result<NextReconcile> {
        let (mut desired, mut current, mut stray) = (0usize, 0usize, 0usize);
        let mut best = Vec::new();
        let mut updated = 0usize;
        for node in self.nodes {
            let mut here: Vec<&Value> =
                pods.iter().filter(|p| node_of(p) == name_of(node) && is_active(p)).collect();
            if !self.wants_node(node) {
                stray += usize::from(!here.is_empty());
                continue;
            }
            desired += 1;
            current += usize::from(!here.is_empty());
            updated += usize::from(here.iter().any(|p| self.is_new(p)));
            here.sort_by_key(|p| !is_ready(p));
            best.extend(here.first().copied());
        }
        let tally = ReplicaCounts::of(self.cluster, best, int_at(self.set, "/spec/minReadySeconds"));
        self.cluster.update_status(TABLE, &key_of(self.set), MANAGER, |value| {
            let mut status = json!({
                "currentNumberScheduled": current,
                "numberMisscheduled": stray,
                "desiredNumberScheduled": desired,
                "numberReady": tally.ready,
                "observedGeneration": value["metadata"]["generation"],
            });
            put_count(&mut status, "updatedNumberScheduled", updated);
            put_count(&mut status, "numberAvailable", tally.available);
            put_count(&mut status, "numberUnavailable", desired.saturating_sub(tally.available));
            value["status"] = status;
        })?;
        Ok(tally.next_reconcile())
    }
}
