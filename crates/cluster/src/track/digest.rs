//! Why something did not become ready, in a few lines: containers, events, last words.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef};

use super::failures::guard;
use crate::logs::{self, Source};
use crate::{Cluster, ListOptions};

/// How long collecting may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The same for a run whose own time is over.
pub(super) const OVERTIME: Duration = Duration::from_millis(750);
const PODS: usize = 3;
const EVENTS: usize = 8;
const LINES: u32 = 15;

/// What is known about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Digest {
    pub containers: Vec<Container>,
    /// `Reason: message`, the newest last.
    pub events: Vec<String>,
    pub logs: Vec<LastWords>,
}

/// A container that is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub pod: String,
    pub container: String,
    /// `waiting: CrashLoopBackOff`, `terminated: Error (exit code 1)`.
    pub state: String,
    pub restarts: i64,
}

/// What a container said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastWords {
    pub pod: String,
    pub container: String,
    pub lines: Vec<String>,
}

impl Digest {
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.events.is_empty() && self.logs.is_empty()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for container in &self.containers {
            let Container { pod, container, state, restarts } = container;
            let again = if *restarts > 0 { format!(", restarted {restarts} times") } else { String::new() };
            writeln!(f, "pod {pod}, container {container}: {state}{again}")?;
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

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The containers of a pod that are not well.
fn unwell(pod: &Value) -> Vec<Container> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let name = text(pod, "/metadata/name");
    let mut found: Vec<Container> = statuses
        .filter_map(|status| {
            let told = |state: &Value| match (text(state, "/reason"), guard(text(state, "/message"))) {
                (reason, "") => reason.to_owned(),
                (reason, message) => format!("{reason}: {message}"),
            };
            let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
            let ended =
                |ended: &Value| format!("{} (exit code {})", text(ended, "/reason"), ended["exitCode"]);
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
            Some(Container {
                pod: name.to_owned(),
                container: text(status, "/name").to_owned(),
                state,
                restarts: status["restartCount"].as_i64().unwrap_or(0),
            })
        })
        .collect();
    let unscheduled = super::status::condition(pod, "PodScheduled").filter(|c| c["status"] == "False");
    if let Some(condition) = unscheduled {
        let state = super::status::told(condition);
        found.push(Container { pod: name.to_owned(), container: String::new(), state, restarts: 0 });
    }
    found
}

/// Collects what there is to know; what may not be read is left out.
pub(super) async fn collect(
    cluster: &Cluster,
    at: &ObjectRef,
    owner: &[String],
    pods: &[&Value],
    patience: Duration,
) -> Digest {
    let mut digest = Digest::default();
    let sick: Vec<(&&Value, Vec<Container>)> = pods
        .iter()
        .map(|pod| (pod, unwell(pod)))
        .filter(|(pod, unwell)| !unwell.is_empty() || text(pod, "/status/phase") == "Failed")
        .take(PODS)
        .collect();
    let uids = owner.iter().map(String::as_str).chain(sick.iter().map(|(pod, _)| text(pod, "/metadata/uid")));
    let events = join_all(uids.filter(|uid| !uid.is_empty()).map(|uid| events_of(cluster, at, uid)));
    let namespace = at.namespace.clone().unwrap_or_default();
    let speakers: Vec<(Source, bool)> = sick
        .iter()
        .flat_map(|(pod, unwell)| unwell.iter().map(move |container| (pod, container)))
        .filter(|(_, container)| !container.container.is_empty())
        .map(|(pod, container)| {
            let source = Source {
                namespace: namespace.clone(),
                pod: text(pod, "/metadata/name").to_owned(),
                container: container.container.clone(),
            };
            (source, container.restarts > 0 && container.state.starts_with("waiting"))
        })
        .collect();
    let words = join_all(speakers.iter().map(|(source, previous)| async move {
        let options = logs::Options { tail: Some(LINES), previous: *previous, ..logs::Options::default() };
        let lines = logs::read(cluster, source, &options).await.ok()?;
        let lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
        let words = LastWords { pod: source.pod.clone(), container: source.container.clone(), lines };
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
    let Ok(Some(kind)) = cluster.kind(&Gvk::new("", "v1", "Event")).await else { return Vec::new() };
    let options = ListOptions { fields: format!("involvedObject.uid={uid}"), ..ListOptions::default() };
    let Ok(listed) = cluster.list(&kind, at.namespace.as_deref(), &options).await else { return Vec::new() };
    let warnings = listed.items.iter().filter(|event| event["type"] != "Normal");
    warnings
        .map(|event| {
            let time = [text(event, "/lastTimestamp"), text(event, "/eventTime")];
            let time = time.into_iter().find(|time| !time.is_empty()).unwrap_or_default();
            let told = format!("{}: {}", text(event, "/reason"), guard(text(event, "/message")));
            (time.to_owned(), told)
        })
        .collect()
}
