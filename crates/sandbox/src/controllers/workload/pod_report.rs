//! Status reports of the kubelet: what it writes when a pod runs, fails, finishes or stops.

use serde_json::{Value, json};

use super::super::{ClusterHandle, NextReconcile};
use super::common::{int_at, int_or, key_of, list_at, text_at};
use super::fault::ends_by_itself;
use super::status::{self, ConditionReason, ContainerReport};
use crate::status::Result;

const MANAGER: &str = "kubelet";

pub(super) fn write_status(
    pod: &Value,
    cluster: &ClusterHandle,
    mut change: impl FnMut(&mut Value),
) -> Result<()> {
    cluster.update_status("pods", &key_of(pod), MANAGER, |value| change(&mut value["status"]))?;
    Ok(())
}

/// Sets the members a pod's status has once its containers have run.
pub(super) fn set_running(status: &mut Value, pod: &Value, address: &str, now: &str) {
    status["observedGeneration"] = int_or(pod, "/metadata/generation", 1).into();
    if !address.is_empty() {
        status["podIP"] = address.into();
        status["podIPs"] = json!([{"ip": address}]);
    }
    let begun =
        list_at(pod, "/status/initContainerStatuses").iter().any(|c| c["state"].get("waiting").is_none());
    if !begun && let Some(inits) = status::init_statuses(pod, true, now) {
        status["initContainerStatuses"] = inits;
    }
}

/// An image that cannot be pulled: the pull failed, or nobody tries for a while.
pub(super) fn report_image_pull(pod: &Value, reason: &str, cluster: &ClusterHandle) -> Result<NextReconcile> {
    let problem = |c: &Value| {
        let failed = "rpc error: code = NotFound desc = failed to pull and unpack image";
        let image = c["image"].as_str().unwrap_or("");
        match reason {
            "ErrImagePull" => failed.to_owned(),
            _ => format!("Back-off pulling image \"{image}\": ErrImagePull: {failed}"),
        }
    };
    let containers: Vec<Value> = list_at(pod, "/spec/containers")
        .iter()
        .map(|c| {
            let mut shown = ContainerReport::waiting_because(reason);
            shown.state["waiting"]["message"] = problem(c).into();
            status::container_status(pod, c, &shown)
        })
        .collect();
    write_status(pod, cluster, |status| status["containerStatuses"] = containers.clone().into())?;
    cluster.record_event(pod, "kubelet", "Warning", "Failed", &problem(&pod["spec"]["containers"][0]));
    Ok(NextReconcile::Done)
}

pub(super) fn report_evicted(pod: &Value, address: &str, cluster: &ClusterHandle) -> Result<NextReconcile> {
    let now = cluster.now_text();
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.";
    let why = ConditionReason { reason: "PodFailed", message: None };
    let conditions = status::pod_conditions(pod, true, false, Some(&why), &now);
    let containers = ended_statuses(pod, 137, "Error", &now);
    write_status(pod, cluster, |status| {
        set_running(status, pod, address, &now);
        status["phase"] = "Failed".into();
        status["reason"] = "Evicted".into();
        status["message"] = message.into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })?;
    cluster.record_event(pod, "kubelet", "Warning", "Evicted", message);
    Ok(NextReconcile::Done)
}

pub(super) fn report_overdue(pod: &Value, cluster: &ClusterHandle) -> Result<NextReconcile> {
    let now = cluster.now_text();
    let why = ConditionReason { reason: "PodFailed", message: None };
    let conditions = status::pod_conditions(pod, true, false, Some(&why), &now);
    let containers = ended_statuses(pod, 137, "Error", &now);
    let message = "Pod was active on the node longer than the specified deadline";
    write_status(pod, cluster, |status| {
        status["phase"] = "Failed".into();
        status["reason"] = "DeadlineExceeded".into();
        status["message"] = message.into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })?;
    Ok(NextReconcile::Done)
}

/// Every container terminated, counting its restarts as before.
pub(super) fn ended_statuses(pod: &Value, code: i64, reason: &str, now: &str) -> Value {
    let specs = list_at(pod, "/spec/containers");
    let all: Vec<Value> = specs
        .iter()
        .enumerate()
        .map(|(i, c)| {
            let before = &pod["status"]["containerStatuses"][i];
            let since = before["state"]["running"]["startedAt"].as_str().unwrap_or(now);
            let restarts = int_at(before, "/restartCount");
            let shown = ContainerReport {
                state: status::terminated_state(pod, c, restarts, code, reason, since, now),
                last: if before["lastState"].is_object() { before["lastState"].clone() } else { json!({}) },
                ready: false,
                restarts,
            };
            status::container_status(pod, c, &shown)
        })
        .collect();
    all.into()
}

pub(super) fn report_finished(pod: &Value, code: i64, cluster: &ClusterHandle) -> Result<NextReconcile> {
    let now = cluster.now_text();
    let (phase, reason, why) =
        if code == 0 { ("Succeeded", "Completed", "PodCompleted") } else { ("Failed", "Error", "PodFailed") };
    let why = ConditionReason { reason: why, message: None };
    let conditions = status::pod_conditions(pod, true, false, Some(&why), &now);
    let containers = ended_statuses(pod, code, reason, &now);
    write_status(pod, cluster, |status| {
        status["phase"] = phase.into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })?;
    Ok(NextReconcile::Done)
}

/// The last report on a pod that is being deleted: nothing is ready, nothing runs.
pub(super) fn report_stopped(pod: &Value, cluster: &ClusterHandle) -> Result<()> {
    let now = cluster.now_text();
    let conditions = status::pod_conditions(pod, true, false, None, &now);
    let ran = text_at(pod, "/status/phase") == "Running";
    let batch = ends_by_itself(pod);
    let containers = if batch {
        ended_statuses(pod, 143, "Error", &now)
    } else {
        ended_statuses(pod, 0, "Completed", &now)
    };
    write_status(pod, cluster, |status| {
        status["observedGeneration"] = int_or(pod, "/metadata/generation", 1).into();
        if batch || !ran {
            status["phase"] = "Failed".into();
        }
        status["conditions"] = conditions.clone();
        if ran {
            status["containerStatuses"] = containers.clone();
        }
    })
}

/// Makes the conditions say whether the containers are ready; writes nothing that is said already.
pub(super) fn set_ready(pod: &Value, ready: bool, now: &str, cluster: &ClusterHandle) -> Result<()> {
    let conditions = status::pod_conditions(pod, true, ready, None, now);
    let mut containers = pod["status"]["containerStatuses"].clone();
    for container in containers.as_array_mut().into_iter().flatten() {
        container["ready"] = ready.into();
    }
    write_status(pod, cluster, |status| {
        status["observedGeneration"] = int_or(pod, "/metadata/generation", 1).into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })
}
