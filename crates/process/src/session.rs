//! A program that is kept running and asked line by line.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio_util::sync::CancellationToken;

use crate::error::ProgramError;
use crate::group::GroupGuard;
use crate::program::{Program, ProgramLimits};

/// A running program. Dropping it ends the program with everything it started.
pub struct ProgramSession {
    program: String,
    limits: ProgramLimits,
    stop: CancellationToken,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    notes: Arc<Mutex<Vec<u8>>>,
    // The group ends before the child is waited for.
    _group: GroupGuard,
    _child: Child,
}

impl Program {
    /// Starts it, to be asked line by line. The limit of time is that of each answer, the limit of output its size. It
    /// has to be called inside of a runtime. The program's input is what it is asked, not what was given before.
    pub fn start(self) -> Result<ProgramSession, ProgramError> {
        let program = self.name();
        let not_started = |source| ProgramError::NotStarted { program: program.clone(), source };
        let mut child = self.spawn(Stdio::piped()).map_err(not_started)?;
        let group = GroupGuard::new(self.group, child.id());
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started(std::io::ErrorKind::BrokenPipe.into()));
        };
        let notes = Arc::<Mutex<Vec<u8>>>::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep_notes(stderr, Arc::clone(&notes), self.limits.notes));
        }
        Ok(ProgramSession {
            program,
            limits: self.limits,
            stop: self.stop,
            stdin,
            stdout: BufReader::new(stdout),
            notes,
            _group: group,
            _child: child,
        })
    }
}

impl ProgramSession {
    /// Writes a line and gives the line that answers it. After an error the session is of no further use: nobody knows
    /// which question the next answer belongs to.
    pub async fn ask(&mut self, line: &[u8]) -> Result<Vec<u8>, ProgramError> {
        let (program, limits, stop) = (self.program.clone(), self.limits, self.stop.clone());
        let exchange = self.exchange(line);
        let timed = async {
            match limits.time {
                Some(limit) => tokio::time::timeout(limit, exchange)
                    .await
                    .unwrap_or_else(|_| Err(ProgramError::TimedOut { program: program.clone(), limit })),
                None => exchange.await,
            }
        };
        let answer = stop.run_until_cancelled(timed).await;
        answer.unwrap_or_else(|| Err(ProgramError::Interrupted { program: program.clone() }))
    }

    /// The notes on standard error since they were last taken, up to the limit.
    pub fn take_notes(&self) -> Vec<u8> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, ProgramError> {
        let ended = |_| ProgramError::Ended { program: self.program.clone() };
        self.stdin.write_all(line).await.map_err(ended)?;
        self.stdin.write_all(b"\n").await.map_err(ended)?;
        self.stdin.flush().await.map_err(ended)?;
        let mut answer = Vec::new();
        let mut bounded = (&mut self.stdout).take(self.limits.output as u64 + 1);
        bounded.read_until(b'\n', &mut answer).await.map_err(ended)?;
        if answer.pop_if(|byte| *byte == b'\n').is_some() {
            return Ok(answer);
        }
        let (program, limit) = (self.program.clone(), self.limits.output);
        Err(if answer.len() > limit {
            ProgramError::TooMuchOutput { program, limit }
        } else {
            ProgramError::Ended { program }
        })
    }
}

/// Reads to the end and keeps what there is room for until it is taken.
async fn keep_notes(mut stream: impl AsyncRead + Unpin, notes: Arc<Mutex<Vec<u8>>>, limit: usize) {
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = limit.saturating_sub(notes.len());
        notes.extend_from_slice(&chunk[..count.min(room)]);
    }
}
