//! Pods of a followed object: their logs, forwarded line by line, and those that had failed already.

use slipway_manifest::ObjectRef;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use slipway_event::{Event, LogStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{TrackingSession, WorkloadKind, text_at};

use crate::Deadline;
use crate::logs::{self, LogSource};
use crate::observe::ObservedState;
use crate::track::{ReadyRules, Tracker};
use crate::watch::WatchHandle;

/// Time limit for reading the last lines of a finished workload.
const FINAL_LOGS_WAIT: Duration = Duration::from_secs(2);
/// Time limit for reading the pods of a workload that failed before they were followed.
const FAILED_PODS_WAIT: Duration = Duration::from_secs(5);
/// The time a workload that runs on has to become ready before the logs of its pods are followed: those of one that is
/// ready by then are read once.
const FOLLOW_AFTER: Duration = Duration::from_secs(1);
/// The most containers of one workload whose logs are followed.
const MOST_LOGS: usize = 50;

impl TrackingSession<'_> {
    /// Follows the logs of the first pods.
    pub(super) fn follow_pod_logs(&mut self, pods: &[Arc<Value>]) {
        if !self.tracker.options.logs || self.rules.logs.skip {
            return;
        }
        let patience = if self.ends_by_itself() { Duration::ZERO } else { FOLLOW_AFTER };
        for pod in pods {
            let name = text_at(pod, "/metadata/name");
            if !self.log_pods.contains(name) && self.log_pods.len() >= self.rules.logs.replicas {
                continue;
            }
            let lists = ["initContainerStatuses", "containerStatuses"];
            let statuses =
                lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
            for status in statuses {
                let container = text_at(status, "/name");
                let has_run = ["/state/running", "/state/terminated", "/lastState/terminated"]
                    .iter()
                    .any(|state| status.pointer(state).is_some_and(Value::is_object));
                let source = LogSource {
                    namespace: text_at(pod, "/metadata/namespace").to_owned(),
                    pod: name.to_owned(),
                    container: container.to_owned(),
                };
                let is_wanted = self.rules.logs.wants_container(container);
                if !has_run || !is_wanted || self.logs.contains_key(&source) || self.logs.len() >= MOST_LOGS {
                    continue;
                }
                self.log_pods.insert(name.to_owned());
                let task = tokio::spawn(forward_lines(
                    self.tracker.clone(),
                    ObjectRef::of(pod),
                    source.clone(),
                    self.rules.clone(),
                    self.enough.clone(),
                    patience,
                ));
                self.logs.insert(source, task);
            }
        }
    }

    /// Returns true if the containers end when their work is done: their logs are read to the end.
    fn ends_by_itself(&self) -> bool {
        matches!(self.workload, WorkloadKind::Job | WorkloadKind::Pod)
    }

    /// Follows the logs of a workload that became ready before any of its pods was seen.
    pub(super) async fn find_pods(&mut self, object: Option<&Value>) {
        let is_quiet = !self.tracker.options.logs || self.rules.logs.skip || self.rules.logs.replicas == 0;
        let (Some(object), false) = (object, is_quiet || !self.log_pods.is_empty()) else { return };
        let has_pods = match self.workload {
            WorkloadKind::None | WorkloadKind::Pod => false,
            WorkloadKind::DaemonSet => object["status"]["desiredNumberScheduled"].as_i64() > Some(0),
            WorkloadKind::Job => true,
            _ => object["spec"]["replicas"].as_i64() != Some(0),
        };
        // An object that was ready and not written is left alone.
        if !has_pods || (self.pods.is_none() && !self.rules.just_written) {
            return;
        }
        // The pods of a deleted object went with it.
        if let ObservedState::Absent = self.observer.current_state() {
            return;
        }
        self.start_watching(Some(object)).await;
        let has_begun = |pod: &Arc<Value>| !matches!(text_at(pod, "/status/phase"), "" | "Pending");
        let deadline = Instant::now() + FINAL_LOGS_WAIT;
        while !self.is_pod_access_denied() {
            let pods = self.own_pods(object);
            self.follow_pod_logs(&pods);
            let woken = tokio::time::timeout_at(deadline, self.observer.wake.notified());
            if !self.log_pods.is_empty() || pods.iter().any(has_begun) || woken.await.is_err() {
                return;
            }
        }
    }

    /// Looks at the pods of an object that had failed before they were followed: they know why.
    pub(super) async fn find_failed_pods(&mut self, object: Option<&Value>) {
        let is_over = self.tracker.cluster.deadline().is_some_and(Deadline::has_passed);
        let has_pods = !matches!(self.workload, WorkloadKind::None | WorkloadKind::Pod);
        let (Some(object), true, false) = (object, has_pods, is_over) else { return };
        if let ObservedState::Absent = self.observer.current_state() {
            return;
        }
        self.start_watching(Some(object)).await;
        let deadline = Instant::now() + FAILED_PODS_WAIT;
        let is_read = |watched: &Option<WatchHandle>| watched.as_ref().is_none_or(WatchHandle::is_synced);
        while !(self.is_pod_access_denied() || is_read(&self.pods) && is_read(&self.sets)) {
            if tokio::time::timeout_at(deadline, self.observer.wake.notified()).await.is_err() {
                break;
            }
        }
        self.observe_pods(object);
    }

    fn is_pod_access_denied(&self) -> bool {
        let denied =
            |watched: &Option<WatchHandle>| watched.as_ref().is_some_and(|w| w.denied_error().is_some());
        self.pods.is_none() || denied(&self.pods) || denied(&self.sets)
    }

    /// Reads the last lines of workloads that ended, and the lines so far of others.
    pub(super) async fn finish_logs(&mut self) {
        if self.logs.is_empty() {
            return;
        }
        if !self.ends_by_itself() {
            self.enough.cancel();
        }
        let tasks = self.logs.values_mut();
        let _ = tokio::time::timeout(FINAL_LOGS_WAIT, join_all(tasks)).await;
        self.logs.retain(|_, task| !task.is_finished());
    }
}

/// Forwards the lines of one container until it has ended or `enough` fires.
async fn forward_lines(
    tracker: Tracker,
    pod: ObjectRef,
    source: LogSource,
    rules: ReadyRules,
    enough: CancellationToken,
    patience: Duration,
) {
    let object = pod.clone();
    let mut pass = |line: logs::ContainerLogLine| {
        if rules.logs.wants_line(&source.container, &line.text) {
            tracker.events.send(Event::Log {
                node: rules.node.clone(),
                object: Some(object.clone()),
                container: Some(source.container.clone()),
                stream: LogStream::Stdout,
                line: line.text,
            });
        }
    };
    let options = logs::ContainerLogOptions::default();
    let result =
        logs::follow_logs_until(&tracker.cluster, &source, &options, &enough, patience, &mut pass).await;
    if let Err(e) = result
        && !e.is_absent()
    {
        tracker.warn_once("cannot read logs", &e);
    }
}
