//! Stateful sets: numbered pods with claims of their own, made and replaced in order.

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use super::revision::{RevisionOwner, Revisions};
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::Event;

const TABLE: &str = "statefulsets.apps";
const COMPONENT: &str = "statefulset-controller";
const REVISION: &str = "controller-revision-hash";

pub(super) struct StatefulSets {
    family: Family,
}

impl Default for StatefulSets {
    fn default() -> StatefulSets {
        StatefulSets { family: Family::new(TABLE, &["pods", super::revision::TABLE]) }
    }
}

impl Controller for StatefulSets {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        self.family.observe(event, queue);
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(set) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let Some(selector) = Labels::of_selector(&set["spec"]["selector"]) else { return Ok(Next::Done) };
        if deleting(&set) {
            return Ok(Next::Done);
        }
        let revisions = Revisions::sync(cluster, &set, RevisionOwner::StatefulSet)?;
        let current = text(&set, "/status/currentRevision").to_owned();
        let known = revisions.all.iter().any(|r| name(r) == current);
        let current = if known { current } else { name(revisions.update()).to_owned() };
        let ordered = Ordered { set: &set, revisions: &revisions, current: &current, cluster };
        let pods = children(cluster, "pods", &set, Some(&selector))?;
        let acted = ordered.act(&pods);
        let pods = children(cluster, "pods", &set, Some(&selector))?;
        let next = ordered.tell(&pods)?;
        acted?;
        let limit = int_or(&set, "/spec/revisionHistoryLimit", 10);
        let used = |r: &Value| name(r) == current || pods.iter().any(|p| label(p, REVISION) == Some(name(r)));
        revisions.trim(cluster, limit, used)?;
        Ok(next)
    }
}

/// One look at a stateful set.
struct Ordered<'a> {
    set: &'a Value,
    revisions: &'a Revisions,
    current: &'a str,
    cluster: &'a Cluster,
}

fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

impl Ordered<'_> {
    fn start(&self) -> i64 {
        int(self.set, "/spec/ordinals/start")
    }

    fn end(&self) -> i64 {
        self.start() + int_or(self.set, "/spec/replicas", 1)
    }

    fn min_ready(&self) -> i64 {
        int(self.set, "/spec/minReadySeconds")
    }

    fn is_available(&self, pod: &Value) -> bool {
        !deleting(pod) && until_available(self.cluster, pod, self.min_ready()).is_some_and(|d| d.is_zero())
    }

    /// The next step, or in parallel all steps that can be taken.
    fn act(&self, pods: &[Value]) -> Result<()> {
        let in_order = text(self.set, "/spec/podManagementPolicy") != "Parallel";
        for number in self.start()..self.end() {
            let Some(pod) = pods.iter().find(|p| ordinal(self.set, p) == Some(number)) else {
                self.create(number)?;
                if in_order {
                    return Ok(());
                }
                continue;
            };
            if is_finished(pod) && !deleting(pod) {
                let (space, called) = (namespace(self.set), name(self.set));
                let message = format!(
                    "StatefulSet {space}/{called} is recreating {} Pod {}",
                    if text(pod, "/status/phase") == "Failed" { "failed" } else { "terminated" },
                    name(pod)
                );
                self.cluster.event(self.set, COMPONENT, "Warning", "RecreatingTerminatedPod", &message);
                remove(self.cluster, "pods", pod)?;
                return Ok(());
            }
            if in_order && !self.is_available(pod) {
                return Ok(());
            }
        }
        let mut surplus: Vec<(i64, &Value)> = pods
            .iter()
            .filter_map(|p| Some((ordinal(self.set, p)?, p)))
            .filter(|(n, _)| *n < self.start() || *n >= self.end())
            .collect();
        surplus.sort_by_key(|(n, _)| -n);
        for (number, pod) in surplus {
            if deleting(pod) {
                if in_order {
                    return Ok(());
                }
                continue;
            }
            self.delete(pod)?;
            if self.set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete" {
                self.hand_claims_to(number, pod)?;
            }
            if in_order {
                return Ok(());
            }
        }
        self.replace(pods)
    }

    /// Replaces pods of older revisions, from the highest number down to the partition.
    fn replace(&self, pods: &[Value]) -> Result<()> {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return Ok(());
        }
        let partition = int(strategy, "/rollingUpdate/partition").max(self.start());
        let count = self.end() - self.start();
        let most = match &strategy["rollingUpdate"]["maxUnavailable"] {
            Value::Null => 1,
            value => amount_of(value, count, Rounding::Up).max(1),
        };
        let update = name(self.revisions.update());
        let mine = |n: i64| pods.iter().find(|p| ordinal(self.set, p) == Some(n));
        let mut down =
            (self.start()..self.end()).filter(|n| !mine(*n).is_some_and(|p| self.is_available(p))).count();
        for number in (partition..self.end()).rev() {
            let Some(pod) = mine(number) else { continue };
            let old = label(pod, REVISION) != Some(update);
            if old && !deleting(pod) {
                let healthy = self.is_available(pod);
                if healthy && i64::try_from(down).unwrap_or(i64::MAX) >= most {
                    return Ok(());
                }
                self.delete(pod)?;
                down += usize::from(healthy);
            } else if !self.is_available(pod) && i64::try_from(down).unwrap_or(i64::MAX) >= most {
                return Ok(());
            }
        }
        Ok(())
    }

    fn delete(&self, pod: &Value) -> Result<()> {
        remove(self.cluster, "pods", pod)?;
        let message = format!("delete Pod {} in StatefulSet {} successful", name(pod), name(self.set));
        self.cluster.event(self.set, COMPONENT, "Normal", "SuccessfulDelete", &message);
        Ok(())
    }

    fn create(&self, number: i64) -> Result<()> {
        let (set, cluster) = (self.set, self.cluster);
        let partition = int(set, "/spec/updateStrategy/rollingUpdate/partition");
        let old = text(set, "/spec/updateStrategy/type") != "OnDelete" && number < partition;
        let revision = if old { self.current } else { name(self.revisions.update()) };
        let template = self.revisions.template(revision).unwrap_or_else(|| set["spec"]["template"].clone());
        let called = format!("{}-{number}", name(set));
        let mut pod = pod_of_template(set, &template);
        pod["metadata"]["name"] = called.as_str().into();
        let labels = &mut pod["metadata"]["labels"];
        labels["apps.kubernetes.io/pod-index"] = number.to_string().into();
        labels[REVISION] = revision.into();
        labels["statefulset.kubernetes.io/pod-name"] = called.as_str().into();
        pod["spec"]["hostname"] = called.as_str().into();
        let service = text(set, "/spec/serviceName");
        if !service.is_empty() {
            pod["spec"]["subdomain"] = service.into();
        }
        let mut volumes = list(&pod, "/spec/volumes").to_vec();
        for claim in list(set, "/spec/volumeClaimTemplates") {
            let volume = text(claim, "/metadata/name");
            let claim_name = self.claim(claim, number)?;
            volumes.retain(|v| v["name"] != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        }
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = volumes.into();
        }
        match cluster.create("pods", namespace(set), pod, MANAGER) {
            Ok(_) => {
                let message = format!("create Pod {called} in StatefulSet {} successful", name(set));
                cluster.event(set, COMPONENT, "Normal", "SuccessfulCreate", &message);
                Ok(())
            }
            // The old one is still on its way out.
            Err(status) if status.code == 409 => Ok(()),
            Err(status) => {
                let message = format!(
                    "create Pod {called} in StatefulSet {} failed error: {}",
                    name(set),
                    status.message
                );
                cluster.event(set, COMPONENT, "Warning", "FailedCreate", &message);
                Err(status)
            }
        }
    }

    fn claim_name(&self, claim: &Value, number: i64) -> String {
        format!("{}-{}-{number}", text(claim, "/metadata/name"), name(self.set))
    }

    /// Makes sure of a pod's claim.
    fn claim(&self, claim: &Value, number: i64) -> Result<String> {
        let (set, cluster) = (self.set, self.cluster);
        let called = self.claim_name(claim, number);
        if cluster.get("persistentvolumeclaims", namespace(set), &called).is_some() {
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
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name(set), "uid": uid(set),
                "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        let made = json!({"metadata": meta, "spec": claim["spec"]});
        cluster.create("persistentvolumeclaims", namespace(set), made, MANAGER)?;
        let pod = format!("{}-{number}", name(set));
        let message = format!("create Claim {called} Pod {pod} in StatefulSet {} success", name(set));
        cluster.event(set, COMPONENT, "Normal", "SuccessfulCreate", &message);
        Ok(called)
    }

    /// Lets the claims of a pod that is scaled away go with it.
    fn hand_claims_to(&self, number: i64, pod: &Value) -> Result<()> {
        for claim in list(self.set, "/spec/volumeClaimTemplates") {
            let called = self.claim_name(claim, number);
            let place = crate::store::Key::new(namespace(self.set), &called);
            if self.cluster.object("persistentvolumeclaims", &place).is_none() {
                continue;
            }
            self.cluster.update("persistentvolumeclaims", &place, MANAGER, |value| {
                value["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid(pod),
                }]);
            })?;
        }
        Ok(())
    }

    fn tell(&self, pods: &[Value]) -> Result<Next> {
        let set = self.set;
        let update = name(self.revisions.update());
        let mine: Vec<&Value> = pods.iter().filter(|p| ordinal(set, p).is_some()).collect();
        let here: Vec<&Value> = mine.iter().copied().filter(|p| !is_finished(p)).collect();
        let tally = Tally::of(self.cluster, here.iter().copied().filter(|p| !deleting(p)), self.min_ready());
        let at = |revision: &str| {
            here.iter().filter(|p| !deleting(p) && label(p, REVISION) == Some(revision)).count()
        };
        let wanted = usize::try_from(int_or(set, "/spec/replicas", 1)).unwrap_or(0);
        let (mut current, mut current_count, updated) = (self.current, at(self.current), at(update));
        let rolling = text(set, "/spec/updateStrategy/type") != "OnDelete";
        if rolling && updated == wanted && tally.ready == wanted && here.len() == wanted {
            (current, current_count) = (update, updated);
        }
        self.cluster.update_status(TABLE, &key(set), MANAGER, |value| {
            let mut status = json!({
                "observedGeneration": value["metadata"]["generation"],
                "replicas": here.len(),
            });
            put_count(&mut status, "readyReplicas", tally.ready);
            put_count(&mut status, "currentReplicas", current_count);
            put_count(&mut status, "updatedReplicas", updated);
            status["currentRevision"] = current.into();
            status["updateRevision"] = update.into();
            status["collisionCount"] = int(value, "/status/collisionCount").into();
            status["availableReplicas"] = tally.available.into();
            value["status"] = status;
        })?;
        Ok(tally.next())
    }
}
