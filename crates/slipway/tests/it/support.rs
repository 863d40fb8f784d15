//! Running the binary in a directory of its own, with nothing of the user's around.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A place to run in. A sandbox that was started in it ends with it.
pub struct Place(TempDir);

impl Drop for Place {
    fn drop(&mut self) {
        let record = self.path().join(".local/state/slipway/sandbox/running.json");
        // The record is empty once the sandbox has ended.
        if fs::metadata(record).is_ok_and(|record| record.len() > 0) {
            let _ = self.command(&["sandbox", "down"]).output();
        }
    }
}

/// Waits for something to become true, for as long as a busy machine may need.
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !is_true() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end of a command that must end by itself.
pub fn wait_for_end(child: &mut Child, what: &str) -> ExitStatus {
    let mut status = None;
    eventually(&format!("{what} ends"), || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

impl Place {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Copies the files of a directory.
    pub fn copy_from(&self, directory: &Path) {
        self.copy_as(".", directory);
    }

    /// Copies the files of a directory to one of this place.
    pub fn copy_as(&self, to: &str, directory: &Path) {
        let mut pending = vec![directory.to_owned()];
        while let Some(next) = pending.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                    continue;
                }
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
                self.write(&format!("{to}/{name}"), fs::read(&path).unwrap());
            }
        }
    }

    /// A command of ours that sees only what a test gives it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slipway"));
        command.args(args).current_dir(self.path()).env_clear();
        command.env("HOME", self.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }
}

/// Git as on a machine without settings: neither those of its user nor of a hook this runs in matter.
pub fn plain_git() -> Command {
    let mut git = Command::new("git");
    git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// What it printed, after it ended well.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }
}

pub const DIAMOND: &str = "\
nodes:
  app:   {needs: [db, cache, base]}
  db:    {needs: [base]}
  cache: {needs: [base]}
  base:
";
