//! Garbage collection by owner references: background, foreground and orphaning.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent, StoredObject};
use crate::write::delete::{DeleteOptions, DeletionPropagation};

/// The field manager of changes to owner references and finalizers.
const MANAGER: &str = "kube-controller-manager";

/// Knows every live object by uid and every object by the uids that own it.
#[derive(Default)]
pub(super) struct GarbageCollector {
    live: HashMap<Box<str>, WorkItem>,
    dependents: HashMap<Box<str>, HashSet<WorkItem>>,
}

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        let item = WorkItem::of(event);
        let object = &event.object;
        if let Some(prev) = &event.prev {
            for owner in prev
                .owners
                .iter()
                .filter(|o| !object.owners.contains(o) || event.change == ChangeType::Deleted)
            {
                if let Some(known) = self.dependents.get_mut(owner) {
                    known.remove(&item);
                    if known.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
                // An owner may be waiting for exactly this.
                if let Some(owner) = self.live.get(owner) {
                    queue.push(owner.clone());
                }
            }
        }
        if event.change == ChangeType::Deleted {
            self.live.remove(&object.uid);
            for dependent in self.dependents.get(&object.uid).into_iter().flatten() {
                queue.push(dependent.clone());
            }
            return;
        }
        self.live.insert(object.uid.clone(), item.clone());
        for owner in &object.owners {
            self.dependents.entry(owner.clone()).or_default().insert(item.clone());
        }
        if !object.owners.is_empty() || object.deleting {
            queue.push(item);
        }
        if object.deleting {
            for dependent in self.dependents.get(&object.uid).into_iter().flatten() {
                queue.push(dependent.clone());
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(object) = cluster.stored_object(&item.table, &item.key) else {
            return Ok(NextReconcile::Done);
        };
        let value = object.value();
        let has = |finalizer: &str| {
            value["metadata"]["finalizers"].as_array().is_some_and(|f| f.iter().any(|v| v == finalizer))
        };
        if object.deleting && has("orphan") {
            return self.orphan_dependents(item, &object.uid, cluster);
        }
        if object.deleting && has("foregroundDeletion") {
            return self.delete_in_foreground(item, &object.uid, cluster);
        }
        if object.deleting || object.owners.is_empty() {
            return Ok(NextReconcile::Done);
        }
        self.check_owners(item, &value, cluster)
    }
}

impl GarbageCollector {
    fn orphan_dependents(
        &self,
        item: &WorkItem,
        uid: &str,
        cluster: &ClusterHandle,
    ) -> Result<NextReconcile> {
        for dependent in self.dependents.get(uid).cloned().into_iter().flatten() {
            if cluster.stored_object(&dependent.table, &dependent.key).is_some() {
                cluster.update(&dependent.table, &dependent.key, MANAGER, |v| drop_owners(v, &[uid]))?;
            }
        }
        drop_finalizer(item, "orphan", cluster)
    }

    fn delete_in_foreground(
        &self,
        item: &WorkItem,
        uid: &str,
        cluster: &ClusterHandle,
    ) -> Result<NextReconcile> {
        let mut blocked = false;
        for dependent in self.dependents.get(uid).cloned().into_iter().flatten() {
            if dependent == *item {
                continue;
            }
            let Some(object) = cluster.stored_object(&dependent.table, &dependent.key) else { continue };
            let value = object.value();
            let mut blocks = value["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|r| r["uid"] == uid && r["blockOwnerDeletion"] == true);
            if blocks && self.closes_circle(item, &object, cluster) {
                cluster.update(&dependent.table, &dependent.key, MANAGER, unblock_owners)?;
                blocks = false;
                if !object.deleting {
                    self.delete_dependent(&dependent, &object.uid, cluster)?;
                }
            }
            blocked |= blocks;
            if blocks
                && !object.deleting
                && value["metadata"]["ownerReferences"].as_array().is_some_and(|r| r.len() == 1)
            {
                self.delete_dependent(&dependent, &object.uid, cluster)?;
            }
        }
        if blocked { Ok(NextReconcile::Done) } else { drop_finalizer(item, "foregroundDeletion", cluster) }
    }

    /// Returns true if something a dependent owns waits for its own dependents already: then each of a circle of
    /// owners would wait for the next. Of one that is going as well, only the item itself counts.
    fn closes_circle(&self, item: &WorkItem, dependent: &StoredObject, cluster: &ClusterHandle) -> bool {
        let mut owned = self.dependents.get(&dependent.uid).into_iter().flatten();
        owned.any(|owned| {
            (owned == item || !dependent.deleting)
                && cluster.stored_object(&owned.table, &owned.key).is_some_and(|o| waits_for_dependents(&o))
        })
    }

    /// Deletes a dependent, in the foreground if it has dependents of its own.
    fn delete_dependent(&self, item: &WorkItem, uid: &str, cluster: &ClusterHandle) -> Result<()> {
        let propagation = if self.dependents.contains_key(uid) {
            DeletionPropagation::Foreground
        } else {
            DeletionPropagation::Background
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        cluster.delete(&item.table, &item.key, &options)
    }

    fn check_owners(&self, item: &WorkItem, value: &Value, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let mut solid = 0;
        let mut waiting: Vec<&str> = Vec::new();
        let mut dangling: Vec<&str> = Vec::new();
        for reference in value["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let uid = reference["uid"].as_str().unwrap_or("");
            let owner = self
                .live
                .get(uid)
                .filter(|o| o.key.namespace.is_empty() || o.key.namespace == item.key.namespace);
            let Some(owner) =
                owner.and_then(|o| cluster.stored_object(&o.table, &o.key)).filter(|o| *o.uid == *uid)
            else {
                dangling.push(uid);
                continue;
            };
            if waits_for_dependents(&owner) { waiting.push(uid) } else { solid += 1 }
        }
        if solid > 0 {
            if !dangling.is_empty() || !waiting.is_empty() {
                let gone: Vec<&str> = dangling.into_iter().chain(waiting).collect();
                cluster.update(&item.table, &item.key, MANAGER, |v| drop_owners(v, &gone))?;
            }
            return Ok(NextReconcile::Done);
        }
        let uid = value["metadata"]["uid"].as_str().unwrap_or("");
        let propagation = if !waiting.is_empty() && self.dependents.contains_key(uid) {
            DeletionPropagation::Foreground
        } else {
            DeletionPropagation::Background
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        cluster.delete(&item.table, &item.key, &options)?;
        Ok(NextReconcile::Done)
    }
}

fn waits_for_dependents(object: &StoredObject) -> bool {
    object.deleting
        && object.value()["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| f.iter().any(|v| v == "foregroundDeletion"))
}

fn unblock_owners(value: &mut Value) {
    for reference in value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        reference["blockOwnerDeletion"] = false.into();
    }
}

fn drop_owners(value: &mut Value, uids: &[&str]) {
    if let Some(Value::Array(references)) = value["metadata"].get_mut("ownerReferences") {
        references.retain(|r| !r["uid"].as_str().is_some_and(|u| uids.contains(&u)));
    }
}

fn drop_finalizer(item: &WorkItem, finalizer: &str, cluster: &ClusterHandle) -> Result<NextReconcile> {
    let done = cluster.update(&item.table, &item.key, MANAGER, |value| {
        if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
            finalizers.retain(|f| f != finalizer);
        }
    });
    match done {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(NextReconcile::Done),
    }
}
