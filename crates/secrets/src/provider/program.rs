//! Programs that are run for secrets: providers, and commands that print a credential. Standard output is never logged;
//! standard error is, after the redactor has learned what the output holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretSlice};
use slipway_event::Redactor;
use slipway_process::{Program, ProgramError, ProgramLimits, ProgramSession};

use super::build::BuildContext;
use super::{ErrorCode, ProviderError};

/// The fate of what a program wrote to standard error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotesUse {
    Log,
    /// The output could not be understood, so nobody knows what must be masked.
    Drop,
}

/// A program to run for a secret.
pub(crate) struct PluginCommand<'p> {
    /// The program and its arguments.
    pub(crate) words: &'p [String],
    pub(crate) variables: &'p [(String, String)],
    pub(crate) context: &'p BuildContext,
    /// Of one request.
    pub(crate) limit: Duration,
}

impl PluginCommand<'_> {
    /// Runs it to its end and gives what it wrote to standard output. `learn` tells the redactor what that holds.
    pub(crate) async fn run(
        &self,
        input: Vec<u8>,
        learn: impl FnOnce(&[u8]) -> NotesUse,
    ) -> Result<SecretSlice<u8>, ProviderError> {
        let path = self.locate()?;
        let name = path.display().to_string();
        let output = self.program(path).input(input).run().await.map_err(|error| failure(&name, &error))?;
        if learn(&output.stdout) == NotesUse::Log {
            log_notes(&name, &output.stderr, &self.context.redactor);
        }
        if output.status.success() {
            return Ok(output.stdout.into());
        }
        Err(ProviderError::new(ErrorCode::Unavailable, format!("{name}: failed: {}", output.status))
            .hint("`-vv` shows what it wrote to standard error"))
    }

    /// Starts it, to be asked line by line.
    pub(crate) fn start(&self) -> Result<PluginSession, ProviderError> {
        let path = self.locate()?;
        let name = path.display().to_string();
        let session = self.program(path).start().map_err(|error| failure(&name, &error))?;
        Ok(PluginSession { name, session, redactor: self.context.redactor.clone() })
    }

    fn program(&self, path: PathBuf) -> Program {
        let mut program = Program::new(path)
            .args(self.words.iter().skip(1))
            .limits(ProgramLimits { time: Some(self.limit), ..ProgramLimits::default() })
            .stop(self.context.network.stop.clone());
        for (name, value) in self.context.environment.variables() {
            program = program.variable(name, value.expose_secret());
        }
        for (name, value) in self.variables {
            program = program.variable(name, value);
        }
        program.variable("SLIPWAY_SECRET_PLUGIN", "1")
    }

    /// The program's file: absolute, or found on PATH; not one that others can change.
    fn locate(&self) -> Result<PathBuf, ProviderError> {
        let word = self.words.first().map(String::as_str).unwrap_or_default();
        let config = |reason: String, hint: &str| ProviderError::new(ErrorCode::Config, reason).hint(hint);
        let path = if Path::new(word).is_absolute() {
            PathBuf::from(word)
        } else if word.contains('/') {
            return Err(config(
                format!("`{word}` is a relative path"),
                "give an absolute path, or a name on PATH",
            ));
        } else {
            let search = self.context.environment.text("PATH").unwrap_or_default();
            let found = search
                .split(':')
                .filter(|part| part.starts_with('/'))
                .map(|part| Path::new(part).join(word))
                .find(|path| path.is_file());
            found.ok_or_else(|| {
                config(format!("`{word}` is not on PATH"), "install it, or give its absolute path")
            })?
        };
        if is_open_to_others(&path) {
            return Err(config(
                format!("{} can be changed by others", path.display()),
                "chmod go-w it, and its directory's owner be trusted",
            ));
        }
        Ok(path)
    }
}

/// A program that stays and is asked line by line.
pub(crate) struct PluginSession {
    name: String,
    session: ProgramSession,
    redactor: Redactor,
}

impl PluginSession {
    /// Asks with a line. After an error the session is of no further use.
    pub(crate) async fn ask(
        &mut self,
        line: &[u8],
        learn: impl FnOnce(&[u8]) -> NotesUse,
    ) -> Result<SecretSlice<u8>, ProviderError> {
        let answer = self.session.ask(line).await.map_err(|error| failure(&self.name, &error))?;
        let notes = self.session.take_notes();
        if learn(&answer) == NotesUse::Log {
            log_notes(&self.name, &notes, &self.redactor);
        }
        Ok(answer.into())
    }
}

fn log_notes(name: &str, notes: &[u8], redactor: &Redactor) {
    for line in String::from_utf8_lossy(notes).lines().take(50) {
        tracing::debug!("{name}: {}", redactor.redact(line));
    }
}

/// The failure of a program in a provider's terms. The program's own output is never part of it.
fn failure(name: &str, error: &ProgramError) -> ProviderError {
    let failed = |code, what: String| ProviderError::new(code, format!("{name}: {what}"));
    match error {
        ProgramError::NotStarted { source, .. } => {
            failed(ErrorCode::Config, format!("cannot be run: {source}"))
                .hint("is it an executable for this machine, with its interpreter?")
        }
        ProgramError::TimedOut { limit, .. } => {
            failed(ErrorCode::Timeout, format!("not done within {limit:?}"))
                .hint("raise `timeout:` of the provider, or look at what the program waits for")
        }
        ProgramError::TooMuchOutput { limit, .. } => {
            failed(ErrorCode::Invalid, format!("wrote more than {limit} bytes")).hint("a secret is small")
        }
        ProgramError::Ended { .. } => failed(ErrorCode::Unavailable, "ended without an answer".to_owned())
            .hint("a persistent program answers every line with one line; `-vv` shows its standard error"),
        ProgramError::Interrupted { .. } => failed(ErrorCode::Interrupted, "stopped".to_owned()),
        ProgramError::Lost { source, .. } => {
            failed(ErrorCode::Unavailable, source.to_string()).hint("try again: its end could not be learned")
        }
    }
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}
