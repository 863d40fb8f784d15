//! The state of a run, folded from its events: what is shown live and what is rebuilt later are one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{EventType, RunEvent};
use crate::plan::{Plan, RUN_FORMAT};

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    #[default]
    Running,
    Succeeded,
    Failed,
    Canceled,
    Interrupted,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
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

impl NodeState {
    /// Whether nothing more will come of it in this run.
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
shown_in_lower_case!(RunState, NodeState);

/// How many nodes stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub planned: usize,
    pub succeeded: usize,
    pub failed: usize,
    pub skipped: usize,
    pub running: usize,
    pub blocked: usize,
    pub canceled: usize,
}

/// One node of a summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    pub status: NodeState,
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
    /// Why it was blocked or skipped, or what else is worth saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip)]
    started: Option<Timestamp>,
}

/// `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub api_version: String,
    pub run_id: String,
    pub status: RunState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    pub totals: Totals,
    pub nodes: BTreeMap<String, NodeSummary>,
}

impl Summary {
    /// Where a run stands before anything happened.
    pub fn new(plan: &Plan) -> Self {
        let nodes = plan.nodes.iter().map(|node| (node.id.clone(), NodeSummary::default())).collect();
        let mut summary = Self {
            api_version: RUN_FORMAT.to_owned(),
            run_id: plan.run_id.clone(),
            nodes,
            ..Self::default()
        };
        summary.count();
        summary
    }

    /// Where a run stands after its events.
    pub fn rebuild(plan: &Plan, events: &[RunEvent]) -> Self {
        let mut summary = Self::new(plan);
        events.iter().for_each(|event| summary.take(event));
        summary
    }

    /// Takes note of an event.
    pub fn take(&mut self, event: &RunEvent) {
        self.updated_at = Some(event.ts);
        match event.kind {
            EventType::RunStarted => {
                self.started_at.get_or_insert(event.ts);
                self.status = RunState::Running;
            }
            EventType::RunResumed => {
                self.started_at.get_or_insert(event.ts);
                self.status = RunState::Running;
                self.ended_at = None;
                for node in self.nodes.values_mut().filter(|node| node.status != NodeState::Succeeded) {
                    // What was left running is not running now.
                    let attempt = node.attempt;
                    *node = NodeSummary { attempt, ..NodeSummary::default() };
                }
            }
            EventType::RunCompleted => {
                self.ended_at = Some(event.ts);
                let status = event.fields.get("status").cloned().unwrap_or_default();
                self.status = serde_json::from_value(status).unwrap_or(RunState::Failed);
            }
            EventType::RunInterrupted => self.status = RunState::Interrupted,
            _ => {}
        }
        if let Some(node) = event.node_id.as_ref().and_then(|id| self.nodes.get_mut(id)) {
            node.take(event);
        }
        self.count();
    }

    fn count(&mut self) {
        let of = |state: NodeState| self.nodes.values().filter(|node| node.status == state).count();
        self.totals = Totals {
            planned: self.nodes.len(),
            succeeded: of(NodeState::Succeeded),
            failed: of(NodeState::Failed),
            skipped: of(NodeState::Skipped),
            running: of(NodeState::Running) + of(NodeState::Retrying),
            blocked: of(NodeState::Blocked),
            canceled: of(NodeState::Canceled),
        };
    }
}

impl NodeSummary {
    fn take(&mut self, event: &RunEvent) {
        self.attempt = self.attempt.max(match event.kind {
            EventType::NodeRetryScheduled => 0,
            _ => event.attempt,
        });
        let state = match event.kind {
            EventType::NodeQueued => NodeState::Queued,
            EventType::NodeRunning => NodeState::Running,
            EventType::NodeFailed => NodeState::Failed,
            EventType::NodeRetryScheduled => NodeState::Retrying,
            EventType::NodeSucceeded => NodeState::Succeeded,
            EventType::NodeBlocked => NodeState::Blocked,
            EventType::NodeSkipped => NodeState::Skipped,
            EventType::NodeCanceled => NodeState::Canceled,
            EventType::NodeRecovered => {
                self.note.clone_from(&event.message);
                return;
            }
            _ => return,
        };
        self.status = state;
        if state == NodeState::Running {
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
        if state == NodeState::Succeeded {
            self.last_error = None;
            self.last_error_class = None;
            self.changed = event.fields.get("changed").and_then(Value::as_bool);
            self.revision = event.fields.get("revision").and_then(Value::as_u64);
        }
    }
}
