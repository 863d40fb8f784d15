//! The `git` program, run so that nothing but Git itself decides what happens.
//!
//! A repository's own configuration and its content can name programs: filters, monitors, hooks, pagers, drivers,
//! transports. None of them runs here. The user's and the machine's configuration are left out, settings and
//! credentials travel in the environment, and a call says which transport it may use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use slipway_process::{Program, ProgramError, ProgramLimits, ProgramOutput};
use tokio_util::sync::CancellationToken;

/// The `git` program of this machine.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
}

impl Default for Git {
    fn default() -> Self {
        Self { program: "git".into() }
    }
}

impl Git {
    /// Uses this program instead of the `git` on the path.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }
}

/// Runs calls of Git: the machine's program, or a test's.
pub trait GitProgram: Send + Sync {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>>;
}

/// One call of Git.
#[derive(Clone, Debug, Default)]
pub struct GitCall {
    pub(crate) args: Vec<OsString>,
    pub(crate) git_directory: Option<PathBuf>,
    pub(crate) work_tree: Option<PathBuf>,
    /// Settings for this call alone; a value may be a secret.
    pub(crate) settings: Vec<(String, SecretString)>,
    pub(crate) variables: Vec<(&'static str, SecretString)>,
    pub(crate) input: Vec<u8>,
    /// The transports it may use, as `GIT_ALLOW_PROTOCOL` wants them; none if empty.
    pub(crate) protocols: &'static str,
    pub(crate) time: Option<Duration>,
    pub(crate) stop: CancellationToken,
}

impl GitCall {
    pub(crate) fn new<I: Into<OsString>>(args: impl IntoIterator<Item = I>) -> Self {
        Self { args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<I: Into<OsString>>(mut self, args: impl IntoIterator<Item = I>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.git_directory = Some(directory.to_owned());
        self
    }

    pub(crate) fn work_tree(mut self, tree: &Path) -> Self {
        self.work_tree = Some(tree.to_owned());
        self
    }

    pub(crate) fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), SecretString::from(value.into())));
        self
    }

    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, SecretString::from(value.into())));
        self
    }

    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// The command that is called: its first argument.
    pub fn command(&self) -> &str {
        self.args.first().and_then(|arg| arg.to_str()).unwrap_or_default()
    }
}

/// The time a call has that says nothing else.
const USUAL_TIME: Duration = Duration::from_secs(120);
/// The most one call may print: the list of files of a very large repository.
const LARGEST_OUTPUT: usize = 64 << 20;

impl GitProgram for Git {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>> {
        let limits = ProgramLimits {
            time: Some(call.time.unwrap_or(USUAL_TIME)),
            output: LARGEST_OUTPUT,
            ..ProgramLimits::default()
        };
        let mut program = Program::new(&self.program)
            .pass_variables(PASSED)
            .args(["--no-pager", "--literal-pathspecs"])
            .args(call.args)
            .limits(limits)
            .input(call.input)
            .stop(call.stop);
        for (name, value) in FIXED {
            program = program.variable(name, value);
        }
        let protocols = if call.protocols.is_empty() { "none" } else { call.protocols };
        program = program.variable("GIT_ALLOW_PROTOCOL", protocols);
        if let Some(directory) = call.git_directory {
            program = program.variable("GIT_DIR", directory);
        }
        if let Some(tree) = call.work_tree {
            program = program.directory(&tree).variable("GIT_WORK_TREE", tree);
        }
        let inert = INERT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let own = call.settings.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        let mut count = 0;
        for (name, value) in inert.chain(own) {
            program = program.variable(format!("GIT_CONFIG_KEY_{count}"), name);
            program = program.variable(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        program = program.variable("GIT_CONFIG_COUNT", count.to_string());
        for (name, value) in &call.variables {
            program = program.variable(name, value.expose_secret());
        }
        program.run().boxed()
    }
}

/// Variables Git may need of the machine: where programs, temporary files, proxies and certificates are.
const PASSED: &[&str] = &[
    "PATH",
    "TMPDIR",
    "SYSTEMROOT",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// A file without content.
pub(crate) const NOTHING: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Variables of every call: no configuration of others, no prompts, texts we know.
const FIXED: [(&str, &str); 13] = [
    // Neither `.netrc` nor any other file of a home directory.
    ("HOME", NOTHING),
    ("XDG_CONFIG_HOME", NOTHING),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", NOTHING),
    ("GIT_CONFIG_GLOBAL", NOTHING),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_SSH_VARIANT", "ssh"),
    ("LC_ALL", "C"),
    ("TZ", "UTC"),
];

/// Settings under which nothing but Git itself runs, and nothing depends on the machine.
const INERT: [(&str, &str); 21] = [
    ("advice.detachedHead", "false"),
    ("commit.gpgSign", "false"),
    ("core.askPass", ""),
    ("core.attributesFile", NOTHING),
    ("core.autocrlf", "false"),
    ("core.excludesFile", NOTHING),
    ("core.fsmonitor", "false"),
    ("core.gitProxy", ""),
    ("core.hooksPath", NOTHING),
    ("core.pager", "cat"),
    ("core.quotePath", "false"),
    ("core.sshCommand", "false"),
    ("credential.helper", ""),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("user.useConfigOnly", "true"),
];
