//! A program with everything it is given.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::group::ProcessGroup;

/// The bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// None waits for as long as it takes.
    pub time: Option<Duration>,
    /// The most bytes of standard output; a program that writes more is ended.
    pub output: usize,
    /// The most bytes of standard error that are kept; the rest is read and dropped.
    pub notes: usize,
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self { time: Some(Duration::from_secs(60)), output: 8 * 1024 * 1024, notes: 16 * 1024 }
    }
}

/// A program to run. Its debug form shows neither arguments nor variables.
#[derive(Clone)]
pub struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) variables: BTreeMap<OsString, OsString>,
    pub(crate) base: EnvironmentBase,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) input: Vec<u8>,
    pub(crate) limits: ProgramLimits,
    pub(crate) group: ProcessGroup,
    pub(crate) stop: CancellationToken,
}

/// The part of our own environment a program gets.
#[derive(Clone)]
pub(crate) enum EnvironmentBase {
    All,
    /// Handed on unread, where they are set.
    Named(Vec<&'static str>),
}

/// The end of a program.
#[derive(Clone, Debug)]
pub struct ProgramOutput {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Up to the limit.
    pub stderr: Vec<u8>,
}

impl ProgramOutput {
    pub fn is_success(&self) -> bool {
        self.status.success()
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("path", &self.path)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// A program by its path, or by a name that is looked for on the `PATH` it is given. It has no variables, no
    /// input and the default limits.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            args: Vec::new(),
            variables: BTreeMap::new(),
            base: EnvironmentBase::Named(Vec::new()),
            directory: None,
            input: Vec::new(),
            limits: ProgramLimits::default(),
            group: ProcessGroup::default(),
            stop: CancellationToken::new(),
        }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Hands on these variables of ours, and no others.
    pub fn pass_variables(mut self, names: &[&'static str]) -> Self {
        self.base = EnvironmentBase::Named(names.to_vec());
        self
    }

    /// Hands on all our variables, as a shell does.
    pub fn pass_environment(mut self) -> Self {
        self.base = EnvironmentBase::All;
        self
    }

    /// Runs it in this directory instead of ours.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The text of its standard input, which is empty otherwise.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    pub fn limits(mut self, limits: ProgramLimits) -> Self {
        self.limits = limits;
        self
    }

    pub fn group(mut self, group: ProcessGroup) -> Self {
        self.group = group;
        self
    }

    /// Ends it once the token is cancelled.
    pub fn stop(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }
}
