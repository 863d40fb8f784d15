//! Runs a program to its end, or ends it.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::error::ProgramError;
use crate::group::{GroupGuard, ProcessGroup};
use crate::program::{EnvironmentBase, Program, ProgramOutput};

/// Attempts at a program that somebody has open to write, and the time between two of them.
const BUSY_ATTEMPTS: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

impl Program {
    /// Runs it. A program that fails is no error: its status says so. Dropping the future ends the program.
    pub async fn run(self) -> Result<ProgramOutput, ProgramError> {
        let program = self.name();
        let not_started = |source: io::Error| ProgramError::NotStarted { program: program.clone(), source };
        if self.stop.is_cancelled() {
            return Err(ProgramError::Interrupted { program });
        }
        let stdin = if self.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        let mut child = self.spawn(stdin).map_err(not_started)?;
        let group = GroupGuard::new(self.group, child.id());
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input says so by its result.
                let _ = stdin.write_all(&self.input).await;
            }
            Ok(())
        };
        let too_much = || ProgramError::TooMuchOutput { program: program.clone(), limit: self.limits.output };
        let streams = async {
            let output = async { read_within(stdout, self.limits.output).await.ok_or_else(too_much) };
            let notes = async { Ok(read_up_to(stderr, self.limits.notes).await) };
            let (_, stdout, stderr) = tokio::try_join!(feed, output, notes)?;
            let lost = |source| ProgramError::Lost { program: program.clone(), source };
            let status = child.wait().await.map_err(lost)?;
            Ok(ProgramOutput { status, stdout, stderr })
        };
        let timed = async {
            match self.limits.time {
                Some(limit) => tokio::time::timeout(limit, streams)
                    .await
                    .unwrap_or_else(|_| Err(ProgramError::TimedOut { program: program.clone(), limit })),
                None => streams.await,
            }
        };
        let result = self.stop.run_until_cancelled(timed).await;
        drop(group);
        result.unwrap_or_else(|| Err(ProgramError::Interrupted { program: program.clone() }))
    }

    /// Runs it from code that cannot wait asynchronously.
    pub fn run_blocking(self) -> Result<ProgramOutput, ProgramError> {
        let program = self.name();
        block_on(self.run()).unwrap_or_else(|source| Err(ProgramError::NotStarted { program, source }))
    }

    /// Starts it. A file that was just written is busy for a moment when another thread starts a program meanwhile,
    /// which has it open until it runs: it is tried again.
    pub(crate) fn spawn(&self, stdin: Stdio) -> io::Result<Child> {
        let mut command = self.command(stdin);
        for _ in 0..BUSY_ATTEMPTS {
            match command.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                started => return started,
            }
        }
        command.spawn()
    }

    fn command(&self, stdin: Stdio) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args);
        if let EnvironmentBase::Named(names) = &self.base {
            command.env_clear();
            command.envs(names.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        command.envs(&self.variables);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        if self.group == ProcessGroup::Own {
            command.process_group(0);
        }
        command
    }
}

/// Waits for work from code that cannot wait asynchronously, on a thread of its own, so that it does not matter
/// whether the caller is itself part of a runtime.
pub fn block_on<T: Send>(work: impl Future<Output = T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let waiting = std::thread::Builder::new().spawn_scoped(scope, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(work))
        })?;
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Reads to the end; nothing once there is more than the limit.
async fn read_within(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else { return Some(bytes) };
    // A stream that breaks ends: the program's status tells the rest.
    let _ = stream.take(limit as u64 + 1).read_to_end(&mut bytes).await;
    (bytes.len() <= limit).then_some(bytes)
}

/// Reads to the end, and keeps up to a limit.
async fn read_up_to(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut stream) = stream else { return bytes };
    let _ = (&mut stream).take(limit as u64).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    bytes
}
