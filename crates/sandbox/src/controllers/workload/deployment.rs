//! Deployments: replica sets rolled from one template to the next.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::deployment_progress::has_deadline;
use super::rollout::{self, DESIRED, HISTORY, MAXIMUM, REVISION, RolloutSets};
use super::template_hash::template_hash;
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent};

const TABLE: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";
const COMPONENT: &str = "deployment-controller";
/// Annotations that stay with the deployment.
const KEPT: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

pub(super) struct DeploymentController {
    family: OwnerIndex,
}

impl Default for DeploymentController {
    fn default() -> DeploymentController {
        DeploymentController { family: OwnerIndex::new(TABLE, &[SETS]) }
    }
}

impl Controller for DeploymentController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        self.family.observe_owned(event, queue);
        // A recreation waits for the last old pod, which may outlive every change of its set.
        if &*event.table == "pods" && event.change == ChangeType::Deleted {
            let owners = &event.object.owners;
            for set in cluster.stored_objects(SETS, Some(event.object.namespace())) {
                if owners.iter().any(|o| **o == *set.uid) {
                    let as_set = StoreEvent {
                        rev: set.rev,
                        table: SETS.into(),
                        change: ChangeType::Modified,
                        prev: None,
                        object: set,
                    };
                    self.family.observe_owned(&as_set, queue);
                }
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(deployment) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let Some(selector) = LabelFilter::of_selector(&deployment["spec"]["selector"]) else {
            return Ok(NextReconcile::Done);
        };
        let mut sets = owned_children(cluster, SETS, &deployment, Some(&selector))?;
        sets.sort_by_cached_key(|s| {
            (text_at(s, "/metadata/creationTimestamp").to_owned(), name_of(s).to_owned())
        });
        let mut rollout = DeploymentRollout { deployment, sets, cluster };
        if is_deleting(&rollout.deployment) {
            return rollout.update_status();
        }
        rollout.note_pause()?;
        if rollout.deployment["spec"]["paused"] == true || rollout.is_scaling() {
            rollout.sync_revision(false)?;
            rollout.rescale_sets()?;
            return rollout.update_status();
        }
        if rollout::is_recreate(&rollout.deployment) {
            rollout.recreate_pods()
        } else {
            rollout.roll_forward()
        }
    }
}

pub(super) struct DeploymentRollout<'a> {
    pub(super) deployment: Value,
    /// Oldest first.
    pub(super) sets: Vec<Value>,
    pub(super) cluster: &'a ClusterHandle,
}

impl DeploymentRollout<'_> {
    pub(super) fn newest_index(&self) -> Option<usize> {
        let template = without_hash(&self.deployment["spec"]["template"]);
        self.sets.iter().position(|s| without_hash(&s["spec"]["template"]) == template)
    }

    fn old_indexes(&self) -> Vec<usize> {
        let newest = self.newest_index();
        (0..self.sets.len()).filter(|i| Some(*i) != newest).collect()
    }

    pub(super) fn write_status(&mut self, change: impl FnMut(&mut Value)) -> Result<()> {
        self.cluster.update_status(TABLE, &key_of(&self.deployment), MANAGER, change)?;
        if let Some(fresh) =
            self.cluster.get(TABLE, namespace_of(&self.deployment), name_of(&self.deployment))
        {
            self.deployment = fresh;
        }
        Ok(())
    }

    /// Makes sure that the newest set and the deployment carry the right revision.
    fn sync_revision(&mut self, create: bool) -> Result<()> {
        let newest = self.newest_index();
        let last =
            self.old_indexes().iter().map(|i| rollout::revision_number(&self.sets[*i])).max().unwrap_or(0);
        let wanted = (last + 1).to_string();
        if let Some(index) = newest {
            let set = &self.sets[index];
            let mut annotations = set["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            copy_annotations(&self.deployment, &mut annotations);
            let has = rollout::revision_number(set);
            if has < last + 1 {
                if has > 0 {
                    let history = annotation(set, HISTORY).filter(|h| !h.is_empty());
                    let history = history.map_or(has.to_string(), |h| format!("{h},{has}"));
                    annotations.insert(HISTORY.into(), history.into());
                }
                annotations.insert(REVISION.into(), wanted.into());
            }
            let ready = self.deployment["spec"].get("minReadySeconds").cloned();
            let changed = set["metadata"]["annotations"] != Value::Object(annotations.clone())
                || set["spec"].get("minReadySeconds").and_then(Value::as_i64).unwrap_or(0)
                    != ready.as_ref().and_then(Value::as_i64).unwrap_or(0);
            if changed {
                self.cluster.update(SETS, &key_of(set), MANAGER, |value| {
                    value["metadata"]["annotations"] = annotations.clone().into();
                    if let Some(ready) = &ready {
                        value["spec"]["minReadySeconds"] = ready.clone();
                    }
                })?;
                self.reload_set(index);
            }
            let shown = annotation(&self.sets[index], REVISION).unwrap_or("1").to_owned();
            let message = format!("Found new replica set \"{}\"", name_of(&self.sets[index]));
            return self.mark_revision(&shown, "FoundNewReplicaSet", &message, false);
        }
        if !create {
            return Ok(());
        }
        self.create_set(&wanted)
    }

    fn create_set(&mut self, revision: &str) -> Result<()> {
        let deployment = &self.deployment;
        let template = without_hash(&deployment["spec"]["template"]);
        let collisions = deployment["status"]["collisionCount"].as_i64();
        let hash = template_hash(&deployment["spec"]["template"], collisions);
        let size = rollout::new_size(deployment, 0, rollout::total_replicas(&self.sets));
        let mut template = template;
        template["metadata"]["labels"][HASH_LABEL] = hash.as_str().into();
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"][HASH_LABEL] = hash.as_str().into();
        let mut annotations = serde_json::Map::new();
        copy_annotations(deployment, &mut annotations);
        let wanted = rollout::wanted_replicas(deployment);
        let most = wanted + rollout::surge_and_unavailable(deployment).0;
        annotations.insert(DESIRED.into(), wanted.to_string().into());
        annotations.insert(MAXIMUM.into(), most.to_string().into());
        annotations.insert(REVISION.into(), revision.into());
        let set_name = format!("{}-{hash}", name_of(deployment));
        let mut set = json!({
            "metadata": {
                "name": set_name,
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {"replicas": size, "selector": selector, "template": template},
        });
        if let Some(ready) = deployment["spec"].get("minReadySeconds") {
            set["spec"]["minReadySeconds"] = ready.clone();
        }
        match self.cluster.create(SETS, namespace_of(deployment), set, MANAGER) {
            Ok(_) => {}
            Err(status) if status.code == 409 => {
                // The name is taken by another template, or by an earlier set that is being deleted.
                let taken = self.cluster.get(SETS, namespace_of(deployment), &set_name);
                if taken.is_some_and(|t| !is_deleting(&t) && label(&t, HASH_LABEL) == Some(&hash)) {
                    let count = int_at(deployment, "/status/collisionCount") + 1;
                    self.write_status(|value| value["status"]["collisionCount"] = count.into())?;
                }
                return Err(status);
            }
            Err(status) => {
                let message = format!("Failed to create new replica set \"{set_name}\": {}", status.message);
                self.write_status(|_| {})?;
                let event = &self.deployment;
                self.cluster.record_event(event, COMPONENT, "Warning", "ReplicaSetCreateError", &message);
                return Err(status);
            }
        }
        self.sets.extend(self.cluster.get(SETS, namespace_of(&self.deployment), &set_name));
        if size > 0 {
            let message = format!("Scaled up replica set {set_name} from 0 to {size}");
            self.cluster.record_event(&self.deployment, COMPONENT, "Normal", "ScalingReplicaSet", &message);
        }
        let message = format!("Created new replica set \"{set_name}\"");
        self.mark_revision(revision, "NewReplicaSetCreated", &message, true)
    }

    /// Writes the revision and the event of the newest set to the deployment.
    fn mark_revision(&mut self, revision: &str, reason: &str, message: &str, created: bool) -> Result<()> {
        let tracked = has_deadline(&self.deployment);
        let progress = tracked && (created || condition(&self.deployment, "Progressing").is_none());
        if !progress && annotation(&self.deployment, REVISION) == Some(revision) {
            return Ok(());
        }
        let cluster = self.cluster;
        self.write_status(|value| {
            slipway_manifest::object::set_annotation(value, REVISION, revision);
            if progress {
                let mut conditions = list_at(value, "/status/conditions").to_vec();
                rollout::set_condition(&mut conditions, "Progressing", "True", reason, message, cluster);
                value["status"]["conditions"] = conditions.into();
            }
        })
    }

    fn reload_set(&mut self, index: usize) {
        let set = &self.sets[index];
        if let Some(fresh) = self.cluster.get(SETS, namespace_of(set), name_of(set)) {
            self.sets[index] = fresh;
        }
    }

    /// Resizes a set; returns true if its size changed.
    fn resize_set(&mut self, index: usize, size: i64) -> Result<bool> {
        let wanted = rollout::wanted_replicas(&self.deployment);
        let most = wanted + rollout::surge_and_unavailable(&self.deployment).0;
        let (wanted, most) = (wanted.to_string(), most.to_string());
        let set = &self.sets[index];
        let before = rollout::wanted_replicas(set);
        if before == size
            && annotation(set, DESIRED) == Some(&wanted)
            && annotation(set, MAXIMUM) == Some(&most)
        {
            return Ok(false);
        }
        self.cluster.update(SETS, &key_of(set), MANAGER, |value| {
            value["spec"]["replicas"] = size.into();
            slipway_manifest::object::set_annotation(value, DESIRED, &wanted);
            slipway_manifest::object::set_annotation(value, MAXIMUM, &most);
        })?;
        if before != size {
            let way = if size > before { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {before} to {size}", name_of(set));
            self.cluster.record_event(&self.deployment, COMPONENT, "Normal", "ScalingReplicaSet", &message);
        }
        self.reload_set(index);
        Ok(before != size)
    }

    fn is_scaling(&self) -> bool {
        let wanted = rollout::wanted_replicas(&self.deployment).to_string();
        self.sets
            .iter()
            .filter(|s| rollout::wanted_replicas(s) > 0)
            .any(|s| annotation(s, DESIRED).is_some_and(|d| d != wanted))
    }

    /// Scales without rolling: one set takes all, or several share in proportion.
    fn rescale_sets(&mut self) -> Result<()> {
        let wanted = rollout::wanted_replicas(&self.deployment);
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|i| rollout::wanted_replicas(&self.sets[*i]) > 0).collect();
        let newest = self.newest_index();
        let only = match active.as_slice() {
            [] => newest.or_else(|| self.sets.len().checked_sub(1)),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(only) = only {
            self.resize_set(only, wanted)?;
            return Ok(());
        }
        if let Some(newest) = newest {
            let set = &self.sets[newest];
            let saturated = rollout::wanted_replicas(set) == wanted
                && annotation(set, DESIRED) == Some(&wanted.to_string())
                && int_at(set, "/status/availableReplicas") == wanted;
            if saturated {
                for index in self.old_indexes() {
                    self.resize_set(index, 0)?;
                }
                return Ok(());
            }
        }
        if !rollout::is_recreate(&self.deployment) {
            let sets: Vec<Value> = active.iter().map(|i| self.sets[*i].clone()).collect();
            for (index, size) in active.into_iter().zip(rollout::in_proportion(&self.deployment, &sets)) {
                self.resize_set(index, size)?;
            }
        }
        Ok(())
    }

    fn roll_forward(&mut self) -> Result<NextReconcile> {
        self.sync_revision(true)?;
        let Some(newest) = self.newest_index() else { return self.update_status() };
        let wanted = rollout::wanted_replicas(&self.deployment);
        let has = rollout::wanted_replicas(&self.sets[newest]);
        let size = if has > wanted {
            wanted
        } else {
            rollout::new_size(&self.deployment, has, rollout::total_replicas(&self.sets))
        };
        if size != has && self.resize_set(newest, size)? {
            return self.update_status();
        }
        if self.shrink_old(newest)? {
            return self.update_status();
        }
        self.clean_up()?;
        self.update_status()
    }

    /// Removes old pods while enough stay available.
    fn shrink_old(&mut self, newest: usize) -> Result<bool> {
        let olds = self.old_indexes();
        if olds.iter().all(|i| rollout::wanted_replicas(&self.sets[*i]) == 0) {
            return Ok(false);
        }
        let wanted = rollout::wanted_replicas(&self.deployment);
        let least = wanted - rollout::surge_and_unavailable(&self.deployment).1;
        let fresh = &self.sets[newest];
        let missing = rollout::wanted_replicas(fresh) - int_at(fresh, "/status/availableReplicas");
        let mut room = rollout::total_replicas(&self.sets) - least - missing;
        if room <= 0 {
            return Ok(false);
        }
        let mut changed = false;
        // Pods that are not available go first.
        for index in &olds {
            let size = rollout::wanted_replicas(&self.sets[*index]);
            let broken = size - int_at(&self.sets[*index], "/status/availableReplicas");
            let less = broken.min(room);
            if less > 0 {
                changed |= self.resize_set(*index, size - less)?;
                room -= less;
            }
        }
        let mut spare = rollout::available_replicas(&self.sets) - least;
        for index in olds {
            let size = rollout::wanted_replicas(&self.sets[index]);
            let less = size.min(spare);
            if less > 0 {
                changed |= self.resize_set(index, size - less)?;
                spare -= less;
            }
        }
        Ok(changed)
    }

    fn recreate_pods(&mut self) -> Result<NextReconcile> {
        self.sync_revision(false)?;
        let mut shrunk = false;
        for index in self.old_indexes() {
            if rollout::wanted_replicas(&self.sets[index]) > 0 {
                shrunk |= self.resize_set(index, 0)?;
            }
        }
        if shrunk || self.old_pods_run() {
            return self.update_status();
        }
        self.sync_revision(true)?;
        if let Some(newest) = self.newest_index() {
            self.resize_set(newest, rollout::wanted_replicas(&self.deployment))?;
        }
        self.clean_up()?;
        self.update_status()
    }

    fn old_pods_run(&self) -> bool {
        let space = namespace_of(&self.deployment);
        self.old_indexes().iter().any(|i| {
            let pods = self.cluster.owned_values("pods", space, uid_of(&self.sets[*i]));
            pods.iter().any(|p| !is_finished(p))
        })
    }

    /// Deletes the oldest sets beyond the history limit.
    fn clean_up(&mut self) -> Result<()> {
        let sets = RolloutSets { newest: self.newest_index().map(|i| &self.sets[i]), all: &self.sets };
        let status = rollout::deployment_status(&self.deployment, &sets, self.cluster);
        if !rollout::is_complete(&self.deployment, &status) {
            return Ok(());
        }
        let Some(limit) = self.deployment["spec"]["revisionHistoryLimit"].as_i64() else { return Ok(()) };
        let mut old: Vec<&Value> =
            self.old_indexes().into_iter().map(|i| &self.sets[i]).filter(|s| !is_deleting(s)).collect();
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        old.sort_by_key(|s| rollout::revision_number(s));
        for set in old.into_iter().take(excess) {
            let idle = rollout::wanted_replicas(set) == 0
                && int_at(set, "/status/replicas") == 0
                && int_at(set, "/status/observedGeneration") >= int_at(set, "/metadata/generation");
            if idle {
                delete_exactly(self.cluster, SETS, set)?;
            }
        }
        Ok(())
    }
}

fn copy_annotations(deployment: &Value, into: &mut serde_json::Map<String, Value>) {
    for (key, value) in deployment["metadata"]["annotations"].as_object().into_iter().flatten() {
        if !KEPT.contains(&key.as_str()) {
            into.insert(key.clone(), value.clone());
        }
    }
}
