//! Waiting for objects: what annotations ask for, said to the cluster's tracker.

use std::time::Duration;

use regex::Regex;
use slipway_cluster::track::{
    self, Condition, LogRules, ReadyRules, TrackError, TrackOptions, Tracker, Vigil,
};
use slipway_cluster::{At, Cluster};
use slipway_event::Events;

use crate::failure::Cause;
use crate::resource::{FailMode, Tracking};

/// Why a wait ended badly, with what was collected about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub cause: Cause,
    pub message: String,
}

impl From<TrackError> for NotReady {
    fn from(error: TrackError) -> Self {
        let mut message = error.to_string();
        let digest = error.digest().map(ToString::to_string).unwrap_or_default();
        if !digest.trim().is_empty() {
            message.push('\n');
            message.push_str(digest.trim_end());
        }
        let cause = match &error {
            // The cluster kept it from being seen.
            TrackError::TimedOut { trouble: Some(error), .. } => Cause::Cluster(error.class),
            TrackError::TimedOut { trouble: None, .. } => Cause::Timeout,
            TrackError::Cluster(error) => Cause::Cluster(error.class),
            TrackError::NotReady { .. } | TrackError::Deleted { .. } => Cause::NotReady,
        };
        Self { cause, message }
    }
}

/// What is known of an object since it was written.
pub struct Written {
    pub uid: Option<String>,
    /// What its place was watched with meanwhile.
    pub vigil: Option<Vigil>,
}

/// Waits for objects of one cluster; takes no place among mutations.
#[derive(Clone)]
pub struct Waiter(Tracker);

impl Waiter {
    pub fn new(cluster: Cluster, events: Events) -> Self {
        Self::with_options(cluster, events, TrackOptions::default())
    }

    pub fn with_options(cluster: Cluster, events: Events, options: TrackOptions) -> Self {
        Self(Tracker::new(cluster, events, options))
    }

    /// Watches a place before something is written there that may go again by itself.
    pub async fn attend(&self, at: &At) -> Result<Vigil, slipway_cluster::Error> {
        self.0.attend(at).await
    }

    /// Waits until an object is ready, fails, or `timeout` passes. What is told meanwhile is told about the
    /// operation `node`.
    pub async fn ready(
        &self,
        at: &At,
        tracking: &Tracking,
        is_hook: bool,
        timeout: Option<Duration>,
        node: Option<&str>,
    ) -> Result<(), NotReady> {
        self.ready_since(at, tracking, is_hook, timeout, node, None).await
    }

    /// As [`ready`](Self::ready), for what was just written.
    pub async fn ready_since(
        &self,
        at: &At,
        tracking: &Tracking,
        is_hook: bool,
        timeout: Option<Duration>,
        node: Option<&str>,
        written: Option<Written>,
    ) -> Result<(), NotReady> {
        let mut rules = ReadyRules {
            node: node.map(str::to_owned),
            just_written: written.is_some(),
            ..rules(tracking, is_hook, timeout)
        };
        let mut seen = None;
        if let Some(Written { uid, vigil }) = written {
            (rules.uid, seen) = (uid, vigil);
        }
        Ok(self.0.ready_since(at, &rules, seen).await?)
    }

    /// Waits until an object is there.
    pub async fn present(&self, at: &At, timeout: Duration) -> Result<(), NotReady> {
        Ok(self.0.present(at, timeout).await?)
    }

    /// Waits until an object, or the one of that uid, is gone.
    pub async fn absent(
        &self,
        at: &At,
        uid: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(), NotReady> {
        Ok(self.0.absent(at, uid, timeout).await?)
    }
}

/// What annotations ask for, in the tracker's words. What does not parse was told when it was read.
fn rules(tracking: &Tracking, is_hook: bool, timeout: Option<Duration>) -> ReadyRules {
    let condition = |text: &Option<String>| text.as_deref().and_then(|text| Condition::parse(text).ok());
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
        ready_when: condition(&tracking.ready_when),
        failed_when: condition(&tracking.failed_when),
        timeout,
        hook: is_hook,
        node: None,
        uid: None,
        just_written: false,
    }
}

/// Which lines annotations want passed on.
pub(crate) fn log_rules(tracking: &Tracking) -> LogRules {
    let regex = |text: &Option<String>| text.as_deref().and_then(|text| Regex::new(text).ok());
    let regexes = |texts: &std::collections::BTreeMap<String, String>| {
        texts.iter().filter_map(|(key, text)| Some((key.clone(), Regex::new(text).ok()?))).collect()
    };
    LogRules {
        skip: tracking.skip_logs,
        skip_containers: tracking.skip_logs_for.iter().cloned().collect(),
        only_containers: tracking.logs_only_for.iter().cloned().collect(),
        regex: regex(&tracking.log_regex),
        regex_for: regexes(&tracking.log_regex_for),
        regex_skip: regex(&tracking.log_regex_skip),
        regex_skip_for: regexes(&tracking.log_regex_skip_for),
        replicas: tracking
            .logs_replicas
            .map_or(1, |replicas| usize::try_from(replicas).unwrap_or(usize::MAX)),
    }
}
