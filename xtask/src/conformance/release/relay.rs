//! Passes connections on to a server, until it breaks them.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A relay on loopback; what it passes on goes on being passed on when it is dropped.
pub struct Relay {
    pub port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Listens, and passes everything on to `port`.
    pub fn start(port: u16) -> io::Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let relay = Relay { port: listener.local_addr()?.port(), open: Arc::default() };
        let open = relay.open.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let Ok(own) = near.try_clone() else { continue };
                open.lock().unwrap_or_else(PoisonError::into_inner).push(own);
                for (from, to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
                    let (Ok(mut from), Ok(mut to)) = (from, to) else { continue };
                    thread::spawn(move || {
                        // An end is an end, however it came.
                        let _ = io::copy(&mut from, &mut to);
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Ok(relay)
    }

    /// Breaks all connections; says how many were still open.
    pub fn break_all(&self) -> usize {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.iter().filter(|stream| stream.shutdown(Shutdown::Both).is_ok()).count()
    }
}
