//! Ctrl-C, termination and a terminal that is closed: the first asks the work to stop, the second stops it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::term::output;

/// Cancelled once the user wants this process to stop. Signals come to the process, so there is one.
pub fn stopping() -> &'static CancellationToken {
    static STOPPING: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
    &STOPPING
}

/// Listens for signals from the first use to the end of the process. There is one listener, whoever asks: two
/// would race at the second signal, and the one with nothing to record might end the process first.
pub struct Interrupt {
    token: CancellationToken,
    received: AtomicU8,
    last_words: OnceLock<LastWords>,
}

/// Told the name of the second signal, so that the end can be recorded.
type LastWords = Box<dyn Fn(&'static str) + Send + Sync>;

/// The time from the second signal to the end, for those who have something to record.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Interrupt {
    /// Starts listening, unless this process does already.
    pub fn listen() -> anyhow::Result<&'static Self> {
        static LISTENER: Mutex<Option<&'static Interrupt>> = Mutex::new(None);
        let mut listener = LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = *listener {
            return Ok(listener);
        }
        // A thread and a runtime of their own: nothing the work does keeps a signal waiting. They live as long
        // as the process, because once listened to, a signal does nothing by itself.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::new()?
        };
        let (token, received, last_words) = (stopping().clone(), AtomicU8::new(0), OnceLock::new());
        let interrupt: &Self = Box::leak(Box::new(Self { token, received, last_words }));
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(interrupt.obey(signals)))?;
        *listener = Some(interrupt);
        Ok(interrupt)
    }

    /// Asks the work to stop at the first signal, ends the process at the second.
    async fn obey(&self, mut signals: Signals) {
        loop {
            let exit = signals.next().await;
            if self.received.swap(exit.code(), Ordering::SeqCst) == 0 {
                self.token.cancel();
                output::hurry();
                say!("stopping: running work may finish; interrupt again to stop at once");
                continue;
            }
            if let Some(record) = self.last_words.get() {
                record(if exit == Exit::Terminated { "SIGTERM" } else { "SIGINT" });
                // The process ends by itself once that is done; a third signal does not wait for it.
                tokio::select! {
                    () = tokio::time::sleep(LAST_WORDS) => {}
                    _ = signals.next() => {}
                }
            }
            std::process::exit(exit.code().into());
        }
    }

    /// Cancelled when the user wants the work to stop.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Calls `record` at the second signal instead of ending the process at once; whoever records should end soon.
    pub fn on_second(&self, record: impl Fn(&'static str) + Send + Sync + 'static) {
        let _ = self.last_words.set(Box::new(record));
    }

    /// How the process should end if it was interrupted.
    pub fn exit(&self) -> Option<Exit> {
        match self.received.load(Ordering::SeqCst) {
            0 => None,
            143 => Some(Exit::Terminated),
            _ => Some(Exit::Interrupted),
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// Absent where a hangup is to be ignored.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Asked first: listening is what ends ignoring it.
        let hangup = if minds_hangup() { Some(signal(SignalKind::hangup())?) } else { None };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = hung_up(&mut self.hangup) => Exit::Terminated,
        }
    }
}

#[cfg(unix)]
async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether a hangup means anything to this process: `nohup` starts programs that ignore it. Where the
/// system does not tell, what it does with the signal is left as it is.
#[cfg(unix)]
fn minds_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| !ignores_hangup(&status))
}

/// Reads the mask of ignored signals; the lowest bit is signal 1, the hangup.
#[cfg(unix)]
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Exit {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Exit::Interrupted
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        for (status, expected) in [
            ("Name:\tslipway\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000000\n", true),
            ("SigIgn:\t0000000000001001\n", true),
            ("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n", false),
            ("SigIgn:\tjunk\n", false),
            ("", false),
        ] {
            assert_eq!(ignores_hangup(status), expected, "{status}");
        }
    }
}
