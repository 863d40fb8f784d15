//! The worker that runs a node's command in a shell.

use std::fs::File;

use slipway_event::{Event, Events, LogStream};
use slipway_graph::{Backoff, Classify, Context, Done, NodePolicy, NodeRef, Retry, RetryClass, Worker};
use slipway_process::{OutputStream, ProgramError, ShellCommand};

use super::file::Job;

pub struct Shell {
    pub events: Events,
    /// Kept open by every command, so that the journal is locked as long as one runs.
    pub journal: Option<File>,
}

/// The failure of a command.
#[derive(Debug)]
pub struct CommandFailed(String);

impl std::fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Classify for CommandFailed {
    /// Returns a class that is tried again: `retries` alone says how often.
    fn class(&self) -> RetryClass {
        RetryClass::Transient
    }
}

impl<'g> Worker<'g, Job> for Shell {
    type Error = CommandFailed;

    async fn work(&self, cx: Context<'g, Job>) -> Result<Done, CommandFailed> {
        let Some(command) = &cx.value().run else {
            return Ok(Done::skipped("it has nothing to run"));
        };
        let failed = |error: std::io::Error| CommandFailed(format!("cannot run `sh`: {error}"));
        let mut shell = ShellCommand::new(command);
        if let Some(journal) = &self.journal {
            shell = shell.keeping_open(journal.try_clone().map_err(failed)?);
        }
        let id = cx.id().as_str();
        let ended = shell.run(cx.cancelled(), |stream, line| self.send_line(id, stream, line)).await;
        let status = ended.map_err(|error| match error {
            ProgramError::Interrupted { .. } => CommandFailed("stopped".to_owned()),
            ProgramError::NotStarted { source, .. } | ProgramError::Lost { source, .. } => failed(source),
            other => CommandFailed(other.to_string()),
        })?;
        if status.success() { Ok(Done::OK) } else { Err(CommandFailed(status.to_string())) }
    }

    fn policy(&self, node: NodeRef<'g, Job>, default: &NodePolicy) -> NodePolicy {
        let job = node.value();
        let retry = Retry::transient(job.retries.saturating_add(1), Backoff::STANDARD);
        NodePolicy { timeout: job.timeout.or(default.timeout), retry, ..*default }
    }
}

impl Shell {
    /// Sends a line a command writes as an event.
    fn send_line(&self, node: &str, stream: OutputStream, line: String) {
        let stream = match stream {
            OutputStream::Stdout => LogStream::Stdout,
            OutputStream::Stderr => LogStream::Stderr,
        };
        let node = Some(node.into());
        self.events.send(Event::Log { node, object: None, container: None, stream, line });
    }
}
