//! The worker that runs a node's command in a shell.

use std::fs::File;
use std::process::Stdio;

use slipway_event::{Event, Events, LogStream};
use slipway_graph::{Backoff, Classify, Context, Done, ErrorClass, NodePolicy, NodeRef, Retry, Worker};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

use super::file::Job;
use super::guard::Guard;

pub struct Shell {
    pub events: Events,
    /// Kept open by every command, so that the journal is locked as long as one runs.
    pub journal: Option<File>,
}

/// Why a command failed.
#[derive(Debug)]
pub struct CommandFailed(String);

impl std::fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Classify for CommandFailed {
    /// Whether a command may do better next time is not ours to know: `retries` says so.
    fn class(&self) -> ErrorClass {
        ErrorClass::Transient
    }
}

impl<'g> Worker<'g, Job> for Shell {
    type Error = CommandFailed;

    async fn work(&self, cx: Context<'g, Job>) -> Result<Done, CommandFailed> {
        let Some(command) = &cx.value().run else {
            return Ok(Done::skipped("it has nothing to run"));
        };
        let failed = |error: std::io::Error| CommandFailed(format!("cannot run `sh`: {error}"));
        let journal = self.journal.as_ref().map(File::try_clone).transpose().map_err(failed)?;
        let guard = Guard::start(journal).map_err(failed)?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = guard.watch(&mut shell).spawn().map_err(failed)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let id = cx.id().as_str();
        let finished = async {
            tokio::join!(self.pass_on(id, LogStream::Stdout, out), self.pass_on(id, LogStream::Stderr, err));
            child.wait().await
        };
        let status = tokio::select! {
            status = finished => status.map_err(failed)?,
            () = cx.cancelled().cancelled() => return Err(CommandFailed("stopped".to_owned())),
        };
        guard.release().await;
        if status.success() { Ok(Done::OK) } else { Err(CommandFailed(status.to_string())) }
    }

    fn policy(&self, node: NodeRef<'g, Job>, default: &NodePolicy) -> NodePolicy {
        let job = node.value();
        let retry = Retry::transient(job.retries.saturating_add(1), Backoff::STANDARD);
        NodePolicy { timeout: job.timeout.or(default.timeout), retry, ..*default }
    }
}

impl Shell {
    /// Sends each line a command writes as an event.
    async fn pass_on(&self, node: &str, kind: LogStream, stream: Option<impl AsyncRead + Unpin>) {
        let Some(stream) = stream else { return };
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let node = Some(node.into());
            self.events.send(Event::Log { node, object: None, container: None, stream: kind, line });
        }
    }
}
