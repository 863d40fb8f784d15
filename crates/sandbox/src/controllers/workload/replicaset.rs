//! Replica sets and replication controllers: as many pods as asked for.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::StoreEvent;

/// Pods made in one go.
const BURST: i64 = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplicaKind {
    ReplicaSet,
    ReplicationController,
}

pub(super) struct ReplicaSetController {
    flavour: ReplicaKind,
    family: OwnerIndex,
}

impl ReplicaSetController {
    pub(super) fn new(flavour: ReplicaKind) -> ReplicaSetController {
        let table = match flavour {
            ReplicaKind::ReplicaSet => "replicasets.apps",
            ReplicaKind::ReplicationController => "replicationcontrollers",
        };
        ReplicaSetController { flavour, family: OwnerIndex::new(table, &["pods"]) }
    }

    fn selector_of(&self, set: &Value) -> LabelFilter {
        match self.flavour {
            ReplicaKind::ReplicaSet => LabelFilter::of_selector(&set["spec"]["selector"]).unwrap_or_default(),
            ReplicaKind::ReplicationController => LabelFilter::of_map(&set["spec"]["selector"]),
        }
    }
}

impl Controller for ReplicaSetController {
    fn name(&self) -> &'static str {
        match self.flavour {
            ReplicaKind::ReplicaSet => "replicaset-controller",
            ReplicaKind::ReplicationController => "replication-controller",
        }
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        self.family.observe_owned(event, queue);
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(set) = cluster.get(&item.table, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let selector = self.selector_of(&set);
        let pods = owned_children(cluster, "pods", &set, Some(&selector))?;
        let mut failure = None;
        if !is_deleting(&set) {
            failure = self.scale_pods(&set, &pods, cluster);
        }
        let pods = owned_children(cluster, "pods", &set, Some(&selector))?;
        let active: Vec<&Value> = pods.iter().filter(|p| is_active(p)).collect();
        let tally = ReplicaCounts::of(cluster, active.iter().copied(), int_at(&set, "/spec/minReadySeconds"));
        let wanted = set["spec"]["template"]["metadata"]["labels"].as_object();
        let labelled = active
            .iter()
            .filter(|p| {
                wanted.is_none_or(|w| w.iter().all(|(k, v)| p["metadata"]["labels"].get(k) == Some(v)))
            })
            .count();
        let going = pods.iter().filter(|p| is_deleting(p) && !is_finished(p)).count();
        let now = cluster.now_text();
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
            if self.flavour == ReplicaKind::ReplicaSet {
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
            return Ok(sooner_of(
                tally.next_reconcile(),
                NextReconcile::Later(std::time::Duration::from_secs(10)),
            ));
        }
        Ok(tally.next_reconcile())
    }
}

impl ReplicaSetController {
    /// Makes or deletes pods; the answer is why one could not be made.
    fn scale_pods(&self, set: &Value, pods: &[Value], cluster: &ClusterHandle) -> Option<String> {
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
