//! The form in which a real server stores and prints built-in objects.

use serde_json::Value;

use super::typed;
use crate::api::resource::ServedResource;
use crate::status::{Result, Status};

/// Puts a built-in object into the form a real server prints.
pub(super) fn normalize(served: &ServedResource, object: Value) -> Result<Value> {
    typed::decode_typed(object, served.type_ref(), &[]).map(|d| d.value).map_err(Status::internal)
}

/// The times of a kind's conditions, which are printed although they are not set.
fn condition_times(table: &str) -> &'static [&'static str] {
    match table {
        "namespaces"
        | "replicationcontrollers"
        | "replicasets.apps"
        | "statefulsets.apps"
        | "daemonsets.apps"
        | "horizontalpodautoscalers.autoscaling"
        | "flowschemas.flowcontrol.apiserver.k8s.io"
        | "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io" => &["lastTransitionTime"],
        "deployments.apps" => &["lastUpdateTime", "lastTransitionTime"],
        "nodes" => &["lastHeartbeatTime", "lastTransitionTime"],
        "jobs.batch" | "pods" | "persistentvolumeclaims" => &["lastProbeTime", "lastTransitionTime"],
        _ => &[],
    }
}

/// Adds members a real server prints although they are not set, such as the times of events and conditions.
pub(super) fn restore_omitted_members(served: &ServedResource, value: &mut Value) {
    // Once stored, an empty list and none are the same.
    let lists: &[&str] = match &*served.table {
        "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io" => &["/rules"],
        "limitranges" => &["/spec/limits"],
        "endpointslices.discovery.k8s.io" => &["/endpoints", "/ports"],
        "csinodes.storage.k8s.io" => &["/spec/drivers"],
        "jobs.batch" => &["/spec/podFailurePolicy/rules"],
        _ => &[],
    };
    for list in lists {
        if let Some(found) = value.pointer_mut(list).filter(|v| v.as_array().is_some_and(Vec::is_empty)) {
            *found = Value::Null;
        }
    }
    let conditions = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        let place = |key: &str| condition.keys().position(|known| known == key).map(|at| at + 1);
        let mut at = place("observedGeneration").or_else(|| place("status")).unwrap_or(condition.len());
        for key in condition_times(&served.table) {
            if !condition.contains_key(*key) {
                condition.shift_insert(at, (*key).into(), Value::Null);
            }
            at = condition.keys().position(|known| known == key).map_or(at, |at| at + 1);
        }
    }
    if &*served.table == "statefulsets.apps" {
        let claims = value.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
        for claim in claims.into_iter().flatten() {
            if let Some(health) = claim.pointer_mut("/status/healthStatus").and_then(Value::as_object_mut) {
                health.entry("lastTransitionTime").or_insert(Value::Null);
            }
        }
    }
    if &*served.table != "events" {
        return;
    }
    if let Some(series) = value.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("lastObservedTime").or_insert(Value::Null);
    }
    for (key, after) in
        [("firstTimestamp", "source"), ("lastTimestamp", "firstTimestamp"), ("eventTime", "type")]
    {
        if let Some(members) = value.as_object_mut()
            && !members.contains_key(key)
        {
            let at = members.keys().position(|k| k == after).map_or(members.len(), |i| i + 1);
            members.shift_insert(at, key.into(), Value::Null);
        }
    }
}
