//! Owners of fields: making `helm` the owner of everything it manages, so that what leaves the chart
//! leaves the cluster. Pure: a plan predicts what applying will write.

use serde_json::Value;
use slipway_manifest::apply::{FieldManager, FieldManagers, ManagerOperation};
use slipway_manifest::fields::{FieldPath, FieldSet, PathElement};
use slipway_manifest::object;

/// The field manager of releases, Helm's own.
pub const MANAGER: &str = "helm";

/// The owners to be written before an object is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerRepair {
    /// All entries as they should be.
    pub managers: FieldManagers,
    /// The fields `helm` owns then.
    pub owned: FieldSet,
}

/// Tells that a client-side Helm wrote an object, so that the previous manifest says what is its.
pub fn written_by_old_helm(live: &Value) -> bool {
    FieldManagers::read_from(live)
        .is_ok_and(|managers| managers.find_entry(MANAGER, ManagerOperation::Update, "").is_some())
}

/// The fields `helm` owns according to an object's entries.
pub fn owned_by_helm(object: &Value) -> FieldSet {
    let managers = FieldManagers::read_from(object).unwrap_or_default();
    managers
        .find_entry(MANAGER, ManagerOperation::Apply, "")
        .map(|manager| manager.fields.clone())
        .unwrap_or_default()
}

/// Gives the owners as they should be, or nothing if they are.
///
/// `previous` is what applying the previous manifest would make `helm` own. Entries of subresources stay,
/// and so do those of other appliers: sharing a field with them is what both asked for.
pub fn repair(
    live: &Value,
    manifest: &Value,
    previous: Option<&FieldSet>,
    keep_manual_changes: bool,
) -> Option<OwnerRepair> {
    let managers = FieldManagers::read_from(live).ok()?;
    if managers.0.is_empty() {
        return None;
    }
    let ours = managers.find_entry(MANAGER, ManagerOperation::Apply, "").cloned();
    let mut owned = ours.as_ref().map(|entry| entry.fields.clone()).unwrap_or_default();
    if let Some(previous) = previous {
        owned = owned.union(previous);
    }
    let is_absorbed = |entry: &FieldManager| {
        entry.subresource.is_empty()
            && (entry.name == MANAGER && entry.operation == ManagerOperation::Update
                || entry.name.starts_with("werf")
                || entry.name == "kubectl-edit" && !keep_manual_changes)
    };
    for entry in managers.0.iter().filter(|entry| is_absorbed(entry)) {
        // A client-side Helm also owns what the server filled in. Where the previous manifest tells what
        // it asked for, the rest is nobody's, as after a server-side apply.
        if entry.name != MANAGER || previous.is_none() {
            owned = owned.union(&entry.fields);
        }
    }
    twin_accounts(live, manifest, &mut owned);
    let mut kept = Vec::with_capacity(managers.0.len());
    for entry in &managers.0 {
        let is_ours = entry.name == MANAGER
            && entry.operation == ManagerOperation::Apply
            && entry.subresource.is_empty();
        if is_absorbed(entry) || is_ours {
            continue;
        }
        let mut entry = entry.clone();
        if entry.subresource.is_empty() && entry.operation == ManagerOperation::Update {
            entry.fields = entry.fields.difference(&owned);
        }
        if !entry.fields.is_empty() {
            kept.push(entry);
        }
    }
    if !owned.is_empty() {
        let api_version = object::api_version(live).unwrap_or("v1").to_owned();
        kept.push(FieldManager {
            name: MANAGER.to_owned(),
            operation: ManagerOperation::Apply,
            api_version: ours.as_ref().map_or(api_version, |entry| entry.api_version.clone()),
            subresource: String::new(),
            time: ours.as_ref().and_then(|entry| entry.time.clone()),
            fields: owned.clone(),
        });
    }
    let repaired = FieldManagers(kept);
    // An empty list would make the server forget every owner.
    if repaired.0.is_empty() || same(&managers, &repaired) {
        return None;
    }
    Some(OwnerRepair { managers: repaired, owned })
}

fn same(a: &FieldManagers, b: &FieldManagers) -> bool {
    a.0.len() == b.0.len()
        && a.0
            .iter()
            .all(|entry| b.0.iter().any(|other| entry.is_same(other) && entry.fields == other.fields))
}

/// A server keeps `serviceAccount` and `serviceAccountName` alike: owning one is owning both.
fn twin_accounts(live: &Value, manifest: &Value, owned: &mut FieldSet) {
    let gvk = object::gvk(live);
    let prefix: &[&str] = match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => &["spec"],
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
            &["spec", "template", "spec"]
        }
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return,
    };
    let spec = prefix.iter().try_fold(manifest, |value, field| value.get(field));
    let fields = ["serviceAccount", "serviceAccountName"];
    if spec.is_some_and(|spec| fields.iter().any(|field| spec.get(field).is_some())) {
        return;
    }
    let path = |field: &str| FieldPath::from_names(prefix.iter().copied().chain([field]));
    if fields.iter().any(|field| owned.contains(&path(field).0)) {
        for field in fields {
            owned.insert(&path(field).0);
        }
    }
}

/// Predicts an object when owners are put right first: the answer of a dry run without the fields that
/// only `helm` owns then and no longer sets.
pub fn predict(after: &Value, repair: &OwnerRepair) -> Value {
    let now = owned_by_helm(after);
    let others = repair
        .managers
        .0
        .iter()
        .filter(|entry| {
            !(entry.name == MANAGER
                && entry.operation == ManagerOperation::Apply
                && entry.subresource.is_empty())
        })
        .fold(now, |all, entry| all.union(&entry.fields));
    let mut predicted = after.clone();
    for path in repair.owned.paths() {
        if !touches(&others, &path.0) {
            remove(&mut predicted, &path.0);
        }
    }
    predicted
}

/// Tells that a set has the path or anything below it.
fn touches(set: &FieldSet, path: &[PathElement]) -> bool {
    if set.contains(path) {
        return true;
    }
    let mut below = set;
    for element in path {
        match below.children_of(element) {
            Some(next) => below = next,
            None => return false,
        }
    }
    !below.is_empty()
}

/// Removes what a path points to; what is not there is fine.
fn remove(value: &mut Value, path: &[PathElement]) {
    let Some((last, before)) = path.split_last() else { return };
    let mut value = value;
    for element in before {
        let Some(next) = step(value, element) else { return };
        value = next;
    }
    match (last, value) {
        (PathElement::Field(name), Value::Object(map)) => {
            map.shift_remove(name.as_ref());
        }
        (element, Value::Array(items)) => {
            if let Some(position) = position(items, element) {
                items.remove(position);
            }
        }
        _ => {}
    }
}

fn step<'a>(value: &'a mut Value, element: &PathElement) -> Option<&'a mut Value> {
    match (element, value) {
        (PathElement::Field(name), Value::Object(map)) => map.get_mut(name.as_ref()),
        (element, Value::Array(items)) => {
            let position = position(items, element)?;
            items.get_mut(position)
        }
        _ => None,
    }
}

fn position(items: &[Value], element: &PathElement) -> Option<usize> {
    match element {
        PathElement::Key(fields) => {
            items.iter().position(|item| fields.iter().all(|(name, value)| item.get(name) == Some(value)))
        }
        PathElement::Value(value) => items.iter().position(|item| item == value.as_ref()),
        PathElement::Index(index) => usize::try_from(*index).ok().filter(|index| *index < items.len()),
        PathElement::Field(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(managers: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "managedFields": managers},
            "data": {"a": "1", "b": "2", "c": "3"}})
    }

    fn entry(name: &str, operation: &str, keys: &[&str]) -> Value {
        let fields: serde_json::Map<String, Value> =
            keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({"manager": name, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": fields}})
    }

    #[test]
    fn old_helm_and_manual_edits_are_taken_over() {
        let manifest = json!({"data": {"a": "1"}});
        let object = live(json!([
            entry("helm", "Update", &["a", "b"]),
            entry("kubectl-edit", "Update", &["c"]),
            entry("ca-injector", "Update", &["d"])
        ]));
        assert!(written_by_old_helm(&object));
        let repair = repair(&object, &manifest, None, false).expect("owners are wrong");
        assert_eq!(repair.managers.0.len(), 2);
        // The dry run has `a` applied; b and c are ours to remove, d is not.
        let after = live(json!([entry("helm", "Apply", &["a"]), entry("ca-injector", "Update", &["d"])]));
        assert_eq!(predict(&after, &repair)["data"], json!({"a": "1"}));

        let kept = super::repair(&object, &manifest, None, true).expect("owners are wrong");
        assert_eq!(predict(&after, &kept)["data"], json!({"a": "1", "c": "3"}));
    }

    #[test]
    fn what_the_server_filled_in_stays() {
        let object = live(json!([entry("helm", "Update", &["a", "b", "c"])]));
        let asked = live(json!([entry("helm", "Apply", &["a", "b"])]));
        let previous = owned_by_helm(&asked);
        let repair =
            repair(&object, &json!({"data": {"a": "1"}}), Some(&previous), false).expect("to repair");
        let after = live(json!([entry("helm", "Apply", &["a"])]));
        assert_eq!(predict(&after, &repair)["data"], json!({"a": "1", "c": "3"}));
    }

    #[test]
    fn owners_that_are_right_stay() {
        let object = live(json!([entry("helm", "Apply", &["a"]), entry("ca-injector", "Update", &["d"])]));
        assert_eq!(repair(&object, &json!({}), None, false), None);
        assert_eq!(repair(&live(json!([])), &json!({}), None, false), None);
    }
}
