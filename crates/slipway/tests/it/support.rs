//! Running the binary in a directory of its own, with nothing of the user's around.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A place to run in.
pub struct Place(TempDir);

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
        let mut pending = vec![directory.to_owned()];
        while let Some(next) = pending.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                    continue;
                }
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
                self.write(name, fs::read(&path).unwrap());
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
