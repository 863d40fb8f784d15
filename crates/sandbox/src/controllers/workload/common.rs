//! Helpers of several controllers: children, templates, pod conditions, amounts.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::{ClusterHandle, NextReconcile, WorkItem, WorkQueue};
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::{ChangeType, ObjectKey, StoreEvent};
use crate::write::delete::{DeleteOptions, DeletionPropagation};

pub(super) const MANAGER: &str = "kube-controller-manager";
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Finds the objects of one table that an event about them or their children concerns.
pub(super) struct OwnerIndex {
    table: &'static str,
    children: &'static [&'static str],
    known: HashMap<Box<str>, WorkItem>,
}

impl OwnerIndex {
    pub(super) fn new(table: &'static str, children: &'static [&'static str]) -> OwnerIndex {
        OwnerIndex { table, children, known: HashMap::new() }
    }

    pub(super) fn observe_owned(&mut self, event: &StoreEvent, queue: &mut WorkQueue) {
        if *event.table == *self.table {
            if event.change == ChangeType::Deleted {
                self.known.remove(&event.object.uid);
            } else {
                self.known.insert(event.object.uid.clone(), WorkItem::of(event));
            }
            queue.push(WorkItem::of(event));
            return;
        }
        if !self.children.contains(&&*event.table) {
            return;
        }
        let before = event.prev.iter().flat_map(|p| p.owners.iter());
        for owner in event.object.owners.iter().chain(before) {
            if let Some(item) = self.known.get(owner) {
                queue.push(item.clone());
            }
        }
        // An owner may want to adopt it.
        if event.object.owners.is_empty() && !event.object.deleting {
            for item in self.known.values().filter(|i| *i.key.namespace == *event.object.key.namespace) {
                queue.push(item.clone());
            }
        }
    }
}

pub(super) fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn int_at(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn int_or(object: &Value, pointer: &str, other: i64) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(other)
}

pub(super) fn name_of(object: &Value) -> &str {
    text_at(object, "/metadata/name")
}

pub(super) fn namespace_of(object: &Value) -> &str {
    text_at(object, "/metadata/namespace")
}

pub(super) fn uid_of(object: &Value) -> &str {
    text_at(object, "/metadata/uid")
}

pub(super) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(namespace_of(object), name_of(object))
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Members of a list, or nothing.
pub(super) fn list_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds a member unless it is zero: Go leaves empty numbers out.
pub(super) fn put_count(status: &mut Value, key: &str, count: usize) {
    if count > 0 {
        status[key] = count.into();
    } else if let Some(members) = status.as_object_mut() {
        members.shift_remove(key);
    }
}

pub(super) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the objects of `table` that belong to `owner`. Adopts orphans its selector matches, releases others.
pub(super) fn owned_children(
    cluster: &ClusterHandle,
    table: &str,
    owner: &Value,
    selector: Option<&LabelFilter>,
) -> Result<Vec<Value>> {
    let (space, owner_uid, going) = (namespace_of(owner), uid_of(owner), is_deleting(owner));
    let mut out = Vec::new();
    for object in cluster.stored_objects(table, Some(space)) {
        let fits = selector.is_none_or(|s| s.matches(&object));
        let owned = object.owners.iter().any(|o| **o == *owner_uid);
        if !owned && !fits {
            continue;
        }
        // Owners there may be many, a controller only one; hardly anything has both.
        let found = if object.owners.is_empty() { None } else { cluster.get(table, space, object.name()) };
        let controller = found.as_ref().and_then(controller_uid);
        let mine = owned && controller == Some(owner_uid);
        let controlled = controller.is_some();
        if mine && (fits || going) {
            out.extend(found);
        } else if mine {
            cluster.update(table, &object.key, MANAGER, |value| {
                if let Some(Value::Array(owners)) = value["metadata"].get_mut("ownerReferences") {
                    owners.retain(|o| o["uid"] != owner_uid);
                }
            })?;
        } else if selector.is_some_and(|s| !s.is_empty()) && fits && !controlled && !object.deleting && !going
        {
            cluster.update(table, &object.key, MANAGER, |value| {
                let references = &mut value["metadata"]["ownerReferences"];
                if !references.is_array() {
                    *references = json!([]);
                }
                if let Value::Array(all) = references {
                    all.retain(|o| o["uid"] != owner_uid);
                    all.push(owner_reference(owner));
                }
            })?;
            out.extend(cluster.get(table, space, object.name()));
        }
    }
    Ok(out)
}

/// The uid of the owner that controls an object.
fn controller_uid(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().find(|o| o["controller"] == true)?["uid"].as_str()
}

/// A pod as a template describes it. The caller names it.
pub(super) fn pod_of_template(owner: &Value, template: &Value) -> Value {
    let mut meta = Map::new();
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(key) {
            meta.insert(key.into(), value.clone());
        }
    }
    meta.insert("generateName".into(), format!("{}-", name_of(owner)).into());
    meta.insert("ownerReferences".into(), json!([owner_reference(owner)]));
    json!({"metadata": meta, "spec": template["spec"]})
}

/// Creates a pod and records an event about it.
pub(super) fn create_pod(
    cluster: &ClusterHandle,
    owner: &Value,
    pod: Value,
    component: &str,
) -> Result<Value> {
    match cluster.create("pods", namespace_of(owner), pod, MANAGER) {
        Ok(made) => {
            let message = format!("Created pod: {}", name_of(&made));
            cluster.record_event(owner, component, "Normal", "SuccessfulCreate", &message);
            Ok(made)
        }
        Err(status) => {
            let message = format!("Error creating: {}", status.message);
            cluster.record_event(owner, component, "Warning", "FailedCreate", &message);
            Err(status)
        }
    }
}

/// Deletes a pod and records an event about it.
pub(super) fn delete_pod(cluster: &ClusterHandle, owner: &Value, pod: &Value, component: &str) -> Result<()> {
    delete_exactly(cluster, "pods", pod)?;
    let message = format!("Deleted pod: {}", name_of(pod));
    cluster.record_event(owner, component, "Normal", "SuccessfulDelete", &message);
    Ok(())
}

/// Deletes exactly this object.
pub(super) fn delete_exactly(cluster: &ClusterHandle, table: &str, object: &Value) -> Result<()> {
    let options = DeleteOptions {
        uid: Some(uid_of(object).to_owned()),
        propagation: (table != "pods").then_some(DeletionPropagation::Background),
        ..DeleteOptions::default()
    };
    cluster.delete(table, &key_of(object), &options)
}

/// Returns true if an object has a condition with status True.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == "True")
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(object, "/status/conditions").iter().find(|c| c["type"] == kind)
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(text_at(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns true if a pod is neither finished nor being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !is_deleting(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready")
}

/// Returns the time until a ready pod counts as available; `None` when it is not ready.
pub(super) fn until_available(cluster: &ClusterHandle, pod: &Value, min_ready: i64) -> Option<Duration> {
    let ready = condition(pod, "Ready").filter(|c| c["status"] == "True")?;
    let wanted = Duration::from_secs(u64::try_from(min_ready).unwrap_or(0));
    Some(wanted.saturating_sub(cluster.elapsed_since(&ready["lastTransitionTime"])))
}

/// Counts of pods as replica sets tell them, and how long until another becomes available.
#[derive(Default)]
pub(super) struct ReplicaCounts {
    pub(super) ready: usize,
    pub(super) available: usize,
    pub(super) soonest: Option<Duration>,
}

impl ReplicaCounts {
    pub(super) fn of<'a>(
        cluster: &ClusterHandle,
        pods: impl IntoIterator<Item = &'a Value>,
        min_ready: i64,
    ) -> ReplicaCounts {
        let mut out = ReplicaCounts::default();
        for pod in pods {
            match until_available(cluster, pod, min_ready) {
                None => {}
                Some(left) if left.is_zero() => {
                    out.ready += 1;
                    out.available += 1;
                }
                Some(left) => {
                    out.ready += 1;
                    out.soonest = Some(out.soonest.map_or(left, |s| s.min(left)));
                }
            }
        }
        out
    }

    pub(super) fn next_reconcile(&self) -> NextReconcile {
        self.soonest.map_or(NextReconcile::Done, NextReconcile::After)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PercentRounding {
    Up,
    Down,
}

/// A number or a percentage of `total`.
pub(super) fn amount_of(value: &Value, total: i64, rounding: PercentRounding) -> i64 {
    if let Some(number) = value.as_i64() {
        return number.max(0);
    }
    let percent = value.as_str().and_then(|t| t.strip_suffix('%')).and_then(|t| t.parse::<i64>().ok());
    let scaled = percent.unwrap_or(0).clamp(0, 1_000_000) * total.clamp(0, i64::from(i32::MAX));
    match rounding {
        PercentRounding::Up => (scaled + 99) / 100,
        PercentRounding::Down => scaled / 100,
    }
}

/// Pods in the order in which a scale-down takes them.
pub(super) fn doomed_first(pods: &mut [Value]) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    pods.sort_by_cached_key(|pod| {
        let bound = !text_at(pod, "/spec/nodeName").is_empty();
        let phase = match text_at(pod, "/status/phase") {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let cost: i64 = annotation(pod, COST).and_then(|c| c.parse().ok()).unwrap_or(0);
        let created = text_at(pod, "/metadata/creationTimestamp").to_owned();
        let restarts =
            list_at(pod, "/status/containerStatuses").iter().map(|c| int_at(c, "/restartCount")).max();
        let order = (bound, phase, is_ready(pod), cost, std::cmp::Reverse(restarts));
        (order, std::cmp::Reverse(created), name_of(pod).to_owned())
    });
}

/// The object without its hash label, to compare templates.
pub(super) fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(Value::Object(labels)) = template["metadata"].get_mut("labels") {
        labels.shift_remove(HASH_LABEL);
    }
    template
}

/// Returns the sooner of two reconciliations.
pub(super) fn sooner_of(a: NextReconcile, b: NextReconcile) -> NextReconcile {
    match (a, b) {
        (NextReconcile::Done, other) | (other, NextReconcile::Done) => other,
        (NextReconcile::After(x), NextReconcile::After(y)) => NextReconcile::After(x.min(y)),
        (NextReconcile::Later(x), NextReconcile::Later(y)) => NextReconcile::Later(x.min(y)),
        // One may be hurried to and then asks again for the other.
        (NextReconcile::After(x), NextReconcile::Later(_))
        | (NextReconcile::Later(_), NextReconcile::After(x)) => NextReconcile::After(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (value, total, rounding, want) in [
            (json!("25%"), 2, PercentRounding::Up, 1),
            (json!("25%"), 2, PercentRounding::Down, 0),
            (json!("100%"), 7, PercentRounding::Down, 7),
            (json!(3), 1, PercentRounding::Down, 3),
            (json!("no"), 9, PercentRounding::Up, 0),
            (Value::Null, 9, PercentRounding::Up, 0),
        ] {
            assert_eq!(amount_of(&value, total, rounding), want, "{value} of {total}");
        }
    }
}
