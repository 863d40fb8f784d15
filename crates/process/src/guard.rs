//! Keeps a command from outliving the run that started it.
//!
//! A command runs in a process group led by a guard, a shell that reads from a pipe only we can write to. However
//! this process ends, the pipe closes, and the guard kills the group: the command and all it started. The guard
//! is there before the command, so there is no moment in which one could be left behind.

use std::fs::File;
use std::io;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// Leads the process group of one command, and kills it when dropped.
pub(crate) struct Guard {
    /// None once the command ended by itself.
    leader: Option<Child>,
    group: Option<i32>,
}

impl Guard {
    /// Starts a guard that has `kept_open` open for as long as it lives.
    #[cfg(unix)]
    pub(crate) fn start(kept_open: Option<File>) -> io::Result<Self> {
        let leader = Command::new("sh")
            .args(["-c", "read -r line; kill -9 0"])
            .stdin(Stdio::piped())
            .stdout(kept_open.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let group = leader.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self { leader: Some(leader), group })
    }

    #[cfg(not(unix))]
    pub(crate) fn start(_: Option<File>) -> io::Result<Self> {
        Ok(Self { leader: None, group: None })
    }

    /// Puts a command under guard, in a group that a terminal's Ctrl-C does not reach.
    pub(crate) fn watch<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        #[cfg(unix)]
        if let Some(group) = self.group {
            command.process_group(group);
        }
        command.kill_on_drop(true)
    }

    /// Lets go of a command that ended by itself; what it left in the background may stay.
    pub(crate) async fn release(mut self) {
        if let Some(mut leader) = self.leader.take() {
            // One that is gone already needs no killing.
            let _ = leader.kill().await;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        #[cfg(unix)]
        if self.leader.is_some()
            && let Some(group) = self.group.and_then(rustix::process::Pid::from_raw)
        {
            // The guard is not reaped yet, so the group is still its own.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
