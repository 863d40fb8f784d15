//! A short account of a failure: containers, events, last log lines.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef};

use super::failures::{waiting_text, without_account_details};
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
    /// Tells each fact once, however many pods it is true of: replicas of one workload mostly fail alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<PodGroup<'_, (&str, &str), i64>> = Vec::new();
        for FailingContainer { pod, container, state, restarts } in &self.containers {
            PodGroup::add(&mut told, (container, state), pod, *restarts);
        }
        for PodGroup { fact: (container, state), pods, values: restarts } in &told {
            let again = match restarts.iter().max() {
                Some(1) => ", restarted once".to_owned(),
                Some(most @ 2..) => format!(", restarted {most} times"),
                _ => String::new(),
            };
            // A pod that no node takes has no containers yet.
            let whose = if container.is_empty() { String::new() } else { format!(", container {container}") };
            writeln!(f, "{}{whose}: {state}{again}", pods_text(pods))?;
        }
        let mut events: Vec<String> = Vec::new();
        for event in &self.events {
            let event =
                self.containers.iter().fold(event.clone(), |event, one| without_pod(&event, &one.pod));
            if !events.contains(&event) && !self.is_known(&event) {
                events.push(event);
            }
        }
        for event in events {
            writeln!(f, "event {event}")?;
        }
        let mut logs: Vec<PodGroup<'_, (&str, &[String]), ()>> = Vec::new();
        for LogTail { pod, container, lines } in &self.logs {
            PodGroup::add(&mut logs, (container, lines), pod, ());
        }
        for PodGroup { fact: (container, lines), pods, .. } in &logs {
            writeln!(f, "last lines of {}, container {container}:", pods_text(pods))?;
            for line in *lines {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

impl FailureDigest {
    /// Returns true if a container is said to back off already: the event about it adds nothing.
    fn is_known(&self, event: &str) -> bool {
        event.starts_with("BackOff:") && self.containers.iter().any(|one| one.state.contains("BackOff"))
    }
}

/// Pods of which the same is true, with what differs between them.
struct PodGroup<'d, Fact, Value> {
    fact: Fact,
    pods: Vec<&'d str>,
    values: Vec<Value>,
}

impl<'d, Fact: PartialEq, Value> PodGroup<'d, Fact, Value> {
    fn add(groups: &mut Vec<Self>, fact: Fact, pod: &'d str, value: Value) {
        match groups.iter_mut().find(|group| group.fact == fact) {
            Some(group) => {
                group.pods.push(pod);
                group.values.push(value);
            }
            None => groups.push(Self { fact, pods: vec![pod], values: vec![value] }),
        }
    }
}

fn pods_text(pods: &[&str]) -> String {
    match pods {
        [] => String::new(),
        [pod] => format!("pod {pod}"),
        [pod, other] => format!("pods {pod} and {other}"),
        [pod, others @ ..] => format!("pod {pod} and {} others", others.len()),
    }
}

/// The text of an event without the pod it is about, which the kubelet writes as `in pod NAME_NAMESPACE(UID)`.
fn without_pod(event: &str, pod: &str) -> String {
    let place = format!(" in pod {pod}_");
    match event.split_once(&place) {
        Some((before, after)) => {
            let after = after.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => event.to_owned(),
    }
}

/// Returns the containers of a pod that wait or have failed.
fn failing_containers(pod: &Value) -> Vec<FailingContainer> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let name = text_at(pod, "/metadata/name");
    let mut found: Vec<FailingContainer> = statuses
        .filter_map(|status| {
            let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
            let ended =
                |ended: &Value| format!("{} (exit code {})", text_at(ended, "/reason"), ended["exitCode"]);
            let state = if state["waiting"].is_object() {
                let before = if last.is_object() { format!(", last {}", ended(last)) } else { String::new() };
                format!("waiting: {}{before}", waiting_text(&state["waiting"]))
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

/// Says why pods are not ready: a line a fact, with the pods it is true of. Pods that are ready say nothing.
pub fn describe_unready_pods<'p>(pods: impl IntoIterator<Item = &'p Value>) -> Vec<String> {
    let containers = pods.into_iter().flat_map(failing_containers).collect();
    let digest = FailureDigest { containers, ..FailureDigest::default() };
    digest.to_string().lines().map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_true_of_several_pods_is_told_once() {
        let container = |pod: &str, restarts| FailingContainer {
            pod: pod.to_owned(),
            container: "app".to_owned(),
            state: "waiting: CrashLoopBackOff, last Error (exit code 1)".to_owned(),
            restarts,
        };
        let tail = |pod: &str, line: &str| LogTail {
            pod: pod.to_owned(),
            container: "app".to_owned(),
            lines: vec![line.to_owned()],
        };
        let pods = ["web-a", "web-b", "web-c"];
        let back_off = |pod: &&str| {
            format!("BackOff: Back-off restarting failed container app in pod {pod}_shop(1-2-3)")
        };
        let failed_mount =
            |pod: &&str| format!("FailedMount: no volume in pod {pod}_shop(1-2-3), tried again");
        let digest = FailureDigest {
            containers: vec![container("web-a", 1), container("web-b", 2), container("web-c", 1)],
            events: pods.iter().map(back_off).chain(pods.iter().map(failed_mount)).collect(),
            logs: vec![tail("web-a", "no database"), tail("web-b", "no database"), tail("web-c", "no cache")],
        };
        assert_eq!(
            digest.to_string(),
            "pod web-a and 2 others, container app: waiting: CrashLoopBackOff, last Error (exit code 1), restarted 2 times\n\
             event FailedMount: no volume, tried again\n\
             last lines of pods web-a and web-b, container app:\n  no database\n\
             last lines of pod web-c, container app:\n  no cache\n"
        );
    }
}
