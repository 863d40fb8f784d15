//! Where a running sandbox says that it runs, and how to find, start and reach it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use slipway_problem::Problem;

use crate::files;

/// How long starting and stopping may take, on a machine that is busy with much else.
pub const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);

/// The directory where a running sandbox says that it runs.
///
/// The record's file is locked while the sandbox runs, so a record left by a crash is told from a live one.
pub struct Place(PathBuf);

/// What a running sandbox says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    pub pid: u32,
    pub address: SocketAddr,
    #[serde(default)]
    pub data_dir: Option<PathBuf>,
    #[serde(default)]
    pub speed: String,
    #[serde(default)]
    pub rbac: bool,
    /// What its owner should know about the data directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Whether a sandbox runs.
pub enum State {
    Stopped,
    /// It holds the record and has not written it yet.
    Starting,
    Running(Running),
}

/// The record while this process is the sandbox.
pub struct Record(File);

impl Place {
    pub fn of_user() -> anyhow::Result<Self> {
        let strategy = etcetera::choose_base_strategy().context("find the home directory")?;
        let base = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
        let directory = base.join("slipway/sandbox");
        files::create_private_directory(&directory)?;
        Ok(Self(directory))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    /// Where the sandbox `--sandbox` starts keeps its objects.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn open(&self) -> anyhow::Result<File> {
        let path = self.0.join("running.json");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        files::open_private(&path, &mut options)
    }

    pub fn state(&self) -> anyhow::Result<State> {
        let mut file = self.open()?;
        // Shared: whoever only looks must not seem to be a sandbox to others who look.
        if file.try_lock_shared().is_ok() {
            return Ok(State::Stopped);
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text).map_or(State::Starting, State::Running))
    }

    /// The record of the sandbox that runs, if one does.
    pub fn running(&self) -> anyhow::Result<Option<Running>> {
        Ok(match self.state()? {
            State::Running(running) => Some(running),
            State::Stopped | State::Starting => None,
        })
    }

    /// The record of the sandbox that must be running.
    pub fn required(&self) -> anyhow::Result<Running> {
        Ok(self.running()?.ok_or_else(not_running)?)
    }

    /// Makes this process the user's sandbox.
    pub fn claim(&self) -> anyhow::Result<Record> {
        let file = self.open()?;
        let deadline = Instant::now() + PATIENCE;
        while file.try_lock().is_err() {
            // Held against those who look as well: by a sandbox. Otherwise by somebody who looks, for a moment.
            if file.try_lock_shared().is_err() || Instant::now() > deadline {
                bail!(already_running());
            }
            file.unlock()?;
            std::thread::sleep(STEP);
        }
        file.set_len(0)?;
        Ok(Record(file))
    }

    /// Starts this program again as the sandbox, in the background, and waits until it serves. What it
    /// had to say when it does not is the error.
    pub fn start(&self, words: &[std::ffi::OsString]) -> anyhow::Result<Running> {
        let own = std::env::current_exe().context("find this program")?;
        let log = self.0.join("log");
        let errors = files::open_private(&log, OpenOptions::new().write(true).create(true).truncate(true))?;
        let mut command = Process::new(own);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().context("start the sandbox")?;
        self.wait(&mut child, &log)
    }

    fn wait(&self, child: &mut Child, log: &Path) -> anyhow::Result<Running> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.state()? {
                State::Running(running) => return Ok(running),
                // Another process may have been quicker; its sandbox is as good.
                State::Starting if Instant::now() < deadline => {}
                State::Stopped if child.try_wait()?.is_none() && Instant::now() < deadline => {}
                State::Stopped | State::Starting => return Err(failed_to_start(log, child.try_wait()?)),
            }
            std::thread::sleep(STEP);
        }
    }

    /// The sandbox that runs, or one started for the purpose that keeps its objects between commands.
    pub fn ensure(&self) -> anyhow::Result<Running> {
        if let Some(running) = self.running()? {
            return Ok(running);
        }
        let words = ["sandbox", "up", "--data-dir"].map(std::ffi::OsString::from);
        let mut words = words.to_vec();
        words.push(self.data().into_os_string());
        let running = self.start(&words)?;
        for warning in &running.warnings {
            say!("warning: {warning}");
        }
        say!("started a sandbox; `slipway sandbox down` stops it");
        Ok(running)
    }

    /// Waits until the sandbox is gone.
    pub fn wait_until_stopped(&self, running: &Running) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !matches!(self.state()?, State::Stopped) {
            if Instant::now() > deadline {
                let message = format!("the sandbox (process {}) did not stop", running.pid);
                bail!(Problem::error(message).hint(format!("`kill {}` ends it", running.pid)));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }
}

impl Record {
    pub fn write(&mut self, running: &Running) -> anyhow::Result<()> {
        self.0.write_all(serde_json::to_string(running)?.as_bytes())?;
        Ok(self.0.flush()?)
    }

    pub fn clear(&self) -> anyhow::Result<()> {
        Ok(self.0.set_len(0)?)
    }
}

/// The child has said why; its words are the error.
fn failed_to_start(log: &Path, ended: Option<std::process::ExitStatus>) -> anyhow::Error {
    let said = fs::read_to_string(log).unwrap_or_default();
    let said = said.trim();
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let problem = match said.split_once("\n  hint: ") {
        _ if said.is_empty() && ended.is_some() => silent_end(log),
        _ if said.is_empty() => {
            Problem::error(format!("the sandbox did not start within {} s", PATIENCE.as_secs()))
                .hint("`slipway sandbox up` in another terminal shows what it does")
        }
        Some((what, hint)) => Problem::error(what).hint(hint),
        None => Problem::error(said).hint(format!("{} has everything it said", log.display())),
    };
    problem.into()
}

/// Says why a sandbox ended without a word: mostly its words had no room either.
fn silent_end(log: &Path) -> Problem {
    let directory = log.parent().unwrap_or(log).display().to_string();
    match fs::write(log, [b'\n'; 8192]) {
        Err(error) => Problem::error(format!(
            "the sandbox did not start: cannot write to {directory}: {}",
            slipway_problem::describe_io(&error)
        ))
        .hint("make room on the disk, or name another directory with $XDG_STATE_HOME"),
        Ok(()) => Problem::error("the sandbox did not start, and did not say why")
            .hint("`slipway sandbox up` in another terminal shows what it does"),
    }
}

pub fn not_running() -> Problem {
    Problem::error("no sandbox is running").hint("start one with `slipway sandbox up --detach`")
}

pub fn already_running() -> Problem {
    Problem::error("a sandbox is running already").hint("stop it with `slipway sandbox down`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_only_looks_keeps_no_sandbox_from_starting() {
        let directory = tempfile::TempDir::new().unwrap();
        let place = Place(directory.path().to_owned());
        let looking = place.open().unwrap();
        looking.lock_shared().unwrap();
        assert!(matches!(place.state().unwrap(), State::Stopped), "two may look at once");
        let record = std::thread::scope(|scope| {
            let claimed = scope.spawn(|| place.claim());
            std::thread::sleep(4 * STEP);
            looking.unlock().unwrap();
            claimed.join().unwrap().unwrap()
        });
        assert!(matches!(place.state().unwrap(), State::Starting));
        assert!(place.claim().is_err(), "a sandbox has it");
        drop(record);
        assert!(matches!(place.state().unwrap(), State::Stopped));
    }
}
