//! What an update may not change of a pod.

use serde_json::{Value, json};

use super::default::tidy;
use super::validate::list;
use crate::status::Cause;

const POD_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Compares the specs of a pod.
pub(super) fn pod(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    for key in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[key].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            out.push(Cause::forbidden(format!("spec.{key}"), "pod updates may not add or remove containers"));
            return;
        }
    }
    if !deadline(&new["activeDeadlineSeconds"], &old["activeDeadlineSeconds"], out) {
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
    let now: Vec<Value> = list(&new["tolerations"]).map(|(_, t)| timeless(t)).collect();
    if !list(&old["tolerations"]).all(|(_, was)| now.contains(&timeless(was))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        out.push(Cause::forbidden("spec.tolerations", why));
    }
    let gates = |spec: &Value| spec["schedulingGates"].as_array().cloned().unwrap_or_default();
    let name = |gate: &Value| gate["name"].as_str().unwrap_or("").to_owned();
    let had: Vec<String> = gates(old).iter().map(name).collect();
    for (i, gate) in gates(new).iter().enumerate().filter(|(_, gate)| !had.contains(&name(gate))) {
        out.push(Cause::forbidden(
            format!("spec.schedulingGates[{i}].name"),
            &format!("only deletion is allowed, but found new scheduling gate '{}'", name(gate)),
        ));
    }
    // What may change is made as it was, and the rest compared.
    let mut rest = new.clone();
    for key in ["containers", "initContainers"] {
        for (i, container) in list(&old[key]) {
            if rest[key][i].is_object() {
                rest[key][i]["image"] = container["image"].clone();
            }
        }
        tidy(&mut rest, key);
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        rest[key] = old[key].clone();
        tidy(&mut rest, key);
    }
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s < 0)
        && new["terminationGracePeriodSeconds"] == json!(1)
    {
        rest["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"].clone();
    }
    if !had.is_empty() {
        placement(&mut rest, old, out);
    }
    if rest != *old {
        out.push(Cause::forbidden("spec", POD_FIELDS));
    }
}

/// A deadline only comes nearer. Whether there is anything else to look at.
fn deadline(new: &Value, old: &Value, out: &mut Vec<Cause>) -> bool {
    let at = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            out.push(Cause::invalid(at, new, "must be between 0 and 2147483647, inclusive"));
            false
        }
        (Some(now), Some(was)) if now > was => {
            out.push(Cause::invalid(at, new, "must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            out.push(Cause::invalid(at, &Value::Null, why));
            true
        }
        _ => true,
    }
}

/// Where a pod that still waits at a gate is to run may be narrowed.
fn placement(rest: &mut Value, old: &Value, out: &mut Vec<Cause>) {
    let kept = |(key, was): (&String, &Value)| rest["nodeSelector"].get(key) == Some(was);
    if !old["nodeSelector"].as_object().into_iter().flatten().all(kept) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        out.push(Cause::invalid("spec.nodeSelector", &rest["nodeSelector"], why));
    }
    rest["nodeSelector"] = old["nodeSelector"].clone();
    tidy(rest, "nodeSelector");
    let was = &old["affinity"]["nodeAffinity"];
    if rest["affinity"]["nodeAffinity"] != *was {
        terms(&rest["affinity"]["nodeAffinity"][REQUIRED], &was[REQUIRED], out);
        if !rest["affinity"].is_object() && !was.is_null() {
            rest["affinity"] = json!({});
        }
        if rest["affinity"].is_object() {
            rest["affinity"]["nodeAffinity"] = was.clone();
            tidy(&mut rest["affinity"], "nodeAffinity");
            if rest["affinity"] == json!({}) && old["affinity"].is_null() {
                rest["affinity"] = Value::Null;
            }
        }
    } else if rest["affinity"].is_object() {
        tidy(&mut rest["affinity"], "nodeAffinity");
    }
    tidy(rest, "affinity");
}

fn terms(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    let at = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let (now, was) = (&new["nodeSelectorTerms"], &old["nodeSelectorTerms"]);
    let count = |terms: &Value| terms.as_array().map_or(0, Vec::len);
    if count(was) == 0 {
        return;
    }
    if count(was) != count(now) {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        out.push(Cause::invalid(at, &shown(now), why));
        return;
    }
    for (i, was) in list(was) {
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
            out.push(Cause::invalid(format!("{at}[{i}]"), &shown(&now[i]), why));
        }
    }
}

/// Terms as Go prints their internal type.
fn shown(value: &Value) -> Value {
    match value {
        Value::Array(all) => all.iter().map(shown).collect(),
        Value::Object(term) if term.contains_key("key") => {
            json!({"Key": term["key"], "Operator": value["operator"], "Values": value["values"]})
        }
        Value::Object(_) => json!({
            "MatchExpressions": shown(&value["matchExpressions"]), "MatchFields": shown(&value["matchFields"]),
        }),
        other => other.clone(),
    }
}
