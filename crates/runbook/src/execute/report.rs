//! Tells how a run and its steps ended.

use std::time::Duration;

use serde::Serialize;
use slipway_event::Redactor;
use slipway_graph::{AttemptFailure, Graph, NodeRef, Outcome, StopReason};

use super::{Command, Work};
use crate::error::{AttemptError, ErrorKind};
use crate::model::Step;
use crate::plan::decision::SkipCode;
use crate::state::NodeStatus;
use slipway_journal::snapshot::words::{NodeWord, serialize_node};

/// The end of one step.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(serialize_with = "serialize_node")]
    #[schemars(with = "NodeWord")]
    pub status: NodeStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// `when`, `resumed`, `not-reversible`, `not-selected`, `canceled`, `stopped`, `needs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The record after a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateReport {
    /// `namespace/name`.
    pub secret: String,
    /// The number of steps it spared.
    pub resumed: usize,
    /// True if it says how this run ended.
    pub written: bool,
}

/// The end of a run; its JSON form is that of `-o json`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    pub name: String,
    pub command: Command,
    #[serde(serialize_with = "serialize_node")]
    #[schemars(with = "NodeWord")]
    pub status: NodeStatus,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub canceled: bool,
    pub started_at: String,
    pub finished_at: String,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReport>,
    /// By level, then in the order of the document.
    pub steps: Vec<StepReport>,
}

impl RunReport {
    pub fn is_success(&self) -> bool {
        self.status == NodeStatus::Succeeded
    }

    pub fn step(&self, name: &str) -> Option<&StepReport> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Masks every text that is not one of the format's own words.
    pub(super) fn mask(mut self, redactor: &Redactor) -> Self {
        let state = self.state.iter_mut().map(|state| &mut state.secret);
        for text in std::iter::once(&mut self.name).chain(&mut self.error).chain(state) {
            redactor.redact_in_place(text);
        }
        for step in &mut self.steps {
            redactor.redact_in_place(&mut step.name);
            for text in step.error.iter_mut().chain(&mut step.skip_reason).chain(&mut step.note) {
                redactor.redact_in_place(text);
            }
        }
        self
    }

    pub fn count(&self, status: NodeStatus) -> usize {
        self.steps.iter().filter(|step| step.status == status).count()
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reports the end of every step, by level and then in the order of the document.
pub(super) fn reports(
    work: &Work<'_>,
    graph: &Graph<&Step>,
    report: &slipway_graph::Report<AttemptError>,
) -> Vec<StepReport> {
    let level = |name: &str| graph.node(name).map_or(0, NodeRef::wave);
    let satisfied = |name: &str| report.node(name).is_some_and(|node| node.outcome.is_success());
    let stopper = match &report.stopped {
        Some(StopReason::Failed { id }) => Some(id.as_str()),
        _ => None,
    };
    let canceled = report.stopped == Some(StopReason::Cancelled);
    let mut all: Vec<(usize, StepReport)> = Vec::new();
    for step in &work.document.steps {
        let name = step.name.as_str();
        let mut told = StepReport {
            name: name.to_owned(),
            kind: step.action.kind().to_owned(),
            status: NodeStatus::Skipped,
            attempts: None,
            duration_ms: None,
            error: None,
            error_kind: None,
            skip_reason: None,
            skip_code: None,
            note: None,
        };
        let skip = |told: &mut StepReport, code: SkipCode, reason: String| {
            told.skip_code = Some(code.as_str());
            told.skip_reason = Some(reason);
        };
        let Some(node) = report.node(name) else { continue };
        if let Some(why) = work.decisions.skipped.get(name) {
            skip(&mut told, why.code, why.reason.clone());
            all.push((level(name), told));
            continue;
        }
        if node.attempts > 0 {
            told.attempts = Some(node.attempts);
            told.duration_ms = Some(milliseconds(node.duration));
        }
        match &node.outcome {
            Outcome::Succeeded | Outcome::Skipped { .. } | Outcome::Resumed => {
                told.status = NodeStatus::Succeeded;
                let note = report.output(name).and_then(|output| output["note"].as_str());
                told.note = note.map(str::to_owned);
            }
            Outcome::Failed(failure) => {
                told.status = NodeStatus::Failed;
                told.error = Some(failure.to_string());
                told.error_kind = Some(kind_of(failure));
            }
            Outcome::Cancelled => {
                told.status = NodeStatus::Failed;
                told.error = Some("canceled".to_owned());
                told.error_kind = Some(ErrorKind::Canceled);
            }
            Outcome::Blocked { .. } | Outcome::NotStarted => {
                let needs: Vec<&str> = match work.decisions.command {
                    Command::Apply => step.needs.iter().map(String::as_str).collect(),
                    Command::Destroy => graph
                        .node(name)
                        .into_iter()
                        .flat_map(NodeRef::needs)
                        .map(|n| n.id().as_str())
                        .collect(),
                };
                let need = needs.iter().find(|need| !satisfied(need));
                match (canceled, stopper, need) {
                    (true, ..) => skip(&mut told, SkipCode::Canceled, "run canceled".to_owned()),
                    (_, Some(stopper), _) if level(stopper) < level(name) || need.is_none() => {
                        skip(&mut told, SkipCode::Stopped, format!("step \"{stopper}\" failed before"));
                    }
                    (_, _, Some(need)) => {
                        skip(&mut told, SkipCode::Needs, format!("needs \"{need}\" which did not succeed"));
                    }
                    _ => skip(&mut told, SkipCode::Stopped, "the run stopped before its turn".to_owned()),
                }
            }
        }
        all.push((level(name), told));
    }
    all.sort_by_key(|(level, _)| *level);
    all.into_iter().map(|(_, told)| told).collect()
}

fn kind_of(failure: &AttemptFailure<AttemptError>) -> ErrorKind {
    match failure {
        AttemptFailure::TimedOut { .. } => ErrorKind::Timeout,
        AttemptFailure::Error(error) => error.kind,
        AttemptFailure::Panicked(_) => ErrorKind::Internal,
    }
}
