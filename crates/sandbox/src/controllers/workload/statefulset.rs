//! Stateful sets: numbered pods with claims of their own, made and replaced in order.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::revision::{RevisionHistory, RevisionOwner};
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::StoreEvent;

const TABLE: &str = "statefulsets.apps";
const COMPONENT: &str = "statefulset-controller";
const REVISION: &str = "controller-revision-hash";

pub(super) struct StatefulSetController {
    family: OwnerIndex,
}

impl Default for StatefulSetController {
    fn default() -> StatefulSetController {
        StatefulSetController { family: OwnerIndex::new(TABLE, &["pods", super::revision::TABLE]) }
    }
}

impl Controller for StatefulSetController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        self.family.observe_owned(event, queue);
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
        let revisions = RevisionHistory::sync_revisions(cluster, &set, RevisionOwner::StatefulSet)?;
        let current = text_at(&set, "/status/currentRevision").to_owned();
        let known = revisions.all.iter().any(|r| name_of(r) == current);
        let current = if known { current } else { name_of(revisions.update_revision()).to_owned() };
        let ordered = StatefulSetSync { set: &set, revisions: &revisions, current: &current, cluster };
        let pods = owned_children(cluster, "pods", &set, Some(&selector))?;
        let acted = ordered.sync_pods(&pods);
        let pods = owned_children(cluster, "pods", &set, Some(&selector))?;
        let next = ordered.write_status(&pods)?;
        acted?;
        let limit = int_or(&set, "/spec/revisionHistoryLimit", 10);
        let used =
            |r: &Value| name_of(r) == current || pods.iter().any(|p| label(p, REVISION) == Some(name_of(r)));
        revisions.trim_history(cluster, limit, used)?;
        Ok(next)
    }
}

/// One reconciliation of a stateful set.
struct StatefulSetSync<'a> {
    set: &'a Value,
    revisions: &'a RevisionHistory,
    current: &'a str,
    cluster: &'a ClusterHandle,
}

fn ordinal_of(set: &Value, pod: &Value) -> Option<i64> {
    name_of(pod).strip_prefix(name_of(set))?.strip_prefix('-')?.parse().ok()
}

impl StatefulSetSync<'_> {
    fn start_ordinal(&self) -> i64 {
        int_at(self.set, "/spec/ordinals/start")
    }

    fn end_ordinal(&self) -> i64 {
        self.start_ordinal() + int_or(self.set, "/spec/replicas", 1)
    }

    fn min_ready(&self) -> i64 {
        int_at(self.set, "/spec/minReadySeconds")
    }

    fn is_available(&self, pod: &Value) -> bool {
        !is_deleting(pod) && until_available(self.cluster, pod, self.min_ready()).is_some_and(|d| d.is_zero())
    }

    /// The next step, or in parallel all steps that can be taken.
    fn sync_pods(&self, pods: &[Value]) -> Result<()> {
        let in_order = text_at(self.set, "/spec/podManagementPolicy") != "Parallel";
        for number in self.start_ordinal()..self.end_ordinal() {
            let Some(pod) = pods.iter().find(|p| ordinal_of(self.set, p) == Some(number)) else {
                self.create_pod_at(number)?;
                if in_order {
                    return Ok(());
                }
                continue;
            };
            if is_finished(pod) && !is_deleting(pod) {
                let (space, called) = (namespace_of(self.set), name_of(self.set));
                let message = format!(
                    "StatefulSet {space}/{called} is recreating {} Pod {}",
                    if text_at(pod, "/status/phase") == "Failed" { "failed" } else { "terminated" },
                    name_of(pod)
                );
                self.cluster.record_event(
                    self.set,
                    COMPONENT,
                    "Warning",
                    "RecreatingTerminatedPod",
                    &message,
                );
                delete_exactly(self.cluster, "pods", pod)?;
                return Ok(());
            }
            if in_order && !self.is_available(pod) {
                return Ok(());
            }
        }
        let mut surplus: Vec<(i64, &Value)> = pods
            .iter()
            .filter_map(|p| Some((ordinal_of(self.set, p)?, p)))
            .filter(|(n, _)| *n < self.start_ordinal() || *n >= self.end_ordinal())
            .collect();
        surplus.sort_by_key(|(n, _)| -n);
        for (number, pod) in surplus {
            if is_deleting(pod) {
                if in_order {
                    return Ok(());
                }
                continue;
            }
            self.delete_set_pod(pod)?;
            if self.set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete" {
                self.hand_claims_to(number, pod)?;
            }
            if in_order {
                return Ok(());
            }
        }
        self.replace_outdated(pods)
    }

    /// Replaces pods of older revisions, from the highest number down to the partition.
    fn replace_outdated(&self, pods: &[Value]) -> Result<()> {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return Ok(());
        }
        let partition = int_at(strategy, "/rollingUpdate/partition").max(self.start_ordinal());
        let count = self.end_ordinal() - self.start_ordinal();
        let most = match &strategy["rollingUpdate"]["maxUnavailable"] {
            Value::Null => 1,
            value => amount_of(value, count, PercentRounding::Up).max(1),
        };
        let update = name_of(self.revisions.update_revision());
        let mine = |n: i64| pods.iter().find(|p| ordinal_of(self.set, p) == Some(n));
        let mut down = (self.start_ordinal()..self.end_ordinal())
            .filter(|n| !mine(*n).is_some_and(|p| self.is_available(p)))
            .count();
        for number in (partition..self.end_ordinal()).rev() {
            let Some(pod) = mine(number) else { continue };
            let old = label(pod, REVISION) != Some(update);
            if old && !is_deleting(pod) {
                let healthy = self.is_available(pod);
                if healthy && i64::try_from(down).unwrap_or(i64::MAX) >= most {
                    return Ok(());
                }
                self.delete_set_pod(pod)?;
                down += usize::from(healthy);
            } else if !self.is_available(pod) && i64::try_from(down).unwrap_or(i64::MAX) >= most {
                return Ok(());
            }
        }
        Ok(())
    }

    fn delete_set_pod(&self, pod: &Value) -> Result<()> {
        delete_exactly(self.cluster, "pods", pod)?;
        let message = format!("delete Pod {} in StatefulSet {} successful", name_of(pod), name_of(self.set));
        self.cluster.record_event(self.set, COMPONENT, "Normal", "SuccessfulDelete", &message);
        Ok(())
    }

    fn create_pod_at(&self, number: i64) -> Result<()> {
        let (set, cluster) = (self.set, self.cluster);
        let partition = int_at(set, "/spec/updateStrategy/rollingUpdate/partition");
        let old = text_at(set, "/spec/updateStrategy/type") != "OnDelete" && number < partition;
        let revision = if old { self.current } else { name_of(self.revisions.update_revision()) };
        let template =
            self.revisions.template_of(revision).unwrap_or_else(|| set["spec"]["template"].clone());
        let called = format!("{}-{number}", name_of(set));
        let mut pod = pod_of_template(set, &template);
        pod["metadata"]["name"] = called.as_str().into();
        let labels = &mut pod["metadata"]["labels"];
        labels["apps.kubernetes.io/pod-index"] = number.to_string().into();
        labels[REVISION] = revision.into();
        labels["statefulset.kubernetes.io/pod-name"] = called.as_str().into();
        pod["spec"]["hostname"] = called.as_str().into();
        let service = text_at(set, "/spec/serviceName");
        if !service.is_empty() {
            pod["spec"]["subdomain"] = service.into();
        }
        let mut volumes = list_at(&pod, "/spec/volumes").to_vec();
        for claim in list_at(set, "/spec/volumeClaimTemplates") {
            let volume = text_at(claim, "/metadata/name");
            let claim_name = self.ensure_claim(claim, number)?;
            volumes.retain(|v| v["name"] != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        }
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = volumes.into();
        }
        match cluster.create("pods", namespace_of(set), pod, MANAGER) {
            Ok(_) => {
                let message = format!("create Pod {called} in StatefulSet {} successful", name_of(set));
                cluster.record_event(set, COMPONENT, "Normal", "SuccessfulCreate", &message);
                Ok(())
            }
            // One of a set that went before is still being deleted. Nothing tells this set when it is gone.
            Err(status) if status.code == 409 => Err(status),
            Err(status) => {
                let message = format!(
                    "create Pod {called} in StatefulSet {} failed error: {}",
                    name_of(set),
                    status.message
                );
                cluster.record_event(set, COMPONENT, "Warning", "FailedCreate", &message);
                Err(status)
            }
        }
    }

    fn claim_name(&self, claim: &Value, number: i64) -> String {
        format!("{}-{}-{number}", text_at(claim, "/metadata/name"), name_of(self.set))
    }

    /// Creates a pod's claim if there is none.
    fn ensure_claim(&self, claim: &Value, number: i64) -> Result<String> {
        let (set, cluster) = (self.set, self.cluster);
        let called = self.claim_name(claim, number);
        if cluster.get("persistentvolumeclaims", namespace_of(set), &called).is_some() {
            return Ok(called);
        }
        let mut labels = claim["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        for (key, value) in set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
            labels.insert(key.clone(), value.clone());
        }
        let mut meta = json!({"name": called, "labels": labels});
        if let Some(annotations) = claim["metadata"].get("annotations") {
            meta["annotations"] = annotations.clone();
        }
        if set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" {
            meta["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name_of(set), "uid": uid_of(set),
                "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        let made = json!({"metadata": meta, "spec": claim["spec"]});
        cluster.create("persistentvolumeclaims", namespace_of(set), made, MANAGER)?;
        let pod = format!("{}-{number}", name_of(set));
        let message = format!("create Claim {called} Pod {pod} in StatefulSet {} success", name_of(set));
        cluster.record_event(set, COMPONENT, "Normal", "SuccessfulCreate", &message);
        Ok(called)
    }

    /// Makes a pod that is scaled away the owner of its claims, so that they are deleted with it.
    fn hand_claims_to(&self, number: i64, pod: &Value) -> Result<()> {
        for claim in list_at(self.set, "/spec/volumeClaimTemplates") {
            let called = self.claim_name(claim, number);
            let place = crate::store::ObjectKey::new(namespace_of(self.set), &called);
            if self.cluster.stored_object("persistentvolumeclaims", &place).is_none() {
                continue;
            }
            self.cluster.update("persistentvolumeclaims", &place, MANAGER, |value| {
                value["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod),
                }]);
            })?;
        }
        Ok(())
    }

    fn write_status(&self, pods: &[Value]) -> Result<NextReconcile> {
        let set = self.set;
        let update = name_of(self.revisions.update_revision());
        let mine: Vec<&Value> = pods.iter().filter(|p| ordinal_of(set, p).is_some()).collect();
        let here: Vec<&Value> = mine.iter().copied().filter(|p| !is_finished(p)).collect();
        let tally = ReplicaCounts::of(
            self.cluster,
            here.iter().copied().filter(|p| !is_deleting(p)),
            self.min_ready(),
        );
        let at = |revision: &str| {
            here.iter().filter(|p| !is_deleting(p) && label(p, REVISION) == Some(revision)).count()
        };
        let wanted = usize::try_from(int_or(set, "/spec/replicas", 1)).unwrap_or(0);
        let (mut current, mut current_count, updated) = (self.current, at(self.current), at(update));
        let rolling = text_at(set, "/spec/updateStrategy/type") != "OnDelete";
        if rolling && updated == wanted && tally.ready == wanted && here.len() == wanted {
            (current, current_count) = (update, updated);
        }
        self.cluster.update_status(TABLE, &key_of(set), MANAGER, |value| {
            let mut status = json!({
                "observedGeneration": value["metadata"]["generation"],
                "replicas": here.len(),
            });
            put_count(&mut status, "readyReplicas", tally.ready);
            put_count(&mut status, "currentReplicas", current_count);
            put_count(&mut status, "updatedReplicas", updated);
            status["currentRevision"] = current.into();
            status["updateRevision"] = update.into();
            status["collisionCount"] = int_at(value, "/status/collisionCount").into();
            status["availableReplicas"] = tally.available.into();
            value["status"] = status;
        })?;
        Ok(tally.next_reconcile())
    }
}
