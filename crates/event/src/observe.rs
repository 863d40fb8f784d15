//! The kernel's own account of a run, said in events.

use std::fmt::Display;
use std::time::Duration;

use slipway_graph::{Id, Outcome, RunEvent, StopReason, Summary};

use crate::{Event, Events, NodeName, NodeStatus, RunStatus, Totals};

impl Events {
    /// Sends the kernel's report of a run called `title`, whose nodes are named by `name`; meant for
    /// `slipway_graph::Run::observe`.
    pub fn observe<E: Display>(&self, title: &str, name: impl Fn(&Id) -> NodeName, event: &RunEvent<'_, E>) {
        match event {
            RunEvent::RunStarted { nodes, .. } => {
                self.send(Event::RunStarted { title: title.to_owned(), nodes: *nodes });
            }
            RunEvent::NodeReady { .. } | RunEvent::RunStopping { .. } => {}
            RunEvent::NodeStarted { id, attempt, .. } => {
                self.send(Event::NodeStarted { node: name(id), attempt: *attempt });
            }
            RunEvent::NodeRetrying { id, attempt, failure, delay } => self.send(Event::NodeRetrying {
                node: name(id),
                attempt: *attempt,
                error: failure.to_string(),
                delay_ms: milliseconds(*delay),
            }),
            RunEvent::NodeFinished { id, outcome, duration, .. } => {
                let (status, reason) = status(outcome);
                let duration_ms = milliseconds(*duration);
                self.send(Event::NodeFinished { node: name(id), status, reason, duration_ms });
            }
            RunEvent::RunFinished { summary, stopped, duration } => {
                let status = match stopped {
                    Some(StopReason::Cancelled) => RunStatus::Cancelled,
                    None if summary.is_success() => RunStatus::Succeeded,
                    _ => RunStatus::Failed,
                };
                self.send(Event::RunFinished { status, duration_ms: milliseconds(*duration) });
                self.send(Event::Summary { totals: Totals::from(**summary) });
            }
        }
    }
}

fn status<E: Display>(outcome: &Outcome<E>) -> (NodeStatus, Option<String>) {
    match outcome {
        Outcome::Succeeded => (NodeStatus::Succeeded, None),
        Outcome::Skipped { reason } => (NodeStatus::Skipped, Some(reason.clone())),
        Outcome::Resumed => (NodeStatus::Resumed, None),
        Outcome::Failed(failure) => (NodeStatus::Failed, Some(failure.to_string())),
        Outcome::Blocked { by } => (NodeStatus::Blocked, Some(format!("`{by}` did not succeed"))),
        Outcome::Cancelled => (NodeStatus::Cancelled, None),
        Outcome::NotStarted => (NodeStatus::NotStarted, None),
    }
}

impl From<Summary> for Totals {
    fn from(summary: Summary) -> Self {
        Self {
            succeeded: summary.succeeded as u64,
            failed: summary.failed as u64,
            skipped: summary.skipped as u64,
            blocked: summary.blocked as u64,
            cancelled: summary.cancelled as u64,
            resumed: summary.resumed as u64,
            not_started: summary.not_started as u64,
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
