//! Deployments: replica sets rolled from one template to the next.

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use super::deployment_progress::has_deadline;
use super::rollout::{self, DESIRED, HISTORY, MAXIMUM, REVISION, Sets};
use super::template_hash::template_hash;
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::{Change, Event};

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

pub(super) struct Deployments {
    family: Family,
}

impl Default for Deployments {
    fn default() -> Deployments {
        Deployments { family: Family::new(TABLE, &[SETS]) }
    }
}

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe(&mut self, event: &Event, cluster: &Cluster, queue: &mut Queue) {
        self.family.observe(event, queue);
        // Recreating waits for the last old pod, which may outlive every change of its set.
        if &*event.table == "pods" && event.change == Change::Deleted {
            let owners = &event.object.owners;
            for set in cluster.objects(SETS, Some(event.object.namespace())) {
                if owners.iter().any(|o| **o == *set.uid) {
                    let as_set = Event {
                        rev: set.rev,
                        table: SETS.into(),
                        change: Change::Modified,
                        prev: None,
                        object: set,
                    };
                    self.family.observe(&as_set, queue);
                }
            }
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(deployment) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let Some(selector) = Labels::of_selector(&deployment["spec"]["selector"]) else {
            return Ok(Next::Done);
        };
        let mut sets = children(cluster, SETS, &deployment, Some(&selector))?;
        sets.sort_by_cached_key(|s| (text(s, "/metadata/creationTimestamp").to_owned(), name(s).to_owned()));
        let mut rollout = Rollout { deployment, sets, cluster };
        if deleting(&rollout.deployment) {
            return rollout.tell();
        }
        rollout.note_pause()?;
        if rollout.deployment["spec"]["paused"] == true || rollout.is_scaling() {
            rollout.sync_revision(false)?;
            rollout.rescale()?;
            return rollout.tell();
        }
        if rollout::is_recreate(&rollout.deployment) { rollout.recreate() } else { rollout.roll() }
    }
}

pub(super) struct Rollout<'a> {
    pub(super) deployment: Value,
    /// Oldest first.
    pub(super) sets: Vec<Value>,
    pub(super) cluster: &'a Cluster,
}

impl Rollout<'_> {
    pub(super) fn newest(&self) -> Option<usize> {
        let template = without_hash(&self.deployment["spec"]["template"]);
        self.sets.iter().position(|s| without_hash(&s["spec"]["template"]) == template)
    }

    fn olds(&self) -> Vec<usize> {
        let newest = self.newest();
        (0..self.sets.len()).filter(|i| Some(*i) != newest).collect()
    }

    pub(super) fn write_status(&mut self, change: impl FnMut(&mut Value)) -> Result<()> {
        self.cluster.update_status(TABLE, &key(&self.deployment), MANAGER, change)?;
        if let Some(fresh) = self.cluster.get(TABLE, namespace(&self.deployment), name(&self.deployment)) {
            self.deployment = fresh;
        }
        Ok(())
    }

    /// Makes sure that the newest set and the deployment carry the right revision.
    fn sync_revision(&mut self, create: bool) -> Result<()> {
        let newest = self.newest();
        let last = self.olds().iter().map(|i| rollout::revision(&self.sets[*i])).max().unwrap_or(0);
        let wanted = (last + 1).to_string();
        if let Some(index) = newest {
            let set = &self.sets[index];
            let mut annotations = set["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            copy_annotations(&self.deployment, &mut annotations);
            let has = rollout::revision(set);
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
                self.cluster.update(SETS, &key(set), MANAGER, |value| {
                    value["metadata"]["annotations"] = annotations.clone().into();
                    if let Some(ready) = &ready {
                        value["spec"]["minReadySeconds"] = ready.clone();
                    }
                })?;
                self.refresh(index);
            }
            let shown = annotation(&self.sets[index], REVISION).unwrap_or("1").to_owned();
            let message = format!("Found new replica set \"{}\"", name(&self.sets[index]));
            return self.mark(&shown, "FoundNewReplicaSet", &message, false);
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
        let size = rollout::new_size(deployment, 0, rollout::total(&self.sets));
        let mut template = template;
        template["metadata"]["labels"][HASH_LABEL] = hash.as_str().into();
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"][HASH_LABEL] = hash.as_str().into();
        let mut annotations = serde_json::Map::new();
        copy_annotations(deployment, &mut annotations);
        let wanted = rollout::replicas(deployment);
        let most = wanted + rollout::surge_and_unavailable(deployment).0;
        annotations.insert(DESIRED.into(), wanted.to_string().into());
        annotations.insert(MAXIMUM.into(), most.to_string().into());
        annotations.insert(REVISION.into(), revision.into());
        let set_name = format!("{}-{hash}", name(deployment));
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
        match self.cluster.create(SETS, namespace(deployment), set, MANAGER) {
            Ok(_) => {}
            Err(status) if status.code == 409 => {
                // The name is taken by another template, or by an old self on its way out.
                let taken = self.cluster.get(SETS, namespace(deployment), &set_name);
                if taken.is_some_and(|t| !deleting(&t) && label(&t, HASH_LABEL) == Some(&hash)) {
                    let count = int(deployment, "/status/collisionCount") + 1;
                    self.write_status(|value| value["status"]["collisionCount"] = count.into())?;
                }
                return Err(status);
            }
            Err(status) => {
                let message = format!("Failed to create new replica set \"{set_name}\": {}", status.message);
                self.write_status(|_| {})?;
                let event = &self.deployment;
                self.cluster.event(event, COMPONENT, "Warning", "ReplicaSetCreateError", &message);
                return Err(status);
            }
        }
        self.sets.extend(self.cluster.get(SETS, namespace(&self.deployment), &set_name));
        if size > 0 {
            let message = format!("Scaled up replica set {set_name} from 0 to {size}");
            self.cluster.event(&self.deployment, COMPONENT, "Normal", "ScalingReplicaSet", &message);
        }
        let message = format!("Created new replica set \"{set_name}\"");
        self.mark(revision, "NewReplicaSetCreated", &message, true)
    }

    /// Writes the revision, and what happened to the newest set, on the deployment.
    fn mark(&mut self, revision: &str, reason: &str, message: &str, created: bool) -> Result<()> {
        let tracked = has_deadline(&self.deployment);
        let progress = tracked && (created || condition(&self.deployment, "Progressing").is_none());
        if !progress && annotation(&self.deployment, REVISION) == Some(revision) {
            return Ok(());
        }
        let cluster = self.cluster;
        self.write_status(|value| {
            slipway_manifest::object::set_annotation(value, REVISION, revision);
            if progress {
                let mut conditions = list(value, "/status/conditions").to_vec();
                rollout::set_condition(&mut conditions, "Progressing", "True", reason, message, cluster);
                value["status"]["conditions"] = conditions.into();
            }
        })
    }

    fn refresh(&mut self, index: usize) {
        let set = &self.sets[index];
        if let Some(fresh) = self.cluster.get(SETS, namespace(set), name(set)) {
            self.sets[index] = fresh;
        }
    }

    /// Gives a set a size; says whether it had another.
    fn resize(&mut self, index: usize, size: i64) -> Result<bool> {
        let wanted = rollout::replicas(&self.deployment);
        let most = wanted + rollout::surge_and_unavailable(&self.deployment).0;
        let (wanted, most) = (wanted.to_string(), most.to_string());
        let set = &self.sets[index];
        let before = rollout::replicas(set);
        if before == size
            && annotation(set, DESIRED) == Some(&wanted)
            && annotation(set, MAXIMUM) == Some(&most)
        {
            return Ok(false);
        }
        self.cluster.update(SETS, &key(set), MANAGER, |value| {
            value["spec"]["replicas"] = size.into();
            slipway_manifest::object::set_annotation(value, DESIRED, &wanted);
            slipway_manifest::object::set_annotation(value, MAXIMUM, &most);
        })?;
        if before != size {
            let way = if size > before { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {before} to {size}", name(set));
            self.cluster.event(&self.deployment, COMPONENT, "Normal", "ScalingReplicaSet", &message);
        }
        self.refresh(index);
        Ok(before != size)
    }

    fn is_scaling(&self) -> bool {
        let wanted = rollout::replicas(&self.deployment).to_string();
        self.sets
            .iter()
            .filter(|s| rollout::replicas(s) > 0)
            .any(|s| annotation(s, DESIRED).is_some_and(|d| d != wanted))
    }

    /// Scales without rolling: one set takes all, or several share.
    fn rescale(&mut self) -> Result<()> {
        let wanted = rollout::replicas(&self.deployment);
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|i| rollout::replicas(&self.sets[*i]) > 0).collect();
        let newest = self.newest();
        let only = match active.as_slice() {
            [] => newest.or_else(|| self.sets.len().checked_sub(1)),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(only) = only {
            self.resize(only, wanted)?;
            return Ok(());
        }
        if let Some(newest) = newest {
            let set = &self.sets[newest];
            let saturated = rollout::replicas(set) == wanted
                && annotation(set, DESIRED) == Some(&wanted.to_string())
                && int(set, "/status/availableReplicas") == wanted;
            if saturated {
                for index in self.olds() {
                    self.resize(index, 0)?;
                }
                return Ok(());
            }
        }
        if !rollout::is_recreate(&self.deployment) {
            let sets: Vec<Value> = active.iter().map(|i| self.sets[*i].clone()).collect();
            for (index, size) in active.into_iter().zip(rollout::in_proportion(&self.deployment, &sets)) {
                self.resize(index, size)?;
            }
        }
        Ok(())
    }

    fn roll(&mut self) -> Result<Next> {
        self.sync_revision(true)?;
        let Some(newest) = self.newest() else { return self.tell() };
        let wanted = rollout::replicas(&self.deployment);
        let has = rollout::replicas(&self.sets[newest]);
        let size = if has > wanted {
            wanted
        } else {
            rollout::new_size(&self.deployment, has, rollout::total(&self.sets))
        };
        if size != has && self.resize(newest, size)? {
            return self.tell();
        }
        if self.shrink_old(newest)? {
            return self.tell();
        }
        self.clean_up()?;
        self.tell()
    }

    /// Takes old pods away as far as enough stay available.
    fn shrink_old(&mut self, newest: usize) -> Result<bool> {
        let olds = self.olds();
        if olds.iter().all(|i| rollout::replicas(&self.sets[*i]) == 0) {
            return Ok(false);
        }
        let wanted = rollout::replicas(&self.deployment);
        let least = wanted - rollout::surge_and_unavailable(&self.deployment).1;
        let fresh = &self.sets[newest];
        let missing = rollout::replicas(fresh) - int(fresh, "/status/availableReplicas");
        let mut room = rollout::total(&self.sets) - least - missing;
        if room <= 0 {
            return Ok(false);
        }
        let mut changed = false;
        // What does not work is no loss.
        for index in &olds {
            let size = rollout::replicas(&self.sets[*index]);
            let broken = size - int(&self.sets[*index], "/status/availableReplicas");
            let less = broken.min(room);
            if less > 0 {
                changed |= self.resize(*index, size - less)?;
                room -= less;
            }
        }
        let mut spare = rollout::available(&self.sets) - least;
        for index in olds {
            let size = rollout::replicas(&self.sets[index]);
            let less = size.min(spare);
            if less > 0 {
                changed |= self.resize(index, size - less)?;
                spare -= less;
            }
        }
        Ok(changed)
    }

    fn recreate(&mut self) -> Result<Next> {
        self.sync_revision(false)?;
        let mut shrunk = false;
        for index in self.olds() {
            if rollout::replicas(&self.sets[index]) > 0 {
                shrunk |= self.resize(index, 0)?;
            }
        }
        if shrunk || self.old_pods_run() {
            return self.tell();
        }
        self.sync_revision(true)?;
        if let Some(newest) = self.newest() {
            self.resize(newest, rollout::replicas(&self.deployment))?;
        }
        self.clean_up()?;
        self.tell()
    }

    fn old_pods_run(&self) -> bool {
        let space = namespace(&self.deployment);
        self.olds().iter().any(|i| {
            let pods = self.cluster.owned("pods", space, uid(&self.sets[*i]));
            pods.iter().any(|p| !is_finished(p))
        })
    }

    /// Forgets the oldest sets beyond the history limit.
    fn clean_up(&mut self) -> Result<()> {
        let sets = Sets { newest: self.newest().map(|i| &self.sets[i]), all: &self.sets };
        let status = rollout::status(&self.deployment, &sets, self.cluster);
        if !rollout::is_complete(&self.deployment, &status) {
            return Ok(());
        }
        let Some(limit) = self.deployment["spec"]["revisionHistoryLimit"].as_i64() else { return Ok(()) };
        let mut old: Vec<&Value> =
            self.olds().into_iter().map(|i| &self.sets[i]).filter(|s| !deleting(s)).collect();
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        old.sort_by_key(|s| rollout::revision(s));
        for set in old.into_iter().take(excess) {
            let idle = rollout::replicas(set) == 0
                && int(set, "/status/replicas") == 0
                && int(set, "/status/observedGeneration") >= int(set, "/metadata/generation");
            if idle {
                remove(self.cluster, SETS, set)?;
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
