//! Rows of pods and nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, age_since, int_at, item_count, join_texts, text_at, text_or};
use crate::write::admit::validate::indexed_items;

pub(super) fn pod_row(object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let sidecars =
        indexed_items(&spec["initContainers"]).filter(|(_, c)| c["restartPolicy"] == "Always").count();
    let total = item_count(&spec["containers"]) + sidecars;
    let mut reason = text_or(text_at(status, "/reason"), text_at(status, "/phase")).to_owned();
    for (_, condition) in indexed_items(&status["conditions"]) {
        if condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated" {
            reason = "SchedulingGated".into();
        }
    }
    let mut restarts = 0;
    let mut last_restart: Option<String> = None;
    let mut ready = 0;
    let sidecar = |name: &Value| {
        indexed_items(&spec["initContainers"])
            .any(|(_, c)| c["name"] == *name && c["restartPolicy"] == "Always")
    };
    let mut initialising = false;
    let init_total = item_count(&spec["initContainers"]);
    for (i, container) in indexed_items(&status["initContainerStatuses"]) {
        restarts += int_at(container, "/restartCount");
        let state = &container["state"];
        if state["terminated"].is_object() && int_at(state, "/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar(&container["name"]) && container["started"] == true {
            if container["ready"] == true {
                ready += 1;
            }
            continue;
        }
        reason = if state["terminated"].is_object() {
            let why = text_at(state, "/terminated/reason");
            if why.is_empty() {
                format!("Init:ExitCode:{}", int_at(state, "/terminated/exitCode"))
            } else {
                format!("Init:{why}")
            }
        } else {
            let why = text_at(state, "/waiting/reason");
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
        for (_, container) in
            indexed_items(&status["containerStatuses"]).collect::<Vec<_>>().into_iter().rev()
        {
            restarts += int_at(container, "/restartCount");
            let finished = text_at(container, "/lastState/terminated/finishedAt");
            if !finished.is_empty() && last_restart.as_deref().is_none_or(|l| l < finished) {
                last_restart = Some(finished.to_owned());
            }
            let state = &container["state"];
            if !text_at(state, "/waiting/reason").is_empty() {
                reason = text_at(state, "/waiting/reason").into();
            } else if !text_at(state, "/terminated/reason").is_empty() {
                reason = text_at(state, "/terminated/reason").into();
            } else if state["terminated"].is_object() {
                reason = format!("ExitCode:{}", int_at(state, "/terminated/exitCode"));
            } else if container["ready"] == true && state["running"].is_object() {
                has_running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && has_running {
            let is_ready = indexed_items(&status["conditions"])
                .any(|(_, c)| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.into();
        }
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        reason = if text_at(status, "/reason") == "NodeLost" { "Unknown" } else { "Terminating" }.into();
    }
    let restarts = match last_restart {
        Some(at) if restarts > 0 => format!("{restarts} ({} ago)", age_since(&at.into(), now)),
        _ => restarts.to_string(),
    };
    let gates = spec["readinessGates"].as_array().map_or(0, Vec::len);
    let open = indexed_items(&spec["readinessGates"])
        .filter(|(_, g)| {
            indexed_items(&status["conditions"])
                .any(|(_, c)| c["type"] == g["conditionType"] && c["status"] == "True")
        })
        .count();
    vec![
        object["metadata"]["name"].clone(),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        age,
        text_or(text_at(status, "/podIP"), NONE).into(),
        text_or(text_at(spec, "/nodeName"), NONE).into(),
        text_or(text_at(status, "/nominatedNodeName"), NONE).into(),
        if gates == 0 { NONE.into() } else { format!("{open}/{gates}").into() },
    ]
}

pub(super) fn node_row(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = indexed_items(&status["conditions"]).find(|(_, c)| c["type"] == "Ready");
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
        indexed_items(&status["addresses"])
            .find(|(_, a)| a["type"] == kind)
            .and_then(|(_, a)| a["address"].as_str())
            .unwrap_or(NONE)
            .to_owned()
    };
    let info = |key: &str| text_or(text_at(status, &format!("/nodeInfo/{key}")), "<unknown>").to_owned();
    let kernel = match text_at(status, "/nodeInfo/architecture") {
        "" => info("kernelVersion"),
        arch => format!("{} ({arch})", info("kernelVersion")),
    };
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        join_texts(roles.into_iter()).into(),
        age,
        text_at(status, "/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}
