//! A short account of a failure: containers, events, last log lines.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef};

use super::failures::{waiting_message, without_account_details};
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureDigest {
    pub containers: Vec<FailingContainer>,
    /// The newest last.
    pub events: Vec<WarningEvent>,
    pub logs: Vec<LogTail>,
}

/// A container that waits or has failed, or a pod that no node takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingContainer {
    pub pod: String,
    /// Empty for a pod that no node takes: it has no containers yet.
    pub container: String,
    pub state: FailingState,
    pub restarts: i64,
}

/// The state of a container that waits or has failed. Prints as `waiting: ImagePullBackOff: no such image`,
/// `terminated: Error (exit code 1)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailingState {
    Waiting {
        reason: String,
        /// Empty where the reason says it all.
        message: String,
        /// The end of the container's run before.
        last: Option<ContainerEnd>,
    },
    Terminated(ContainerEnd),
    /// It runs and is not ready.
    Unready,
    /// No node takes the pod, for the reason of its condition.
    Unschedulable(String),
}

/// The end of a container's run. Prints as `Error (exit code 1)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEnd {
    pub reason: String,
    pub exit_code: i64,
}

/// A warning the cluster recorded. Prints as `Reason: message`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WarningEvent {
    pub reason: String,
    pub message: String,
}

/// The last log lines of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let mut told: Vec<PodGroup<'_, (&str, &FailingState), i64>> = Vec::new();
        for FailingContainer { pod, container, state, restarts } in &self.containers {
            PodGroup::add(&mut told, (container, state), pod, *restarts);
        }
        for PodGroup { fact: (container, state), pods, values: restarts } in &told {
            let again = match restarts.iter().max() {
                Some(1) => ", restarted once".to_owned(),
                Some(most @ 2..) => format!(", restarted {most} times"),
                _ => String::new(),
            };
            let whose = if container.is_empty() { String::new() } else { format!(", container {container}") };
            writeln!(f, "{}{whose}: {state}{again}", pods_text(pods))?;
        }
        let mut events: Vec<WarningEvent> = Vec::new();
        for event in self.events.iter().filter(|event| !self.is_known(event)) {
            let WarningEvent { reason, message } = event.clone();
            let message =
                self.containers.iter().fold(message, |message, one| without_pod(&message, &one.pod));
            let event = WarningEvent { reason, message };
            if !events.contains(&event) {
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
    /// Returns true if the state of a container or pod tells the same: the event about it adds nothing.
    fn is_known(&self, event: &WarningEvent) -> bool {
        self.containers.iter().any(|one| match (&one.state, event.reason.as_str()) {
            (FailingState::Waiting { reason, .. }, "BackOff") => reason.ends_with("BackOff"),
            (FailingState::Unschedulable(_), "FailedScheduling") => true,
            _ => false,
        })
    }
}

impl fmt::Display for FailingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { reason, message, last } => {
                write!(f, "waiting: {reason}")?;
                if !message.is_empty() {
                    write!(f, ": {message}")?;
                }
                last.iter().try_for_each(|last| write!(f, ", last {last}"))
            }
            Self::Terminated(end) => write!(f, "terminated: {end}"),
            Self::Unready => f.write_str("running, not ready"),
            Self::Unschedulable(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for ContainerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (exit code {})", self.reason, self.exit_code)
    }
}

impl fmt::Display for WarningEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
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

/// The message of an event without the pod it is about, which the kubelet writes as `in pod NAME_NAMESPACE(UID)`.
fn without_pod(message: &str, pod: &str) -> String {
    let place = format!(" in pod {pod}_");
    match message.split_once(&place) {
        Some((before, after)) => {
            let after = after.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => message.to_owned(),
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
            let end = |ended: &Value| ContainerEnd {
                reason: text_at(ended, "/reason").to_owned(),
                exit_code: ended["exitCode"].as_i64().unwrap_or(0),
            };
            let state = if state["waiting"].is_object() {
                FailingState::Waiting {
                    reason: text_at(&state["waiting"], "/reason").to_owned(),
                    message: waiting_message(&state["waiting"]).to_owned(),
                    last: last.is_object().then(|| end(last)),
                }
            } else if state["terminated"].is_object() {
                if state["terminated"]["exitCode"] == 0 {
                    return None;
                }
                FailingState::Terminated(end(&state["terminated"]))
            } else if status["ready"] == false {
                FailingState::Unready
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
        let state = FailingState::Unschedulable(super::status::condition_text(condition));
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
            let is_waiting = matches!(container.state, FailingState::Waiting { .. });
            (source, container.restarts > 0 && is_waiting)
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
        let mut events: Vec<(String, WarningEvent)> = events.into_iter().flatten().collect();
        events.sort();
        events.dedup_by(|a, b| a.1 == b.1);
        let surplus = events.len().saturating_sub(EVENTS);
        digest.events = events.into_iter().skip(surplus).map(|(_, event)| event).collect();
        digest.logs = words.into_iter().flatten().collect();
    }
    digest
}

/// The warnings about an object, each with its time.
async fn events_of(cluster: &Cluster, at: &ObjectRef, uid: &str) -> Vec<(String, WarningEvent)> {
    let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("", "v1", "Event")).await else { return Vec::new() };
    let options = ListOptions { fields: format!("involvedObject.uid={uid}"), ..ListOptions::default() };
    let Ok(listed) = cluster.list(&kind, at.namespace.as_deref(), &options).await else { return Vec::new() };
    let warnings = listed.items.iter().filter(|event| event["type"] != "Normal");
    warnings
        .map(|event| {
            let time = [text_at(event, "/lastTimestamp"), text_at(event, "/eventTime")];
            let time = time.into_iter().find(|time| !time.is_empty()).unwrap_or_default();
            let (reason, message) = (text_at(event, "/reason"), text_at(event, "/message"));
            let message = without_account_details(message).to_owned();
            (time.to_owned(), WarningEvent { reason: reason.to_owned(), message })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str, message: &str) -> WarningEvent {
        WarningEvent { reason: reason.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn a_pod_no_node_takes_is_told_once() {
        let pod = serde_json::json!({"metadata": {"name": "web-a"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"}]}});
        let digest = FailureDigest {
            containers: failing_containers(&pod),
            events: vec![
                event("FailedScheduling", "0/2 nodes are available"),
                event("FailedCreate", "BackOff: not what it is about"),
            ],
            logs: Vec::new(),
        };
        assert_eq!(
            digest.to_string(),
            "pod web-a: Unschedulable: 0/2 nodes are available\n\
             event FailedCreate: BackOff: not what it is about\n"
        );
    }

    #[test]
    fn what_is_true_of_several_pods_is_told_once() {
        let container = |pod: &str, restarts| FailingContainer {
            pod: pod.to_owned(),
            container: "app".to_owned(),
            state: FailingState::Waiting {
                reason: "CrashLoopBackOff".to_owned(),
                message: String::new(),
                last: Some(ContainerEnd { reason: "Error".to_owned(), exit_code: 1 }),
            },
            restarts,
        };
        let tail = |pod: &str, line: &str| LogTail {
            pod: pod.to_owned(),
            container: "app".to_owned(),
            lines: vec![line.to_owned()],
        };
        let pods = ["web-a", "web-b", "web-c"];
        let back_off = |pod: &&str| {
            event("BackOff", &format!("Back-off restarting failed container app in pod {pod}_shop(1-2-3)"))
        };
        let failed_mount =
            |pod: &&str| event("FailedMount", &format!("no volume in pod {pod}_shop(1-2-3), tried again"));
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
