//! Replica sets and replication controllers: as many pods as asked for.

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::Event;

/// Pods made in one go.
const BURST: i64 = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    ReplicaSet,
    ReplicationController,
}

pub(super) struct ReplicaSets {
    flavour: Flavour,
    family: Family,
}

impl ReplicaSets {
    pub(super) fn new(flavour: Flavour) -> ReplicaSets {
        let table = match flavour {
            Flavour::ReplicaSet => "replicasets.apps",
            Flavour::ReplicationController => "replicationcontrollers",
        };
        ReplicaSets { flavour, family: Family::new(table, &["pods"]) }
    }

    fn selector(&self, set: &Value) -> Labels {
        match self.flavour {
            Flavour::ReplicaSet => Labels::of_selector(&set["spec"]["selector"]).unwrap_or_default(),
            Flavour::ReplicationController => Labels::of_map(&set["spec"]["selector"]),
        }
    }
}

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        match self.flavour {
            Flavour::ReplicaSet => "replicaset-controller",
            Flavour::ReplicationController => "replication-controller",
        }
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        self.family.observe(event, queue);
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(set) = cluster.get(&item.table, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let selector = self.selector(&set);
        let pods = children(cluster, "pods", &set, Some(&selector))?;
        let mut failure = None;
        if !deleting(&set) {
            failure = self.scale(&set, &pods, cluster);
        }
        let pods = children(cluster, "pods", &set, Some(&selector))?;
        let active: Vec<&Value> = pods.iter().filter(|p| is_active(p)).collect();
        let tally = Tally::of(cluster, active.iter().copied(), int(&set, "/spec/minReadySeconds"));
        let wanted = set["spec"]["template"]["metadata"]["labels"].as_object();
        let labelled = active
            .iter()
            .filter(|p| {
                wanted.is_none_or(|w| w.iter().all(|(k, v)| p["metadata"]["labels"].get(k) == Some(v)))
            })
            .count();
        let going = pods.iter().filter(|p| deleting(p) && !is_finished(p)).count();
        let now = cluster.timestamp();
        cluster.update_status(&item.table, &item.key, MANAGER, |value| {
            let generation = value["metadata"]["generation"].clone();
            let mut conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
            match &failure {
                Some(message) if conditions.iter().all(|c| c["type"] != "ReplicaFailure") => {
                    conditions.push(json!({
                        "type": "ReplicaFailure", "status": "True", "lastTransitionTime": now,
                        "reason": "FailedCreate", "message": message,
                    }));
                }
                Some(_) => {}
                None => conditions.retain(|c| c["type"] != "ReplicaFailure"),
            }
            let mut status = json!({"replicas": active.len()});
            put_count(&mut status, "fullyLabeledReplicas", labelled);
            put_count(&mut status, "readyReplicas", tally.ready);
            put_count(&mut status, "availableReplicas", tally.available);
            if self.flavour == Flavour::ReplicaSet {
                status["terminatingReplicas"] = going.into();
            }
            status["observedGeneration"] = generation;
            if !conditions.is_empty() {
                status["conditions"] = conditions.into();
            }
            value["status"] = status;
        })?;
        if failure.is_some() {
            // Room may be made at any time, without an event that names this object.
            return Ok(sooner(tally.next(), Next::Later(std::time::Duration::from_secs(10))));
        }
        Ok(tally.next())
    }
}

impl ReplicaSets {
    /// Makes or deletes pods; the answer is why one could not be made.
    fn scale(&self, set: &Value, pods: &[Value], cluster: &Cluster) -> Option<String> {
        let mut active: Vec<Value> = pods.iter().filter(|p| is_active(p)).cloned().collect();
        let wanted = int_or(set, "/spec/replicas", 1);
        let has = i64::try_from(active.len()).unwrap_or(i64::MAX);
        for _ in has..wanted.min(has + BURST) {
            let pod = pod_of_template(set, &set["spec"]["template"]);
            if let Err(status) = create_pod(cluster, set, pod, self.name()) {
                return (status.code != 404).then_some(status.message);
            }
        }
        if has > wanted {
            doomed_first(&mut active);
            for pod in active.iter().take(usize::try_from(has - wanted).unwrap_or(0)) {
                if let Err(status) = delete_pod(cluster, set, pod, self.name()) {
                    return Some(status.message);
                }
            }
        }
        None
    }
}
