//! The status a kubelet reports for a pod.

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_manifest::image::ImageReference;

use super::common::*;

pub(super) const HOST: &str = "127.0.0.1";

fn hex_digest(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

pub(super) fn container_id(pod: &Value, container: &str, attempt: i64) -> String {
    format!("sandbox://{}", hex_digest(&format!("{}/{container}/{attempt}", uid_of(pod))))
}

fn image_id(container: &Value) -> String {
    let image = container["image"].as_str().unwrap_or("");
    let reference = image.parse::<ImageReference>().ok();
    match reference.as_ref().and_then(|reference| Some((reference, reference.digest.as_deref()?))) {
        // A runtime pulls exactly what the digest says.
        Some((reference, digest)) => format!("{}@{digest}", reference.full_repository()),
        None => format!("sandbox://sha256:{}", hex_digest(image)),
    }
}

/// The state of one container, as its status reports it.
pub(super) struct ContainerReport {
    pub(super) state: Value,
    pub(super) last: Value,
    pub(super) ready: bool,
    pub(super) restarts: i64,
}

impl ContainerReport {
    pub(super) fn waiting_because(reason: &str) -> ContainerReport {
        ContainerReport {
            state: json!({"waiting": {"reason": reason}}),
            last: json!({}),
            ready: false,
            restarts: 0,
        }
    }
}

pub(super) fn container_status(pod: &Value, spec: &Value, shown: &ContainerReport) -> Value {
    let called = spec["name"].as_str().unwrap_or("");
    let runs = shown.state.get("running").is_some();
    let exists = runs || shown.state.get("terminated").is_some() || shown.last.get("terminated").is_some();
    let mut status = json!({
        "name": called,
        "state": shown.state,
        "lastState": shown.last,
        "ready": shown.ready,
        "restartCount": shown.restarts,
        "image": spec["image"],
        "imageID": if exists { image_id(spec) } else { String::new() },
        "started": runs,
    });
    if exists {
        status["containerID"] = container_id(pod, called, shown.restarts).into();
    }
    status
}

pub(super) fn terminated_state(
    pod: &Value,
    spec: &Value,
    attempt: i64,
    code: i64,
    reason: &str,
    since: &str,
    now: &str,
) -> Value {
    let called = spec["name"].as_str().unwrap_or("");
    json!({"terminated": {
        "exitCode": code, "reason": reason, "startedAt": since, "finishedAt": now,
        "containerID": container_id(pod, called, attempt),
    }})
}

/// The reason a condition does not hold.
pub(super) struct ConditionReason<'a> {
    pub(super) reason: &'a str,
    pub(super) message: Option<String>,
}

/// The five conditions of a pod on a node. Times of conditions that stay as they were are kept.
pub(super) fn pod_conditions(
    pod: &Value,
    initialized: bool,
    containers_ready: bool,
    why: Option<&ConditionReason<'_>>,
    now: &str,
) -> Value {
    let names = |pointer: &str| {
        let all: Vec<&str> = list_at(pod, pointer).iter().filter_map(|c| c["name"].as_str()).collect();
        all.join(" ")
    };
    let unready = format!("containers with unready status: [{}]", names("/spec/containers"));
    let incomplete = format!("containers with incomplete status: [{}]", names("/spec/initContainers"));
    let gates: Vec<&str> = list_at(pod, "/spec/readinessGates")
        .iter()
        .filter_map(|g| g["conditionType"].as_str())
        .filter(|kind| !has_condition(pod, kind))
        .collect();
    let ready = containers_ready && gates.is_empty();
    let make = |kind: &str, holds: bool, reason: &str, message: Option<&str>| {
        let state = if holds { "True" } else { "False" };
        let before = condition(pod, kind).filter(|c| c["status"] == state);
        let since = before.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
        let mut made = json!({
            "type": kind,
            "observedGeneration": int_or(pod, "/metadata/generation", 1),
            "status": state,
            "lastProbeTime": null,
            "lastTransitionTime": since,
        });
        if !holds {
            made["reason"] = reason.into();
            if let Some(message) = message.filter(|m| !m.is_empty()) {
                made["message"] = message.into();
            }
        }
        made
    };
    let (reason, message) = match why {
        Some(why) => (why.reason, why.message.as_deref()),
        None => ("ContainersNotReady", Some(unready.as_str())),
    };
    let gated: Vec<String> = gates
        .iter()
        .map(|g| format!("corresponding condition of pod readiness gate \"{g}\" does not exist."))
        .collect();
    let gated = gated.join(", ");
    let (ready_reason, ready_message) = if containers_ready && !gates.is_empty() {
        ("ReadinessGatesNotReady", Some(gated.as_str()))
    } else {
        (reason, message)
    };
    let mut out = vec![
        make("PodReadyToStartContainers", why.is_none(), "", None),
        make("Initialized", initialized, "ContainersNotInitialized", Some(&incomplete)),
        make("Ready", ready, ready_reason, ready_message),
        make("ContainersReady", containers_ready, reason, message),
        make("PodScheduled", true, "", None),
    ];
    if let Some(started) = out.first_mut().and_then(Value::as_object_mut) {
        started.shift_remove("reason");
    }
    // Conditions others put there stay: readiness gates live among them.
    let own = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    for other in list_at(pod, "/status/conditions") {
        if !other["type"].as_str().is_some_and(|t| own.contains(&t)) {
            out.push(other.clone());
        }
    }
    out.into()
}

/// The statuses of init containers before (`done` false) or after their work.
pub(super) fn init_statuses(pod: &Value, done: bool, now: &str) -> Option<Value> {
    let specs = list_at(pod, "/spec/initContainers");
    if specs.is_empty() {
        return None;
    }
    let all: Vec<Value> = specs
        .iter()
        .map(|spec| {
            let sidecar = spec["restartPolicy"] == "Always";
            let shown = if !done {
                ContainerReport::waiting_because("PodInitializing")
            } else if sidecar {
                ContainerReport {
                    state: json!({"running": {"startedAt": now}}),
                    last: json!({}),
                    ready: true,
                    restarts: 0,
                }
            } else {
                let state = terminated_state(pod, spec, 0, 0, "Completed", now, now);
                ContainerReport { state, last: json!({}), ready: true, restarts: 0 }
            };
            container_status(pod, spec, &shown)
        })
        .collect();
    Some(all.into())
}
