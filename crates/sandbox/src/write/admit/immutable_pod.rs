//! Fields of a pod that an update may not change.

use serde_json::{Value, json};

use super::default::remove_null;
use super::validate::indexed_items;
use crate::status::StatusCause;

const POD_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Compares the specs of a pod.
pub(in crate::write) fn check_pod(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    for key in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[key].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            out.push(StatusCause::forbidden(
                format!("spec.{key}"),
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    if !check_deadline(&new["activeDeadlineSeconds"], &old["activeDeadlineSeconds"], out) {
        return;
    }
    // Tolerations may be added to, and be given another time.
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(members) = toleration.as_object_mut() {
            members.shift_remove("tolerationSeconds");
        }
        toleration
    };
    let now: Vec<Value> = indexed_items(&new["tolerations"]).map(|(_, t)| timeless(t)).collect();
    if !indexed_items(&old["tolerations"]).all(|(_, was)| now.contains(&timeless(was))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        out.push(StatusCause::forbidden("spec.tolerations", why));
    }
    let gates = |spec: &Value| spec["schedulingGates"].as_array().cloned().unwrap_or_default();
    let name = |gate: &Value| gate["name"].as_str().unwrap_or("").to_owned();
    let had: Vec<String> = gates(old).iter().map(name).collect();
    for (i, gate) in gates(new).iter().enumerate().filter(|(_, gate)| !had.contains(&name(gate))) {
        out.push(StatusCause::forbidden(
            format!("spec.schedulingGates[{i}].name"),
            &format!("only deletion is allowed, but found new scheduling gate '{}'", name(gate)),
        ));
    }
    // Fields that may change are set to their old values, and the rest is compared.
    let mut rest = new.clone();
    for key in ["containers", "initContainers"] {
        for (i, container) in indexed_items(&old[key]) {
            if rest[key][i].is_object() {
                rest[key][i]["image"] = container["image"].clone();
            }
        }
        remove_null(&mut rest, key);
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        rest[key] = old[key].clone();
        remove_null(&mut rest, key);
    }
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s < 0)
        && new["terminationGracePeriodSeconds"] == json!(1)
    {
        rest["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"].clone();
    }
    if !had.is_empty() {
        check_placement(&mut rest, old, out);
    }
    if rest != *old {
        out.push(StatusCause::forbidden("spec", POD_FIELDS));
    }
}

/// Compares the specs of a pod of which only the processor and the memory of containers may change.
pub(in crate::write) fn check_resize(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let before = out.len();
    for key in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[key].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            let why = format!("{key} may not be added or removed on resize");
            out.push(StatusCause::forbidden(format!("spec.{key}"), &why));
            continue;
        }
        for (i, _) in indexed_items(&old[key]).filter(|(i, was)| new[key][*i]["name"] != was["name"]) {
            let why = format!("{key} may not be renamed or reordered on resize");
            out.push(StatusCause::forbidden(format!("spec.{key}[{i}].name"), &why));
        }
    }
    if out.len() > before {
        return;
    }
    for key in ["initContainers", "containers"] {
        for (i, was) in indexed_items(&old[key]) {
            for (side, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
                let now = &new[key][i]["resources"][side];
                let removed = was["resources"][side]
                    .as_object()
                    .is_some_and(|had| had.keys().any(|name| now.get(name).is_none()));
                if removed {
                    let at = format!("spec.{key}[{i}].resources.{side}");
                    out.push(StatusCause::forbidden(at, &format!("{what} cannot be removed")));
                }
            }
        }
    }
    // What may change is set to its old value, and the rest is compared.
    let without = |container: &Value| {
        let mut container = container.clone();
        for side in ["requests", "limits"] {
            if let Some(amounts) = container["resources"][side].as_object_mut() {
                amounts.retain(|name, _| name != "cpu" && name != "memory");
                if amounts.is_empty() {
                    remove_member(&mut container["resources"], side);
                }
            }
        }
        if container["resources"].as_object().is_none_or(serde_json::Map::is_empty) {
            remove_member(&mut container, "resources");
        }
        container
    };
    for (i, was) in indexed_items(&old["containers"]) {
        if without(&new["containers"][i]) != without(was) {
            out.push(StatusCause::forbidden("spec", "only cpu and memory resources are mutable"));
        }
    }
    for (i, was) in indexed_items(&old["initContainers"]) {
        if without(&new["initContainers"][i]) != without(was) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            out.push(StatusCause::forbidden(format!("spec.initContainers[{i}]"), why));
        }
    }
    if out.len() > before {
        return;
    }
    let mut rest = new.clone();
    if without(new)["resources"] != without(old)["resources"] {
        let why = "only cpu and memory resources are mutable at pod-level";
        out.push(StatusCause::forbidden("spec", why));
        return;
    }
    for key in ["containers", "initContainers", "volumes", "resources"] {
        rest[key] = old[key].clone();
        remove_null(&mut rest, key);
    }
    if rest != *old {
        out.push(StatusCause::forbidden("spec", "only cpu and memory resources are mutable"));
    }
}

fn remove_member(value: &mut Value, key: &str) {
    if let Some(members) = value.as_object_mut() {
        members.shift_remove(key);
    }
}

/// Checks that a deadline is only shortened. Returns true if other fields must be compared.
fn check_deadline(new: &Value, old: &Value, out: &mut Vec<StatusCause>) -> bool {
    let at = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            out.push(StatusCause::invalid(at, new, "must be between 0 and 2147483647, inclusive"));
            false
        }
        (Some(now), Some(was)) if now > was => {
            out.push(StatusCause::invalid(at, new, "must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            out.push(StatusCause::invalid(at, &Value::Null, why));
            true
        }
        _ => true,
    }
}

/// Checks that the placement of a pod behind a scheduling gate is only narrowed.
fn check_placement(rest: &mut Value, old: &Value, out: &mut Vec<StatusCause>) {
    let kept = |(key, was): (&String, &Value)| rest["nodeSelector"].get(key) == Some(was);
    if !old["nodeSelector"].as_object().into_iter().flatten().all(kept) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        out.push(StatusCause::invalid("spec.nodeSelector", &rest["nodeSelector"], why));
    }
    rest["nodeSelector"] = old["nodeSelector"].clone();
    remove_null(rest, "nodeSelector");
    let was = &old["affinity"]["nodeAffinity"];
    if rest["affinity"]["nodeAffinity"] != *was {
        check_terms(&rest["affinity"]["nodeAffinity"][REQUIRED], &was[REQUIRED], out);
        if !rest["affinity"].is_object() && !was.is_null() {
            rest["affinity"] = json!({});
        }
        if rest["affinity"].is_object() {
            rest["affinity"]["nodeAffinity"] = was.clone();
            remove_null(&mut rest["affinity"], "nodeAffinity");
            if rest["affinity"] == json!({}) && old["affinity"].is_null() {
                rest["affinity"] = Value::Null;
            }
        }
    } else if rest["affinity"].is_object() {
        remove_null(&mut rest["affinity"], "nodeAffinity");
    }
    remove_null(rest, "affinity");
}

fn check_terms(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let at = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let (now, was) = (&new["nodeSelectorTerms"], &old["nodeSelectorTerms"]);
    let count = |terms: &Value| terms.as_array().map_or(0, Vec::len);
    if count(was) == 0 {
        return;
    }
    if count(was) != count(now) {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        out.push(StatusCause::invalid(at, &go_internal_terms(now), why));
        return;
    }
    for (i, was) in indexed_items(was) {
        let only_added = |key: &str| {
            let (had, has) = (was[key].as_array(), now[i][key].as_array());
            let had = had.map_or(&[][..], Vec::as_slice);
            has.map_or(&[][..], Vec::as_slice).starts_with(had)
        };
        let empty = |term: &Value| count(&term["matchExpressions"]) + count(&term["matchFields"]) == 0;
        let good =
            only_added("matchExpressions") && only_added("matchFields") && (!empty(was) || empty(&now[i]));
        if !good {
            let why = "only additions are allowed (no mutations or deletions)";
            out.push(StatusCause::invalid(format!("{at}[{i}]"), &go_internal_terms(&now[i]), why));
        }
    }
}

/// Terms as Go prints their internal type.
fn go_internal_terms(value: &Value) -> Value {
    match value {
        Value::Array(all) => all.iter().map(go_internal_terms).collect(),
        Value::Object(term) if term.contains_key("key") => {
            json!({"Key": term["key"], "Operator": value["operator"], "Values": value["values"]})
        }
        Value::Object(_) => json!({
            "MatchExpressions": go_internal_terms(&value["matchExpressions"]), "MatchFields": go_internal_terms(&value["matchFields"]),
        }),
        other => other.clone(),
    }
}
