//! The engine of single releases as a stack sees it, and the ways it can fail.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_cluster::Deadline;
use slipway_event::Events;
use slipway_graph::{Classify, RetryClass};
use slipway_journal::digest;
use slipway_policy::PolicyReport;
use tokio_util::sync::CancellationToken;

use crate::plan::{ClusterRef, Command, Node};
use crate::record::ErrorRecord;

/// Applies, deletes and looks at one release. All calls may run at once.
pub trait Deploy: Sync {
    /// Installs or upgrades a release and waits as its settings say.
    fn apply(
        &self,
        node: &Node,
        attempt: &ReleaseAttempt<'_>,
    ) -> impl Future<Output = Result<AppliedRelease, NodeError>> + Send;

    /// Uninstalls a release. One that is not there is success.
    fn delete(
        &self,
        node: &Node,
        attempt: &ReleaseAttempt<'_>,
    ) -> impl Future<Output = Result<AppliedRelease, NodeError>> + Send;

    /// Reads what is recorded of a release in its cluster.
    fn status(&self, at: &At<'_>) -> impl Future<Output = Result<LiveRelease, NodeError>> + Send;

    /// Marks a revision a dead process left pending as failed.
    fn recover(
        &self,
        at: &At<'_>,
        revision: u64,
        why: &str,
    ) -> impl Future<Output = Result<(), NodeError>> + Send;

    /// Finds what an apply would change; writes nothing.
    fn plan(
        &self,
        node: &Node,
        command: Command,
    ) -> impl Future<Output = Result<ReleasePreview, NodeError>> + Send;

    /// Compares live objects with what was applied; writes nothing.
    fn verify(&self, node: &Node) -> impl Future<Output = Result<ReleaseVerdict, NodeError>> + Send;

    /// Brings a chart that is not on this machine here as an archive; a version may be a constraint.
    fn fetch(
        &self,
        chart: &str,
        version: Option<&str>,
    ) -> impl Future<Output = Result<PathBuf, NodeError>> + Send {
        let _ = version;
        let message = format!("the chart {chart} is not on this machine, and nobody can bring it");
        async move { Err(NodeError::new(FailureClass::Invalid, message)) }
    }
}

/// The place a release is recorded in.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub cluster: &'a ClusterRef,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The time when requests about it give up.
    pub deadline: Option<&'a Deadline>,
}

impl<'a> At<'a> {
    /// The place a node of a plan is recorded in.
    pub fn of(node: &'a Node) -> Self {
        Self { cluster: &node.cluster, namespace: &node.namespace, name: &node.name, deadline: None }
    }

    /// The same, until a deadline.
    pub fn until(self, deadline: Option<&'a Deadline>) -> Self {
        Self { deadline, ..self }
    }
}

/// One attempt at a release.
#[derive(Clone)]
pub struct ReleaseAttempt<'a> {
    pub run_id: &'a str,
    pub number: u32,
    /// True if this run started it before and died.
    pub interrupted: bool,
    pub cancel: CancellationToken,
    /// The time when everything of this attempt gives up.
    pub deadline: Option<Deadline>,
    /// The stream of the release; every event is marked with the release's id.
    pub events: Events,
}

/// The outcome of an attempt that went well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedRelease {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    pub changed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The record of a release in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveRelease {
    Absent,
    Deployed {
        revision: u64,
    },
    Failed {
        revision: u64,
    },
    /// `pending-install`, `pending-upgrade`, `pending-rollback`.
    Pending {
        revision: u64,
        status: String,
    },
    Uninstalling {
        revision: u64,
    },
}

/// The changes an apply would make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePreview {
    pub create: usize,
    pub update: usize,
    pub recreate: usize,
    pub delete: usize,
    /// True if a revision would be made, be it without a change of objects.
    pub revision: bool,
    /// The differences for people to read.
    pub diff: String,
    /// The policies' results, where there are policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
}

impl ReleasePreview {
    pub fn is_empty(&self) -> bool {
        !self.revision && self.create + self.update + self.recreate + self.delete == 0
    }
}

/// The comparison of a release with what was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseVerdict {
    /// There is no such release.
    pub absent: bool,
    /// Objects that were changed or removed behind the release's back.
    pub drifted: Vec<String>,
    /// Objects that are not ready.
    pub unready: Vec<String>,
}

impl ReleaseVerdict {
    /// Tells that everything is there and as it was applied.
    pub fn is_clean(&self) -> bool {
        !self.absent && self.drifted.is_empty() && self.unready.is_empty()
    }
}

/// The kind of a failure.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureClass {
    RateLimit,
    #[serde(rename = "SERVER_5XX")]
    Server5xx,
    Transport,
    Conflict,
    HelmBusy,
    WaitTimeout,
    Invalid,
    ImmutableField,
    Forbidden,
    Unauthenticated,
    Secret,
    UnmetNeed,
    Policy,
    Verify,
    Hook,
    Canceled,
    Internal,
}

impl FailureClass {
    /// Every class, for words on a command line.
    pub const ALL: [Self; 17] = [
        Self::RateLimit,
        Self::Server5xx,
        Self::Transport,
        Self::Conflict,
        Self::HelmBusy,
        Self::WaitTimeout,
        Self::Invalid,
        Self::ImmutableField,
        Self::Forbidden,
        Self::Unauthenticated,
        Self::Secret,
        Self::UnmetNeed,
        Self::Policy,
        Self::Verify,
        Self::Hook,
        Self::Canceled,
        Self::Internal,
    ];

    /// The word records use.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "RATE_LIMIT",
            Self::Server5xx => "SERVER_5XX",
            Self::Transport => "TRANSPORT",
            Self::Conflict => "CONFLICT",
            Self::HelmBusy => "HELM_BUSY",
            Self::WaitTimeout => "WAIT_TIMEOUT",
            Self::Invalid => "INVALID",
            Self::ImmutableField => "IMMUTABLE_FIELD",
            Self::Forbidden => "FORBIDDEN",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Secret => "SECRET",
            Self::UnmetNeed => "UNMET_NEED",
            Self::Policy => "POLICY",
            Self::Verify => "VERIFY",
            Self::Hook => "HOOK",
            Self::Canceled => "CANCELED",
            Self::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The failure of an attempt at a release. The message holds no secret: it is recorded.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{class}: {message}")]
pub struct NodeError {
    pub class: FailureClass,
    pub message: String,
    /// The error it was made from, for whoever follows the chain.
    #[source]
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    pub retry_after: Option<Duration>,
    /// True if another attempt is worth making, where that is not for the class to say.
    pub retryable: Option<bool>,
}

impl NodeError {
    /// Starts an error.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), cause: None, retry_after: None, retryable: None }
    }

    /// The same with the error it was made from.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// The form in which records keep it; failures that differ only in names of the moment have one digest.
    pub(crate) fn record(&self) -> ErrorRecord {
        let text = format!("{}\0{}", self.class, steady(&self.message));
        ErrorRecord {
            class: self.class.name().to_owned(),
            message: self.message.clone(),
            digest: digest::bytes(text.as_bytes()),
        }
    }
}

/// A message without ids, times, addresses and counts.
fn steady(message: &str) -> String {
    let part_of_word = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
    let mut steady = String::with_capacity(message.len());
    for word in message.split_inclusive(|c| !part_of_word(c)) {
        let (text, end) = match word.char_indices().next_back().filter(|(_, last)| !part_of_word(*last)) {
            Some((at, _)) => word.split_at(at),
            None => (word, ""),
        };
        steady.push_str(if text.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { text });
        steady.push_str(end);
    }
    steady
}

impl Classify for NodeError {
    fn class(&self) -> RetryClass {
        match (self.retryable, self.class) {
            (_, FailureClass::Canceled) => RetryClass::Cancelled,
            (Some(true), _) => RetryClass::Transient,
            (Some(false), _) => RetryClass::Permanent,
            (None, FailureClass::RateLimit) => RetryClass::Throttled,
            (None, FailureClass::Server5xx | FailureClass::Transport | FailureClass::HelmBusy) => {
                RetryClass::Transient
            }
            (None, FailureClass::Conflict) => RetryClass::Conflict,
            (None, FailureClass::WaitTimeout) => RetryClass::Timeout,
            (None, _) => RetryClass::Permanent,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl AppliedRelease {
    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_kind_have_one_digest() {
        let digest = |message: &str| NodeError::new(FailureClass::Transport, message).record().digest;
        assert_eq!(
            digest("dial tcp 10.0.0.1:443: refused after 3s (3f2c9a1b)"),
            digest("dial tcp 10.0.0.2:443: refused after 41s (99aa00bb)")
        );
        assert_ne!(digest("refused"), digest("reset"));
    }

    #[test]
    fn only_passing_failures_are_tried_again() {
        for class in FailureClass::ALL {
            let transient =
                slipway_graph::RetryClasses::TRANSIENT.contains(NodeError::new(class, "x").class());
            let expected = matches!(
                class,
                FailureClass::RateLimit
                    | FailureClass::Server5xx
                    | FailureClass::Transport
                    | FailureClass::Conflict
                    | FailureClass::HelmBusy
            );
            assert_eq!(transient, expected, "{class}");
        }
    }
}
