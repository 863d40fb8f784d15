//! Rows of pods and nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, ago, count, int, join, or, text};
use crate::write::admit::validate::list;

pub(super) fn pod(object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let sidecars = list(&spec["initContainers"]).filter(|(_, c)| c["restartPolicy"] == "Always").count();
    let total = count(&spec["containers"]) + sidecars;
    let mut reason = or(text(status, "/reason"), text(status, "/phase")).to_owned();
    for (_, condition) in list(&status["conditions"]) {
        if condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated" {
            reason = "SchedulingGated".into();
        }
    }
    let mut restarts = 0;
    let mut last_restart: Option<String> = None;
    let mut ready = 0;
    let sidecar = |name: &Value| {
        list(&spec["initContainers"]).any(|(_, c)| c["name"] == *name && c["restartPolicy"] == "Always")
    };
    let mut initialising = false;
    let init_total = count(&spec["initContainers"]);
    for (i, container) in list(&status["initContainerStatuses"]) {
        restarts += int(container, "/restartCount");
        let state = &container["state"];
        if state["terminated"].is_object() && int(state, "/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar(&container["name"]) && container["started"] == true {
            if container["ready"] == true {
                ready += 1;
            }
            continue;
        }
        reason = if state["terminated"].is_object() {
            let why = text(state, "/terminated/reason");
            if why.is_empty() {
                format!("Init:ExitCode:{}", int(state, "/terminated/exitCode"))
            } else {
                format!("Init:{why}")
            }
        } else {
            let why = text(state, "/waiting/reason");
            if why.is_empty() || why == "PodInitializing" {
                format!("Init:{i}/{init_total}")
            } else {
                format!("Init:{why}")
            }
        };
        initialising = true;
        break;
    }
    if !initialising {
        restarts = 0;
        let mut has_running = false;
        for (_, container) in list(&status["containerStatuses"]).collect::<Vec<_>>().into_iter().rev() {
            restarts += int(container, "/restartCount");
            let finished = text(container, "/lastState/terminated/finishedAt");
            if !finished.is_empty() && last_restart.as_deref().is_none_or(|l| l < finished) {
                last_restart = Some(finished.to_owned());
            }
            let state = &container["state"];
            if !text(state, "/waiting/reason").is_empty() {
                reason = text(state, "/waiting/reason").into();
            } else if !text(state, "/terminated/reason").is_empty() {
                reason = text(state, "/terminated/reason").into();
            } else if state["terminated"].is_object() {
                reason = format!("ExitCode:{}", int(state, "/terminated/exitCode"));
            } else if container["ready"] == true && state["running"].is_object() {
                has_running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && has_running {
            let is_ready =
                list(&status["conditions"]).any(|(_, c)| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.into();
        }
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        reason = if text(status, "/reason") == "NodeLost" { "Unknown" } else { "Terminating" }.into();
    }
    let restarts = match last_restart {
        Some(at) if restarts > 0 => format!("{restarts} ({} ago)", ago(&at.into(), now)),
        _ => restarts.to_string(),
    };
    let gates = spec["readinessGates"].as_array().map_or(0, Vec::len);
    let open = list(&spec["readinessGates"])
        .filter(|(_, g)| {
            list(&status["conditions"]).any(|(_, c)| c["type"] == g["conditionType"] && c["status"] == "True")
        })
        .count();
    vec![
        object["metadata"]["name"].clone(),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        age,
        or(text(status, "/podIP"), NONE).into(),
        or(text(spec, "/nodeName"), NONE).into(),
        or(text(status, "/nominatedNodeName"), NONE).into(),
        if gates == 0 { NONE.into() } else { format!("{open}/{gates}").into() },
    ]
}

pub(super) fn node(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = list(&status["conditions"]).find(|(_, c)| c["type"] == "Ready");
    let mut state = match ready {
        Some((_, c)) if c["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if spec["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
        .filter(|r| !r.is_empty())
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        list(&status["addresses"])
            .find(|(_, a)| a["type"] == kind)
            .and_then(|(_, a)| a["address"].as_str())
            .unwrap_or(NONE)
            .to_owned()
    };
    let info = |key: &str| or(text(status, &format!("/nodeInfo/{key}")), "<unknown>").to_owned();
    let kernel = match text(status, "/nodeInfo/architecture") {
        "" => info("kernelVersion"),
        arch => format!("{} ({arch})", info("kernelVersion")),
    };
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        join(roles.into_iter()).into(),
        age,
        text(status, "/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}
