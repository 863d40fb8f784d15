//! Daemon sets: one pod on every node that takes it.

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use super::node;
use super::revision::{GENERATION, RevisionOwner, Revisions};
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::Event;

const TABLE: &str = "daemonsets.apps";
const COMPONENT: &str = "daemonset-controller";
const REVISION: &str = "controller-revision-hash";

pub(super) struct DaemonSets {
    family: Family,
}

impl Default for DaemonSets {
    fn default() -> DaemonSets {
        DaemonSets { family: Family::new(TABLE, &["pods"]) }
    }
}

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe(&mut self, event: &Event, cluster: &Cluster, queue: &mut Queue) {
        self.family.observe(event, queue);
        if &*event.table == "nodes" {
            for set in cluster.objects(TABLE, None) {
                queue.push(Item::new(TABLE, set.namespace(), set.name()));
            }
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(set) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let Some(selector) = Labels::of_selector(&set["spec"]["selector"]) else { return Ok(Next::Done) };
        if deleting(&set) {
            return Ok(Next::Done);
        }
        let revisions = Revisions::sync(cluster, &set, RevisionOwner::DaemonSet)?;
        let hash = Revisions::hash_of(revisions.update()).to_owned();
        let nodes = cluster.list("nodes", None);
        let spread = Spread { set: &set, hash: &hash, nodes: &nodes, cluster };
        let pods = children(cluster, "pods", &set, Some(&selector))?;
        let acted = spread.act(&pods);
        let pods = children(cluster, "pods", &set, Some(&selector))?;
        let next = spread.tell(&pods)?;
        acted?;
        let limit = int_or(&set, "/spec/revisionHistoryLimit", 10);
        let used = |r: &Value| pods.iter().any(|p| label(p, REVISION) == Some(Revisions::hash_of(r)));
        revisions.trim(cluster, limit, used)?;
        Ok(next)
    }
}

struct Spread<'a> {
    set: &'a Value,
    hash: &'a str,
    nodes: &'a [Value],
    cluster: &'a Cluster,
}

/// The node a pod is on, or is meant for.
fn node_of(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    if bound.is_empty() {
        text(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
        )
    } else {
        bound
    }
}

impl Spread<'_> {
    /// The pod spec with the tolerations every daemon has.
    fn tolerant(&self) -> Value {
        let mut spec = self.set["spec"]["template"]["spec"].clone();
        let mut tolerations = list(&spec, "/tolerations").to_vec();
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

    fn wants(&self, node: &Value) -> bool {
        !deleting(node) && node::fits(&self.tolerant(), node).is_ok()
    }

    fn is_new(&self, pod: &Value) -> bool {
        label(pod, REVISION) == Some(self.hash)
    }

    fn is_available(&self, pod: &Value) -> bool {
        let min_ready = int(self.set, "/spec/minReadySeconds");
        !deleting(pod) && until_available(self.cluster, pod, min_ready).is_some_and(|d| d.is_zero())
    }

    fn act(&self, pods: &[Value]) -> Result<()> {
        let rolling = text(self.set, "/spec/updateStrategy/type") != "OnDelete";
        let wanted = self.nodes.iter().filter(|n| self.wants(n)).count();
        let wanted = i64::try_from(wanted).unwrap_or(0);
        let rules = &self.set["spec"]["updateStrategy"]["rollingUpdate"];
        let mut surge = if rolling { amount_of(&rules["maxSurge"], wanted, Rounding::Up) } else { 0 };
        let spare = match &rules["maxUnavailable"] {
            Value::Null => 1,
            value => amount_of(value, wanted, Rounding::Up),
        };
        let spare = if surge == 0 { spare.max(1) } else { spare };
        let on = |node: &Value| pods.iter().filter(|p| node_of(p) == name(node)).collect::<Vec<_>>();
        let mut outdated = Vec::new();
        let mut down = 0;
        for node in self.nodes {
            let here = on(node);
            let live: Vec<&&Value> = here.iter().filter(|p| is_active(p)).collect();
            if !self.wants(node) {
                for pod in here.iter().filter(|p| !deleting(p)) {
                    delete_pod(self.cluster, self.set, pod, COMPONENT)?;
                }
                continue;
            }
            for pod in here.iter().filter(|p| is_finished(p) && !deleting(p)) {
                let message = format!(
                    "Found failed daemon pod {}/{} on node {}, will try to kill it",
                    namespace(pod),
                    name(pod),
                    name(node)
                );
                self.cluster.event(self.set, COMPONENT, "Warning", "FailedDaemonPod", &message);
                delete_pod(self.cluster, self.set, pod, COMPONENT)?;
            }
            let new: Vec<&&&Value> = live.iter().filter(|p| self.is_new(p)).collect();
            let old: Vec<&&&Value> = live.iter().filter(|p| !self.is_new(p)).collect();
            if live.is_empty() {
                down += 1;
                if here.iter().all(|p| deleting(p)) {
                    self.create(name(node))?;
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
            self.roll(&outdated, surge, spare - down)?;
        }
        for pod in pods.iter().filter(|p| !deleting(p)) {
            if !self.nodes.iter().any(|n| name(n) == node_of(pod)) {
                remove(self.cluster, "pods", pod)?;
            }
        }
        Ok(())
    }

    /// Replaces outdated pods: beside them while there is surge, else in their place.
    fn roll(&self, outdated: &[Value], surge: i64, mut spare: i64) -> Result<()> {
        let surges = !self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"].is_null()
            && amount_of(&self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"], 100, Rounding::Up)
                > 0;
        let mut surge = surge;
        for pod in outdated {
            if surges {
                if surge > 0 {
                    self.create(node_of(pod))?;
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

    fn create(&self, node: &str) -> Result<()> {
        let mut pod = pod_of_template(self.set, &self.set["spec"]["template"]);
        let labels = &mut pod["metadata"]["labels"];
        labels[REVISION] = self.hash.into();
        labels["pod-template-generation"] = annotation(self.set, GENERATION).unwrap_or("1").into();
        pod["spec"] = self.tolerant();
        let affinity = &mut pod["spec"]["affinity"]["nodeAffinity"];
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [term]});
        create_pod(self.cluster, self.set, pod, COMPONENT)?;
        Ok(())
    }

    fn tell(&self, pods: &[Value]) -> Result<Next> {
        let (mut desired, mut current, mut stray) = (0usize, 0usize, 0usize);
        let mut best = Vec::new();
        let mut updated = 0usize;
        for node in self.nodes {
            let mut here: Vec<&Value> =
                pods.iter().filter(|p| node_of(p) == name(node) && is_active(p)).collect();
            if !self.wants(node) {
                stray += usize::from(!here.is_empty());
                continue;
            }
            desired += 1;
            current += usize::from(!here.is_empty());
            updated += usize::from(here.iter().any(|p| self.is_new(p)));
            here.sort_by_key(|p| !is_ready(p));
            best.extend(here.first().copied());
        }
        let tally = Tally::of(self.cluster, best, int(self.set, "/spec/minReadySeconds"));
        self.cluster.update_status(TABLE, &key(self.set), MANAGER, |value| {
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
        Ok(tally.next())
    }
}
