//! The kernel's own account of a run, said in events.

use std::fmt::Display;
use std::time::Duration;

use slipway_graph::{Id, Outcome, RunEvent, StopReason};

use crate::{Event, Events, NodeName, NodeOutcome, RunOutcome};

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
            RunEvent::RunFinished { totals, stopped, duration } => {
                let status = match stopped {
                    Some(StopReason::Cancelled) => RunOutcome::Cancelled,
                    None if totals.is_success() => RunOutcome::Succeeded,
                    _ => RunOutcome::Failed,
                };
                self.send(Event::RunFinished { status, duration_ms: milliseconds(*duration) });
                self.send(Event::Summary { totals: **totals });
            }
        }
    }
}

fn status<E: Display>(outcome: &Outcome<E>) -> (NodeOutcome, Option<String>) {
    match outcome {
        Outcome::Succeeded => (NodeOutcome::Succeeded, None),
        Outcome::Skipped { reason } => (NodeOutcome::Skipped, Some(reason.clone())),
        Outcome::Resumed => (NodeOutcome::Resumed, None),
        Outcome::Failed(failure) => (NodeOutcome::Failed, Some(failure.to_string())),
        Outcome::Blocked { by } => (NodeOutcome::Blocked, Some(format!("`{by}` did not succeed"))),
        Outcome::Cancelled => (NodeOutcome::Cancelled, None),
        Outcome::NotStarted => (NodeOutcome::NotStarted, None),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
