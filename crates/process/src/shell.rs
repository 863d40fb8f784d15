//! Commands that users write for a shell, their output passed on while they run.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::error::ProgramError;
use crate::guard::Guard;

const SHELL: &str = "sh";

/// The text as one word of a line for a shell: as it is, or in single quotes where a shell would read it otherwise.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

/// The stream a line of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// A command for `sh` that ends with this process, however this process ends.
#[derive(Debug)]
pub struct ShellCommand {
    text: String,
    kept_open: Option<File>,
}

impl ShellCommand {
    /// Starts a command.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), kept_open: None }
    }

    /// Keeps a file open until the command and all it started are gone, also if this process is killed. A lock on the
    /// file is held as long.
    #[must_use]
    pub fn keeping_open(mut self, file: File) -> Self {
        self.kept_open = Some(file);
        self
    }

    /// Runs it and passes every line it writes to `line`. It is ended when `cancel` says so.
    pub async fn run(
        self,
        cancel: &CancellationToken,
        line: impl Fn(OutputStream, String),
    ) -> Result<ExitStatus, ProgramError> {
        let failed = |source: io::Error| ProgramError::NotStarted { program: SHELL.to_owned(), source };
        let guard = Guard::start(self.kept_open).map_err(failed)?;
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(&self.text);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = guard.watch(&mut command).spawn().map_err(failed)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let finished = async {
            tokio::join!(
                pass_lines(out, |text| line(OutputStream::Stdout, text)),
                pass_lines(err, |text| line(OutputStream::Stderr, text))
            );
            child.wait().await
        };
        let lost = |source| ProgramError::Lost { program: SHELL.to_owned(), source };
        let status = tokio::select! {
            status = finished => status.map_err(lost)?,
            () = cancel.cancelled() => return Err(ProgramError::Interrupted { program: SHELL.to_owned() }),
        };
        guard.release().await;
        Ok(status)
    }
}

async fn pass_lines(stream: Option<impl AsyncRead + Unpin>, line: impl Fn(String)) {
    let Some(stream) = stream else { return };
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        line(text);
    }
}
