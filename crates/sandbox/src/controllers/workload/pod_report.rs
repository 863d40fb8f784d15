//! Status reports of the kubelet: what it writes when a pod runs, fails, finishes or stops.

use serde_json::{Value, json};

use super::super::{Cluster, Next};
use super::common::{int, int_or, key, list, text};
use super::fault::ends;
use super::status::{self, Shown, Why};
use crate::status::Result;

const MANAGER: &str = "kubelet";

pub(super) fn write(pod: &Value, cluster: &Cluster, mut change: impl FnMut(&mut Value)) -> Result<()> {
    cluster.update_status("pods", &key(pod), MANAGER, |value| change(&mut value["status"]))?;
    Ok(())
}

/// What the status of a pod says once its containers have run.
pub(super) fn running(status: &mut Value, pod: &Value, address: &str, now: &str) {
    status["observedGeneration"] = int_or(pod, "/metadata/generation", 1).into();
    if !address.is_empty() {
        status["podIP"] = address.into();
        status["podIPs"] = json!([{"ip": address}]);
    }
    let begun =
        list(pod, "/status/initContainerStatuses").iter().any(|c| c["state"].get("waiting").is_none());
    if !begun && let Some(inits) = status::init_statuses(pod, true, now) {
        status["initContainerStatuses"] = inits;
    }
}

/// An image that cannot be pulled: the pull failed, or nobody tries for a while.
pub(super) fn image_pull(pod: &Value, reason: &str, cluster: &Cluster) -> Result<Next> {
    let problem = |c: &Value| {
        let failed = "rpc error: code = NotFound desc = failed to pull and unpack image";
        let image = c["image"].as_str().unwrap_or("");
        match reason {
            "ErrImagePull" => failed.to_owned(),
            _ => format!("Back-off pulling image \"{image}\": ErrImagePull: {failed}"),
        }
    };
    let containers: Vec<Value> = list(pod, "/spec/containers")
        .iter()
        .map(|c| {
            let mut shown = Shown::waiting(reason);
            shown.state["waiting"]["message"] = problem(c).into();
            status::container(pod, c, &shown)
        })
        .collect();
    write(pod, cluster, |status| status["containerStatuses"] = containers.clone().into())?;
    cluster.event(pod, "kubelet", "Warning", "Failed", &problem(&pod["spec"]["containers"][0]));
    Ok(Next::Done)
}

pub(super) fn evict(pod: &Value, address: &str, cluster: &Cluster) -> Result<Next> {
    let now = cluster.timestamp();
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.";
    let why = Why { reason: "PodFailed", message: None };
    let conditions = status::conditions(pod, true, false, Some(&why), &now);
    let containers = ended(pod, 137, "Error", &now);
    write(pod, cluster, |status| {
        running(status, pod, address, &now);
        status["phase"] = "Failed".into();
        status["reason"] = "Evicted".into();
        status["message"] = message.into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })?;
    cluster.event(pod, "kubelet", "Warning", "Evicted", message);
    Ok(Next::Done)
}

pub(super) fn overdue(pod: &Value, cluster: &Cluster) -> Result<Next> {
    let now = cluster.timestamp();
    let why = Why { reason: "PodFailed", message: None };
    let conditions = status::conditions(pod, true, false, Some(&why), &now);
    let containers = ended(pod, 137, "Error", &now);
    let message = "Pod was active on the node longer than the specified deadline";
    write(pod, cluster, |status| {
        status["phase"] = "Failed".into();
        status["reason"] = "DeadlineExceeded".into();
        status["message"] = message.into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })?;
    Ok(Next::Done)
}

/// Every container terminated, counting its restarts as before.
pub(super) fn ended(pod: &Value, code: i64, reason: &str, now: &str) -> Value {
    let specs = list(pod, "/spec/containers");
    let all: Vec<Value> = specs
        .iter()
        .enumerate()
        .map(|(i, c)| {
            let before = &pod["status"]["containerStatuses"][i];
            let since = before["state"]["running"]["startedAt"].as_str().unwrap_or(now);
            let restarts = int(before, "/restartCount");
            let shown = Shown {
                state: status::terminated(pod, c, restarts, code, reason, since, now),
                last: if before["lastState"].is_object() { before["lastState"].clone() } else { json!({}) },
                ready: false,
                restarts,
            };
            status::container(pod, c, &shown)
        })
        .collect();
    all.into()
}

pub(super) fn finish(pod: &Value, code: i64, cluster: &Cluster) -> Result<Next> {
    let now = cluster.timestamp();
    let (phase, reason, why) =
        if code == 0 { ("Succeeded", "Completed", "PodCompleted") } else { ("Failed", "Error", "PodFailed") };
    let why = Why { reason: why, message: None };
    let conditions = status::conditions(pod, true, false, Some(&why), &now);
    let containers = ended(pod, code, reason, &now);
    write(pod, cluster, |status| {
        status["phase"] = phase.into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })?;
    Ok(Next::Done)
}

/// The last report on a pod that is being deleted: nothing is ready, nothing runs.
pub(super) fn report_stopped(pod: &Value, cluster: &Cluster) -> Result<()> {
    let now = cluster.timestamp();
    let conditions = status::conditions(pod, true, false, None, &now);
    let ran = text(pod, "/status/phase") == "Running";
    let batch = ends(pod);
    let containers = if batch { ended(pod, 143, "Error", &now) } else { ended(pod, 0, "Completed", &now) };
    write(pod, cluster, |status| {
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
pub(super) fn set_ready(pod: &Value, ready: bool, now: &str, cluster: &Cluster) -> Result<()> {
    let conditions = status::conditions(pod, true, ready, None, now);
    let mut containers = pod["status"]["containerStatuses"].clone();
    for container in containers.as_array_mut().into_iter().flatten() {
        container["ready"] = ready.into();
    }
    write(pod, cluster, |status| {
        status["observedGeneration"] = int_or(pod, "/metadata/generation", 1).into();
        status["conditions"] = conditions.clone();
        status["containerStatuses"] = containers.clone();
    })
}
