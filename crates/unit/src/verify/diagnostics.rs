//! Collects what explains a failure: pods that are not well, their last lines, warnings, rollouts and nodes.

use serde_json::{Value, json};
use slipway_cluster::logs::{ContainerLogOptions, LogSource, read_logs};
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, object};

use super::survey::{Survey, container_statuses};

/// Lines kept of each failing container.
const LOG_LINES: u32 = 200;
/// The most pods that are looked into.
const MOST_PODS: usize = 20;

/// Collects it all; what cannot be had is left out.
pub(super) async fn collect(cluster: &Cluster, survey: &Survey) -> Value {
    let mut pods = Vec::new();
    for pod in survey.pods.iter().filter(|pod| !is_well(pod)).take(MOST_PODS) {
        let mut logs = Vec::new();
        for status in container_statuses(pod).filter(|status| status["ready"] != true) {
            let container = status["name"].as_str().unwrap_or_default();
            for previous in [false, true] {
                let source = LogSource {
                    namespace: object::namespace(pod).unwrap_or_default().to_owned(),
                    pod: object::name(pod).unwrap_or_default().to_owned(),
                    container: container.to_owned(),
                };
                let options =
                    ContainerLogOptions { tail: Some(LOG_LINES), previous, ..ContainerLogOptions::default() };
                let lines = read_logs(cluster, &source, &options).await.unwrap_or_default();
                if !lines.is_empty() {
                    let lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
                    logs.push(json!({"container": container, "previous": previous, "lines": lines}));
                }
            }
        }
        pods.push(json!({
            "name": object::name(pod), "namespace": object::namespace(pod), "status": pod.get("status"),
            "node": pod.pointer("/spec/nodeName"), "logs": logs,
        }));
    }
    let warnings: Vec<Value> = survey
        .warnings
        .iter()
        .map(|event| {
            json!({
                "object": event.get("involvedObject"), "reason": event.get("reason"), "message": event.get("message"),
                "count": event.get("count"), "last": event.get("lastTimestamp"),
            })
        })
        .collect();
    let rollouts: Vec<Value> = survey
        .objects
        .iter()
        .filter(|object| object.at.gvk.group == "apps")
        .map(|object| json!({"object": object.at.to_string(), "status": object.live.as_ref().and_then(|live| live.get("status"))}))
        .collect();
    json!({"pods": pods, "warnings": warnings, "rollouts": rollouts, "nodes": nodes(cluster).await})
}

fn is_well(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    phase == Some("Succeeded")
        || phase == Some("Running")
            && container_statuses(pod)
                .all(|status| status["ready"] == true || status.pointer("/state/terminated/reason").is_some())
}

/// The conditions of nodes that are not as they should be.
async fn nodes(cluster: &Cluster) -> Vec<Value> {
    let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("", "v1", "Node")).await else { return Vec::new() };
    let Ok(listed) = cluster.list(&kind, None, &ListOptions::default()).await else { return Vec::new() };
    let trouble = |node: &Value| {
        let conditions =
            node.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let bad: Vec<Value> = conditions
            .into_iter()
            .filter(|condition| (condition["type"] == "Ready") != (condition["status"] == "True"))
            .collect();
        (!bad.is_empty()).then(|| json!({"name": object::name(node), "conditions": bad}))
    };
    listed.items.iter().filter_map(trouble).collect()
}
