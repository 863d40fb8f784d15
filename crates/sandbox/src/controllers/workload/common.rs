//! What several controllers need: children, templates, pods' conditions, amounts.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::{Cluster, Item, Next, Queue};
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::{Change, Event, Key};
use crate::write::delete::{DeleteOptions, Propagation};

pub(super) const MANAGER: &str = "kube-controller-manager";
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Finds the objects of one table that an event about them or their children concerns.
pub(super) struct Family {
    table: &'static str,
    children: &'static [&'static str],
    known: HashMap<Box<str>, Item>,
}

impl Family {
    pub(super) fn new(table: &'static str, children: &'static [&'static str]) -> Family {
        Family { table, children, known: HashMap::new() }
    }

    pub(super) fn observe(&mut self, event: &Event, queue: &mut Queue) {
        if *event.table == *self.table {
            if event.change == Change::Deleted {
                self.known.remove(&event.object.uid);
            } else {
                self.known.insert(event.object.uid.clone(), Item::of(event));
            }
            queue.push(Item::of(event));
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
        // Somebody may want to adopt it.
        if event.object.owners.is_empty() && !event.object.deleting {
            for item in self.known.values().filter(|i| *i.key.namespace == *event.object.key.namespace) {
                queue.push(item.clone());
            }
        }
    }
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn int(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn int_or(object: &Value, pointer: &str, other: i64) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(other)
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(super) fn key(object: &Value) -> Key {
    Key::new(namespace(object), name(object))
}

pub(super) fn deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Members of a list, or nothing.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
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

/// The objects of `table` that belong to `owner`: adopts orphans its selector matches, lets others go.
pub(super) fn children(
    cluster: &Cluster,
    table: &str,
    owner: &Value,
    selector: Option<&Labels>,
) -> Result<Vec<Value>> {
    let (space, owner_uid, going) = (namespace(owner), uid(owner), deleting(owner));
    let mut out = Vec::new();
    for object in cluster.objects(table, Some(space)) {
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
    meta.insert("generateName".into(), format!("{}-", name(owner)).into());
    meta.insert("ownerReferences".into(), json!([owner_reference(owner)]));
    json!({"metadata": meta, "spec": template["spec"]})
}

/// Creates a pod and tells of it.
pub(super) fn create_pod(cluster: &Cluster, owner: &Value, pod: Value, component: &str) -> Result<Value> {
    match cluster.create("pods", namespace(owner), pod, MANAGER) {
        Ok(made) => {
            let message = format!("Created pod: {}", name(&made));
            cluster.event(owner, component, "Normal", "SuccessfulCreate", &message);
            Ok(made)
        }
        Err(status) => {
            let message = format!("Error creating: {}", status.message);
            cluster.event(owner, component, "Warning", "FailedCreate", &message);
            Err(status)
        }
    }
}

/// Deletes a pod and tells of it.
pub(super) fn delete_pod(cluster: &Cluster, owner: &Value, pod: &Value, component: &str) -> Result<()> {
    remove(cluster, "pods", pod)?;
    let message = format!("Deleted pod: {}", name(pod));
    cluster.event(owner, component, "Normal", "SuccessfulDelete", &message);
    Ok(())
}

/// Deletes exactly this object.
pub(super) fn remove(cluster: &Cluster, table: &str, object: &Value) -> Result<()> {
    let options = DeleteOptions {
        uid: Some(uid(object).to_owned()),
        propagation: (table != "pods").then_some(Propagation::Background),
        ..DeleteOptions::default()
    };
    cluster.delete(table, &key(object), &options)
}

/// Whether an object carries a condition with status True.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == "True")
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|c| c["type"] == kind)
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Neither finished nor going.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !deleting(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready")
}

/// How long until a ready pod counts as available; `None` when it is not ready.
pub(super) fn until_available(cluster: &Cluster, pod: &Value, min_ready: i64) -> Option<Duration> {
    let ready = condition(pod, "Ready").filter(|c| c["status"] == "True")?;
    let wanted = Duration::from_secs(u64::try_from(min_ready).unwrap_or(0));
    Some(wanted.saturating_sub(cluster.since(&ready["lastTransitionTime"])))
}

/// Counts of pods as replica sets tell them, and how long until another becomes available.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) ready: usize,
    pub(super) available: usize,
    pub(super) soonest: Option<Duration>,
}

impl Tally {
    pub(super) fn of<'a>(
        cluster: &Cluster,
        pods: impl IntoIterator<Item = &'a Value>,
        min_ready: i64,
    ) -> Tally {
        let mut out = Tally::default();
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

    pub(super) fn next(&self) -> Next {
        self.soonest.map_or(Next::Done, Next::After)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

/// A number or a percentage of `total`.
pub(super) fn amount_of(value: &Value, total: i64, rounding: Rounding) -> i64 {
    if let Some(number) = value.as_i64() {
        return number.max(0);
    }
    let percent = value.as_str().and_then(|t| t.strip_suffix('%')).and_then(|t| t.parse::<i64>().ok());
    let scaled = percent.unwrap_or(0).clamp(0, 1_000_000) * total.clamp(0, i64::from(i32::MAX));
    match rounding {
        Rounding::Up => (scaled + 99) / 100,
        Rounding::Down => scaled / 100,
    }
}

/// Pods in the order in which a scale-down takes them.
pub(super) fn doomed_first(pods: &mut [Value]) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    pods.sort_by_cached_key(|pod| {
        let bound = !text(pod, "/spec/nodeName").is_empty();
        let phase = match text(pod, "/status/phase") {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let cost: i64 = annotation(pod, COST).and_then(|c| c.parse().ok()).unwrap_or(0);
        let created = text(pod, "/metadata/creationTimestamp").to_owned();
        let restarts = list(pod, "/status/containerStatuses").iter().map(|c| int(c, "/restartCount")).max();
        let order = (bound, phase, is_ready(pod), cost, std::cmp::Reverse(restarts));
        (order, std::cmp::Reverse(created), name(pod).to_owned())
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

/// The sooner of two answers.
pub(super) fn sooner(a: Next, b: Next) -> Next {
    match (a, b) {
        (Next::Done, other) | (other, Next::Done) => other,
        (Next::After(x), Next::After(y)) => Next::After(x.min(y)),
        (Next::Later(x), Next::Later(y)) => Next::Later(x.min(y)),
        // One may be hurried to and then asks again for the other.
        (Next::After(x), Next::Later(_)) | (Next::Later(_), Next::After(x)) => Next::After(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (value, total, rounding, want) in [
            (json!("25%"), 2, Rounding::Up, 1),
            (json!("25%"), 2, Rounding::Down, 0),
            (json!("100%"), 7, Rounding::Down, 7),
            (json!(3), 1, Rounding::Down, 3),
            (json!("no"), 9, Rounding::Up, 0),
            (Value::Null, 9, Rounding::Up, 0),
        ] {
            assert_eq!(amount_of(&value, total, rounding), want, "{value} of {total}");
        }
    }
}
