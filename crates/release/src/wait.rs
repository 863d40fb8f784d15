//! Waiting for objects: what annotations ask for, said to the cluster's tracker.

use slipway_manifest::{ObjectRef, object};
use std::time::Duration;

use slipway_cluster::Cluster;
use slipway_cluster::track::{
    self, EarlyWatch, LogRules, ReadyRules, SeenObject, TrackError, TrackOptions, Tracker,
};
use slipway_event::{Events, NodeId};

use crate::failure::FailureCause;
use crate::resource::{FailMode, TrackingSettings};

/// The bad end of a wait, with what was collected about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub cause: FailureCause,
    pub message: String,
    /// What is to be said of the object, without its name; none where a request to the cluster failed.
    pub verdict: Option<String>,
}

impl From<TrackError> for NotReady {
    fn from(error: TrackError) -> Self {
        let digest = error.digest().map(ToString::to_string).unwrap_or_default();
        let with_digest = |text: &str| match digest.trim_end() {
            digest if digest.trim().is_empty() => text.to_owned(),
            digest => format!("{text}\n{digest}"),
        };
        let message = with_digest(&error.to_string());
        let verdict = error.verdict().map(|verdict| with_digest(&verdict));
        let cause = match &error {
            // The cluster kept it from being seen.
            TrackError::TimedOut { trouble: Some(error), .. } => FailureCause::Cluster(error.class),
            TrackError::TimedOut { trouble: None, .. } => FailureCause::Timeout,
            TrackError::Cluster(error) => FailureCause::Cluster(error.class),
            TrackError::NotReady { .. } | TrackError::Deleted { .. } => FailureCause::NotReady,
        };
        Self { cause, message, verdict }
    }
}

/// Waits for objects of one cluster; takes no place among mutations.
#[derive(Clone)]
pub struct ObjectWaiter(Tracker);

impl ObjectWaiter {
    pub fn new(cluster: Cluster, events: Events) -> Self {
        Self::with_options(cluster, events, TrackOptions::default())
    }

    pub fn with_options(cluster: Cluster, events: Events, options: TrackOptions) -> Self {
        Self(Tracker::new(cluster, events, options))
    }

    /// Watches a place before something is written there that may go again by itself.
    pub async fn watch_early(&self, at: &ObjectRef) -> Result<EarlyWatch, slipway_cluster::Error> {
        self.0.watch_early(at).await
    }

    /// Waits until an object is ready, fails, or `timeout` passes. What is told meanwhile is told about the
    /// operation `node`.
    pub async fn wait_ready(
        &self,
        at: &ObjectRef,
        tracking: &TrackingSettings,
        is_hook: bool,
        timeout: Option<Duration>,
        node: Option<&str>,
    ) -> Result<(), NotReady> {
        self.wait_ready_since(at, tracking, is_hook, timeout, node, None).await
    }

    /// As [`wait_ready`](Self::wait_ready), for what was just written.
    pub async fn wait_ready_since(
        &self,
        at: &ObjectRef,
        tracking: &TrackingSettings,
        is_hook: bool,
        timeout: Option<Duration>,
        node: Option<&str>,
        seen: Option<SeenObject>,
    ) -> Result<(), NotReady> {
        let uid = seen.as_ref().and_then(|seen| object::uid(seen.written.as_ref()?)).map(str::to_owned);
        let rules = ReadyRules {
            node: node.map(NodeId::from),
            just_written: seen.is_some(),
            uid,
            ..ready_rules(tracking, is_hook, timeout)
        };
        Ok(self.0.wait_ready_since(at, &rules, seen.unwrap_or_default()).await?)
    }

    /// Waits until an object is there.
    pub async fn wait_present(&self, at: &ObjectRef, timeout: Duration) -> Result<(), NotReady> {
        Ok(self.0.wait_present(at, timeout).await?)
    }

    /// Waits until an object, or the one of that uid, is gone.
    pub async fn wait_absent(
        &self,
        at: &ObjectRef,
        uid: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(), NotReady> {
        Ok(self.0.wait_absent(at, uid, timeout).await?)
    }
}

/// The wishes of annotations as rules of the tracker.
fn ready_rules(tracking: &TrackingSettings, is_hook: bool, timeout: Option<Duration>) -> ReadyRules {
    ReadyRules {
        fail_mode: match tracking.fail_mode {
            FailMode::Fail => track::FailMode::Fail,
            FailMode::Ignore => track::FailMode::Ignore,
        },
        allowed_failures_per_replica: tracking
            .failures_allowed_per_replica
            .map(|allowed| u32::try_from(allowed).unwrap_or(u32::MAX)),
        no_activity_timeout: tracking.no_activity_timeout.unwrap_or_default(),
        ignore_probe_failures: tracking.ignore_probe_failures.clone(),
        logs: log_rules(tracking),
        show_events: tracking.service_messages,
        ready_when: tracking.ready_when.clone(),
        failed_when: tracking.failed_when.clone(),
        timeout,
        hook: is_hook,
        node: None,
        uid: None,
        just_written: false,
    }
}

/// The log lines annotations want passed on.
pub(crate) fn log_rules(tracking: &TrackingSettings) -> LogRules {
    LogRules {
        skip: tracking.skip_logs,
        skip_containers: tracking.skip_logs_for.iter().cloned().collect(),
        only_containers: tracking.logs_only_for.iter().cloned().collect(),
        regex: tracking.log_regex.clone(),
        regex_for: tracking.log_regex_for.clone(),
        regex_skip: tracking.log_regex_skip.clone(),
        regex_skip_for: tracking.log_regex_skip_for.clone(),
        replicas: tracking
            .logs_replicas
            .map_or(1, |replicas| usize::try_from(replicas).unwrap_or(usize::MAX)),
    }
}
