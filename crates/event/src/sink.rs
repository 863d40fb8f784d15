//! Destinations of records.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::Record;

/// Takes records as they happen, in order. Called from any thread; must not block for long.
pub trait Sink: Send + Sync {
    fn take(&self, record: &Record);

    /// The first failure to write, if there was one. A sink that failed goes on taking records and
    /// drops them: an engine must not stop half-way because its reader went away.
    fn failure(&self) -> Option<io::Error> {
        None
    }
}

impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn take(&self, record: &Record) {
        (**self).take(record);
    }

    fn failure(&self) -> Option<io::Error> {
        (**self).failure()
    }
}

/// Passes each record to several sinks, in the order given. None at all is a fine number.
#[derive(Default)]
pub struct Tee(pub Vec<Arc<dyn Sink>>);

impl Sink for Tee {
    fn take(&self, record: &Record) {
        for sink in &self.0 {
            sink.take(record);
        }
    }

    fn failure(&self) -> Option<io::Error> {
        self.0.iter().find_map(Sink::failure)
    }
}

/// Writes one JSON object a line.
pub struct JsonLines<W>(Mutex<Lines<W>>);

struct Lines<W> {
    out: W,
    failure: Option<(io::ErrorKind, String)>,
}

impl<W: Write + Send> JsonLines<W> {
    pub fn new(out: W) -> Self {
        Self(Mutex::new(Lines { out, failure: None }))
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).out
    }
}

impl<W: Write + Send> Sink for JsonLines<W> {
    fn take(&self, record: &Record) {
        let mut lines = lock(&self.0);
        if lines.failure.is_some() {
            return;
        }
        let written = serde_json::to_vec(record).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            lines.out.write_all(&line)?;
            lines.out.flush()
        });
        if let Err(error) = written {
            lines.failure = Some((error.kind(), error.to_string()));
        }
    }

    fn failure(&self) -> Option<io::Error> {
        let lines = lock(&self.0);
        lines.failure.as_ref().map(|(kind, message)| io::Error::new(*kind, message.clone()))
    }
}

/// Appends JSON lines to a file, one write a record.
pub struct FileSink(JsonLines<File>);

impl FileSink {
    /// Opens `path`, keeping what it holds. A new file is readable by its owner alone.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        Ok(Self(JsonLines::new(file)))
    }
}

impl Sink for FileSink {
    fn take(&self, record: &Record) {
        self.0.take(record);
    }

    fn failure(&self) -> Option<io::Error> {
        self.0.failure()
    }
}

/// Lets any number of late readers follow a run: each gets what was said before, then what follows.
pub struct Broadcast {
    past: Mutex<Vec<Arc<Record>>>,
    sender: broadcast::Sender<Arc<Record>>,
}

impl Broadcast {
    /// Makes one whose readers may fall `lag` records behind before they are told they missed some.
    pub fn new(lag: usize) -> Self {
        Self { past: Mutex::default(), sender: broadcast::Sender::new(lag.max(1)) }
    }

    /// Everything said so far, and a receiver for all that follows; nothing is lost or doubled between.
    pub fn subscribe(&self) -> (Vec<Arc<Record>>, broadcast::Receiver<Arc<Record>>) {
        let past = lock(&self.past);
        (past.clone(), self.sender.subscribe())
    }
}

impl Sink for Broadcast {
    fn take(&self, record: &Record) {
        let record = Arc::new(record.clone());
        let mut past = lock(&self.past);
        past.push(Arc::clone(&record));
        // No reader is no failure.
        let _ = self.sender.send(record);
    }
}

/// Keeps records, for tests and for reports made at the end.
#[derive(Default)]
pub struct Memory(Mutex<Vec<Record>>);

impl Memory {
    /// Takes out what was kept so far.
    pub fn drain(&self) -> Vec<Record> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Sink for Memory {
    fn take(&self, record: &Record) {
        lock(&self.0).push(record.clone());
    }
}

/// A poisoned lock only means another thread panicked between whole records.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
