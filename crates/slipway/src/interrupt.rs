//! Ctrl-C and termination: the first asks the work to stop, the second stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Listens for signals as long as it lives.
pub struct Interrupt {
    token: CancellationToken,
    received: Arc<AtomicU8>,
}

impl Interrupt {
    /// Starts listening; must be called inside the runtime.
    pub fn listen() -> anyhow::Result<Self> {
        let token = CancellationToken::new();
        let received = Arc::new(AtomicU8::new(0));
        let mut signals = Signals::new()?;
        let (stop, seen) = (token.clone(), Arc::clone(&received));
        tokio::spawn(async move {
            loop {
                let exit = signals.next().await;
                if stop.is_cancelled() {
                    std::process::exit(exit.code().into());
                }
                seen.store(exit.code(), Ordering::SeqCst);
                anstream::eprintln!("stopping: running work may finish; interrupt again to stop at once");
                stop.cancel();
            }
        });
        Ok(Self { token, received })
    }

    /// Cancelled when the user wants the work to stop.
    pub fn token(&self) -> &CancellationToken {
        &self.token
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
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
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
