//! The state of a run, folded from its events: what is shown live and what is rebuilt later are one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_graph::NodeTotals;

use crate::event::{EventType, RunEvent};

/// The status of a run: where it stands, in the words of records. `event::RunOutcome` says how one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    #[default]
    Running,
    Succeeded,
    Failed,
    Canceled,
    Interrupted,
}

/// The status of a node: where it stands, in the words of records. `event::NodeOutcome` says how one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    #[default]
    Planned,
    Queued,
    Running,
    Retrying,
    Succeeded,
    Failed,
    Blocked,
    Skipped,
    Canceled,
}

impl NodeStatus {
    /// Tells that nothing more will come of it in this run.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Blocked | Self::Skipped | Self::Canceled)
    }
}

macro_rules! shown_in_lower_case {
    ($($type:ty),*) => {$(
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&format!("{self:?}").to_lowercase())
            }
        }
    )*};
}
shown_in_lower_case!(RunStatus, NodeStatus);

/// One node of a summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    pub status: NodeStatus,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The reason why it was blocked or skipped, or anything else worth saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip)]
    started: Option<Timestamp>,
}

/// `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub api_version: String,
    pub run_id: String,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(with = "crate::totals")]
    #[schemars(with = "crate::totals::KtlTotals")]
    pub totals: NodeTotals,
    pub nodes: BTreeMap<String, NodeSummary>,
}

impl Summary {
    /// Starts the summary of a run in which nothing happened yet; `format` names the form of its files.
    pub fn new<'n>(format: &str, run_id: &str, nodes: impl IntoIterator<Item = &'n str>) -> Self {
        let nodes = nodes.into_iter().map(|id| (id.to_owned(), NodeSummary::default())).collect();
        let mut summary =
            Self { api_version: format.to_owned(), run_id: run_id.to_owned(), nodes, ..Self::default() };
        summary.count();
        summary
    }

    /// Takes note of all events of a log.
    pub fn replay(mut self, events: &[RunEvent]) -> Self {
        events.iter().for_each(|event| self.take(event));
        self
    }

    /// The status of a node; one nobody knows is planned.
    pub fn status_of(&self, id: &str) -> NodeStatus {
        self.nodes.get(id).map(|node| node.status).unwrap_or_default()
    }

    /// The number of nodes that are not done.
    pub fn remaining(&self) -> usize {
        self.nodes.values().filter(|node| node.status != NodeStatus::Succeeded).count()
    }

    /// Takes note of an event.
    pub fn take(&mut self, event: &RunEvent) {
        self.updated_at = Some(event.ts);
        match event.kind {
            EventType::RunStarted => {
                self.started_at.get_or_insert(event.ts);
                self.status = RunStatus::Running;
            }
            EventType::RunResumed => {
                self.started_at.get_or_insert(event.ts);
                self.status = RunStatus::Running;
                self.ended_at = None;
                for node in self.nodes.values_mut().filter(|node| node.status != NodeStatus::Succeeded) {
                    // What was left running is not running now.
                    let attempt = node.attempt;
                    *node = NodeSummary { attempt, ..NodeSummary::default() };
                }
            }
            EventType::RunCompleted => {
                self.ended_at = Some(event.ts);
                let status = event.fields.get("status").cloned().unwrap_or_default();
                self.status = serde_json::from_value(status).unwrap_or(RunStatus::Failed);
            }
            EventType::RunInterrupted => self.status = RunStatus::Interrupted,
            _ => {}
        }
        if let Some(node) = event.node_id.as_ref().and_then(|id| self.nodes.get_mut(id)) {
            node.take(event);
        }
        self.count();
    }

    fn count(&mut self) {
        let mut totals = NodeTotals::default();
        for node in self.nodes.values() {
            *match node.status {
                NodeStatus::Planned | NodeStatus::Queued => &mut totals.waiting,
                NodeStatus::Running | NodeStatus::Retrying => &mut totals.running,
                NodeStatus::Succeeded => &mut totals.succeeded,
                NodeStatus::Failed => &mut totals.failed,
                NodeStatus::Blocked => &mut totals.blocked,
                NodeStatus::Skipped => &mut totals.skipped,
                NodeStatus::Canceled => &mut totals.cancelled,
            } += 1;
        }
        self.totals = totals;
    }
}

impl NodeSummary {
    fn take(&mut self, event: &RunEvent) {
        self.attempt = self.attempt.max(match event.kind {
            EventType::NodeRetryScheduled => 0,
            _ => event.attempt,
        });
        let state = match event.kind {
            EventType::NodeQueued => NodeStatus::Queued,
            EventType::NodeRunning => NodeStatus::Running,
            EventType::NodeFailed => NodeStatus::Failed,
            EventType::NodeRetryScheduled => NodeStatus::Retrying,
            EventType::NodeSucceeded => NodeStatus::Succeeded,
            EventType::NodeBlocked => NodeStatus::Blocked,
            EventType::NodeSkipped => NodeStatus::Skipped,
            EventType::NodeCanceled => NodeStatus::Canceled,
            EventType::NodeRecovered => {
                self.note.clone_from(&event.message);
                return;
            }
            _ => return,
        };
        self.status = state;
        if state == NodeStatus::Running {
            self.started.get_or_insert(event.ts);
        }
        if let Some(error) = &event.error {
            self.last_error_class = Some(error.class.clone());
            self.last_error = Some(error.message.clone());
        }
        if state.is_terminal() {
            let took = self.started.map(|started| event.ts.duration_since(started).as_millis());
            self.duration_ms = took.map(|milliseconds| u64::try_from(milliseconds).unwrap_or_default());
            if event.message.is_some() {
                self.note.clone_from(&event.message);
            }
        }
        if state == NodeStatus::Succeeded {
            self.last_error = None;
            self.last_error_class = None;
            self.changed = event.fields.get("changed").and_then(Value::as_bool);
            self.revision = event.fields.get("revision").and_then(Value::as_u64);
        }
    }
}
