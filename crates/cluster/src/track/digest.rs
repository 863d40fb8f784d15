//! A short account of a failure: containers, events, last log lines.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef};

use super::failures::without_account_details;
use super::status::text_at;
use crate::logs::{self, LogSource};
use crate::{Cluster, ListOptions};

/// Time limit for collecting.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for collecting after the deadline of the run.
pub(super) const PATIENCE_AFTER_DEADLINE: Duration = Duration::from_millis(750);
const PODS: usize = 3;
const EVENTS: usize = 8;
const LINES: u32 = 15;

/// The known facts about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureDigest {
    pub containers: Vec<FailingContainer>,
    /// `Reason: message`, the newest last.
    pub events: Vec<String>,
    pub logs: Vec<LogTail>,
}

/// A container that waits or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingContainer {
    pub pod: String,
    pub container: String,
    /// `waiting: CrashLoopBackOff`, `terminated: Error (exit code 1)`.
    pub state: String,
    pub restarts: i64,
}

/// The last log lines of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogTail {
    pub pod: String,
    pub container: String,
    pub lines: Vec<String>,
}

impl FailureDigest {
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.events.is_empty() && self.logs.is_empty()
    }
}

impl fmt::Display for FailureDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for container in &self.containers {
            let FailingContainer { pod, container, state, restarts } = container;
            let again = if *restarts > 0 { format!(", restarted {restarts} times") } else { String::new() };
            // A pod that no node takes has no containers yet.
            let whose = if container.is_empty() { String::new() } else { format!(", container {container}") };
            writeln!(f, "pod {pod}{whose}: {state}{again}")?;
        }
        for event in &self.events {
            writeln!(f, "event {event}")?;
        }
        for words in &self.logs {
            writeln!(f, "last lines of pod {}, container {}:", words.pod, words.container)?;
            for line in &words.lines {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// Returns the containers of a pod that wait or have failed.
fn failing_containers(pod: &Value) -> Vec<FailingContainer> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let name = text_at(pod, "/metadata/name");
    let mut found: Vec<FailingContainer> = statuses
        .filter_map(|status| {
            let told = |state: &Value| match (
                text_at(state, "/reason"),
                without_account_details(text_at(state, "/message")),
            ) {
                (reason, "") => reason.to_owned(),
                (reason, message) => format!("{reason}: {message}"),
            };
            let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
            let ended =
                |ended: &Value| format!("{} (exit code {})", text_at(ended, "/reason"), ended["exitCode"]);
            let state = if state["waiting"].is_object() {
                let before = if last.is_object() { format!(", last {}", ended(last)) } else { String::new() };
                format!("waiting: {}{before}", told(&state["waiting"]))
            } else if state["terminated"].is_object() {
                if state["terminated"]["exitCode"] == 0 {
                    return None;
                }
                format!("terminated: {}", ended(&state["terminated"]))
            } else if status["ready"] == false {
                "running, not ready".to_owned()
            } else {
                return None;
            };
            Some(FailingContainer {
                pod: name.to_owned(),
                container: text_at(status, "/name").to_owned(),
                state,
                restarts: status["restartCount"].as_i64().unwrap_or(0),
            })
        })
        .collect();
    let unscheduled = super::status::find_condition(pod, "PodScheduled").filter(|c| c["status"] == "False");
    if let Some(condition) = unscheduled {
        let state = super::status::condition_text(condition);
        found.push(FailingContainer { pod: name.to_owned(), container: String::new(), state, restarts: 0 });
    }
    found
}

/// Collects the facts about a failure; what may not be read is left out.
pub(super) async fn collect_digest(
    cluster: &Cluster,
    at: &ObjectRef,
    owner: &[String],
    pods: &[&Value],
    patience: Duration,
) -> FailureDigest {
    let mut digest = FailureDigest::default();
    let sick: Vec<(&&Value, Vec<FailingContainer>)> = pods
        .iter()
        .map(|pod| (pod, failing_containers(pod)))
        .filter(|(pod, unwell)| !unwell.is_empty() || text_at(pod, "/status/phase") == "Failed")
        .take(PODS)
        .collect();
    let uids =
        owner.iter().map(String::as_str).chain(sick.iter().map(|(pod, _)| text_at(pod, "/metadata/uid")));
    let events = join_all(uids.filter(|uid| !uid.is_empty()).map(|uid| events_of(cluster, at, uid)));
    let namespace = at.namespace.clone().unwrap_or_default();
    let speakers: Vec<(LogSource, bool)> = sick
        .iter()
        .flat_map(|(pod, unwell)| unwell.iter().map(move |container| (pod, container)))
        .filter(|(_, container)| !container.container.is_empty())
        .map(|(pod, container)| {
            let source = LogSource {
                namespace: namespace.clone(),
                pod: text_at(pod, "/metadata/name").to_owned(),
                container: container.container.clone(),
            };
            (source, container.restarts > 0 && container.state.starts_with("waiting"))
        })
        .collect();
    let words = join_all(speakers.iter().map(|(source, previous)| async move {
        let options = logs::ContainerLogOptions {
            tail: Some(LINES),
            previous: *previous,
            ..logs::ContainerLogOptions::default()
        };
        let lines = logs::read_logs(cluster, source, &options).await.ok()?;
        let lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
        let words = LogTail { pod: source.pod.clone(), container: source.container.clone(), lines };
        (!words.lines.is_empty()).then_some(words)
    }));
    let collected = tokio::time::timeout(patience, futures::future::join(events, words)).await;
    digest.containers = sick.into_iter().flat_map(|(_, unwell)| unwell).collect();
    if let Ok((events, words)) = collected {
        let mut events: Vec<(String, String)> = events.into_iter().flatten().collect();
        events.sort();
        events.dedup_by(|a, b| a.1 == b.1);
        let surplus = events.len().saturating_sub(EVENTS);
        digest.events = events.into_iter().skip(surplus).map(|(_, told)| told).collect();
        digest.logs = words.into_iter().flatten().collect();
    }
    digest
}

/// The warnings about an object, each with its time.
async fn events_of(cluster: &Cluster, at: &ObjectRef, uid: &str) -> Vec<(String, String)> {
    let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("", "v1", "Event")).await else { return Vec::new() };
    let options = ListOptions { fields: format!("involvedObject.uid={uid}"), ..ListOptions::default() };
    let Ok(listed) = cluster.list(&kind, at.namespace.as_deref(), &options).await else { return Vec::new() };
    let warnings = listed.items.iter().filter(|event| event["type"] != "Normal");
    warnings
        .map(|event| {
            let time = [text_at(event, "/lastTimestamp"), text_at(event, "/eventTime")];
            let time = time.into_iter().find(|time| !time.is_empty()).unwrap_or_default();
            let told = format!(
                "{}: {}",
                text_at(event, "/reason"),
                without_account_details(text_at(event, "/message"))
            );
            (time.to_owned(), told)
        })
        .collect()
}
