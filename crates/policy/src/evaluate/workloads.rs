//! Rules on workloads: resources, privileges, replicas.

use serde_json::Value;
use slipway_manifest::ObjectRef;
use slipway_manifest::pods::pod_containers;

use super::Violation;
use crate::input::{PolicyInput, PolicyObject};
use crate::model::WorkloadCheck;
use crate::report::PolicyCode;

/// What a container has to say about resources. A limit is a request too, as Kubernetes takes it.
const REQUIRED: [(&str, &[&str]); 3] = [
    ("requests.cpu", &["/requests/cpu", "/limits/cpu"]),
    ("requests.memory", &["/requests/memory", "/limits/memory"]),
    ("limits.memory", &["/limits/memory"]),
];

pub(super) fn check_workloads(check: &WorkloadCheck, input: &PolicyInput<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for object in &input.objects {
        for container in pod_containers(&object.reference.gvk, object.object) {
            // Ephemeral containers cannot have resources.
            if check.require_resources && container.list != "ephemeralContainers" {
                let resources = container.value.get("resources");
                let is_set = |pointer: &&str| {
                    resources.and_then(|all| all.pointer(pointer)).is_some_and(|one| !one.is_null())
                };
                let missing: Vec<&str> = REQUIRED
                    .iter()
                    .filter(|(_, places)| !places.iter().any(is_set))
                    .map(|(name, _)| *name)
                    .collect();
                if !missing.is_empty() {
                    let message =
                        format!("the container `{}` has no {}", container.name(), missing.join(", "));
                    let violation = Violation::of_object(&object.reference, PolicyCode::NoResources, message);
                    found.push(violation.at(format!("{}.resources", container.path)));
                }
            }
            let privileged = container.value.pointer("/securityContext/privileged");
            if check.forbid_privileged && privileged.and_then(Value::as_bool) == Some(true) {
                let message = format!("the container `{}` is privileged", container.name());
                let violation = Violation::of_object(&object.reference, PolicyCode::Privileged, message);
                found.push(violation.at(format!("{}.securityContext.privileged", container.path)));
            }
        }
        if let Some(least) = check.min_replicas {
            found.extend(check_replicas(object, least, input));
        }
    }
    found
}

fn check_replicas(object: &PolicyObject<'_>, least: u64, input: &PolicyInput<'_>) -> Option<Violation> {
    let gvk = &object.reference.gvk;
    let is_scaled =
        gvk.group == "apps" && matches!(gvk.kind.as_str(), "Deployment" | "StatefulSet" | "ReplicaSet");
    if !is_scaled {
        return None;
    }
    let number = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    let scaler = input.objects.iter().find(|scaler| scales(scaler, &object.reference));
    let (count, owner, path) = match scaler {
        Some(scaler) => (number(scaler.object, "/spec/minReplicas"), scaler, "spec.minReplicas"),
        None => (number(object.object, "/spec/replicas"), object, "spec.replicas"),
    };
    let count = count.unwrap_or(1);
    (count < least).then(|| {
        let message = format!("has {count} replicas, at least {least} are required");
        Violation::of_object(&owner.reference, PolicyCode::TooFewReplicas, message).at(path)
    })
}

/// Tells whether an object is an autoscaler of a workload.
fn scales(scaler: &PolicyObject<'_>, workload: &ObjectRef) -> bool {
    let text = |pointer: &str| scaler.object.pointer(pointer).and_then(Value::as_str);
    scaler.reference.gvk.group == "autoscaling"
        && scaler.reference.gvk.kind == "HorizontalPodAutoscaler"
        && scaler.reference.namespace == workload.namespace
        && text("/spec/scaleTargetRef/kind") == Some(workload.gvk.kind.as_str())
        && text("/spec/scaleTargetRef/name") == Some(workload.name.as_str())
}
