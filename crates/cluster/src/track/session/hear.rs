//! What the pods of a followed object say, passed on line by line.

use slipway_manifest::ObjectRef;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use slipway_event::{Event, LogStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Session, Workload, text};

use crate::logs::{self, Source};
use crate::observe::Seen;
use crate::track::{ReadyRules, Tracker};
use crate::watch::Watched;

/// How long the last words of a finished workload are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How many containers of one workload are listened to at most.
const MOST_LOGS: usize = 50;

impl Session<'_> {
    /// Follows what the first pods say.
    pub(super) fn listen(&mut self, pods: &[Arc<Value>]) {
        if !self.tracker.options.logs || self.rules.logs.skip {
            return;
        }
        for pod in pods {
            let name = text(pod, "/metadata/name");
            if !self.log_pods.contains(name) && self.log_pods.len() >= self.rules.logs.replicas {
                continue;
            }
            let lists = ["initContainerStatuses", "containerStatuses"];
            let statuses =
                lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
            for status in statuses {
                let container = text(status, "/name");
                let has_run = ["/state/running", "/state/terminated", "/lastState/terminated"]
                    .iter()
                    .any(|state| status.pointer(state).is_some_and(Value::is_object));
                let source = Source {
                    namespace: text(pod, "/metadata/namespace").to_owned(),
                    pod: name.to_owned(),
                    container: container.to_owned(),
                };
                let is_wanted = self.rules.logs.wants_container(container);
                if !has_run || !is_wanted || self.logs.contains_key(&source) || self.logs.len() >= MOST_LOGS {
                    continue;
                }
                self.log_pods.insert(name.to_owned());
                let task = tokio::spawn(pass_on(
                    self.tracker.clone(),
                    ObjectRef::of(pod),
                    source.clone(),
                    self.rules.clone(),
                    self.enough.clone(),
                ));
                self.logs.insert(source, task);
            }
        }
    }

    /// Listens to the pods of a workload that became ready before any of them was seen.
    pub(super) async fn find_pods(&mut self, object: Option<&Value>) {
        let is_quiet = !self.tracker.options.logs || self.rules.logs.skip || self.rules.logs.replicas == 0;
        let (Some(object), false) = (object, is_quiet || !self.log_pods.is_empty()) else { return };
        let has_pods = match self.workload {
            Workload::None | Workload::Pod => false,
            Workload::DaemonSet => object["status"]["desiredNumberScheduled"].as_i64() > Some(0),
            Workload::Job => true,
            _ => object["spec"]["replicas"].as_i64() != Some(0),
        };
        // What was ready when nobody had touched it is left alone.
        if !has_pods || (self.pods.is_none() && !self.rules.just_written) {
            return;
        }
        // Its pods went with what is gone.
        if let Seen::Absent = self.observer.seen() {
            return;
        }
        self.start_watching(Some(object)).await;
        let has_begun = |pod: &Arc<Value>| !matches!(text(pod, "/status/phase"), "" | "Pending");
        let deadline = Instant::now() + LAST_WORDS;
        while !self.is_denied_pods() {
            let pods = self.own_pods(object);
            self.listen(&pods);
            let woken = tokio::time::timeout_at(deadline, self.observer.wake.notified());
            if !self.log_pods.is_empty() || pods.iter().any(has_begun) || woken.await.is_err() {
                return;
            }
        }
    }

    fn is_denied_pods(&self) -> bool {
        let denied = |watched: &Option<Watched>| watched.as_ref().is_some_and(|w| w.denied().is_some());
        self.pods.is_none() || denied(&self.pods) || denied(&self.sets)
    }

    /// Lets workloads that ended say their last words, and others what they have said so far.
    pub(super) async fn hear_out(&mut self) {
        if self.logs.is_empty() {
            return;
        }
        if !matches!(self.workload, Workload::Job | Workload::Pod) {
            self.enough.cancel();
        }
        let tasks = self.logs.values_mut();
        let _ = tokio::time::timeout(LAST_WORDS, join_all(tasks)).await;
        self.logs.retain(|_, task| !task.is_finished());
    }
}

/// Passes on the lines of one container until it is over or was heard enough.
async fn pass_on(
    tracker: Tracker,
    pod: ObjectRef,
    source: Source,
    rules: ReadyRules,
    enough: CancellationToken,
) {
    let object = pod.clone();
    let mut pass = |line: logs::Line| {
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
    let options = logs::Options::default();
    let result = logs::follow_until(&tracker.cluster, &source, &options, &enough, &mut pass).await;
    if let Err(e) = result
        && !e.is_absent()
    {
        tracker.warn("cannot read logs", &e);
    }
}
