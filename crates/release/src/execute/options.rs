//! Settings of a run.

use std::time::Duration;

use slipway_cluster::{Cluster, Deadline};

use super::RunTimeout;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct ExecuteOptions {
    /// Limit for changes under way at once; waiting does not count.
    pub parallelism: usize,
    /// Time limit for the whole run, from its first request on. Recording a failure comes after it.
    pub timeout: Option<RunTimeout>,
    /// Goes back to the last good revision when a run fails, or deletes the release if there is none.
    pub auto_rollback: bool,
    /// Deletes the objects a run that failed has created.
    pub cleanup_on_fail: bool,
    /// Limit for revisions that are kept; 0 is none.
    pub history_limit: u32,
    /// Time limit for one object to become ready unless it says; none is five minutes, or the `timeout`
    /// of the whole if there is one, and zero as long as it takes.
    pub readiness_timeout: Option<Duration>,
    pub presence_timeout: Option<Duration>,
    pub deletion_timeout: Option<Duration>,
    /// Time limit for recording a failure and cleaning up.
    pub grace: Duration,
    /// Deletes the namespace as well.
    pub delete_namespace: bool,
    /// Passes on what containers say.
    pub logs: bool,
    /// API groups whose objects are ready once applied, where nobody acts on them.
    pub assume_ready: Vec<String>,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self {
            parallelism: 30,
            timeout: None,
            auto_rollback: false,
            cleanup_on_fail: false,
            history_limit: 10,
            readiness_timeout: None,
            presence_timeout: None,
            deletion_timeout: None,
            grace: Duration::from_secs(30),
            delete_namespace: false,
            logs: true,
            assume_ready: Vec::new(),
        }
    }
}

impl ExecuteOptions {
    /// The cluster within the time limit of the run, which counts from now unless the cluster has one that is sooner.
    pub(crate) fn limit_cluster(&self, cluster: &Cluster) -> Cluster {
        match &self.timeout {
            Some(timeout) => cluster.with_deadline(Deadline::after(timeout.duration())),
            None => cluster.clone(),
        }
    }
}
