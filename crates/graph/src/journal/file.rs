//! A journal in a file: one JSON value a line, appended and flushed to the disk.
//!
//! The first line is `{"slipway-journal":1,"graph":"sha256:…"}`, every other one a [`Record`]. A line
//! counts once its line break is written. A crash can only damage the end: an unfinished or unreadable
//! last line is cut off when the journal is opened, anything unreadable before it is an error.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use slipway_problem::{Location, Problem};

use super::{Journal, JournalError, Record};
use crate::Fingerprint;

const FORMAT: u64 = 1;
/// How every journal begins; what begins otherwise is somebody else's file and is never cut.
const HEADER_START: &[u8] = b"{\"slipway-journal\":";

/// A journal in a file, locked while it is open.
///
/// Writing and flushing happen on tokio's blocking threads, one flush for all records of a batch, so
/// nodes that are running are not held up.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    /// Shared with a write under way, which goes on even if the run is dropped.
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    /// Where the last whole line ends. What lies beyond, if anything, is left of a failed write.
    end: u64,
    graph: Option<Fingerprint>,
    records: Vec<Record>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "slipway-journal")]
    format: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    graph: Option<Fingerprint>,
}

struct Parsed {
    graph: Option<Fingerprint>,
    records: Vec<Record>,
    end: usize,
}

/// The largest journal that is read: far beyond what the largest graph writes.
const LARGEST: u64 = 1 << 30;

impl FileJournal {
    /// Opens a journal, or starts one, readable by its owner alone. Fails if another process has it open.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let failed = |doing| {
            let path = path.clone();
            move |source| JournalError::Io { path, doing, source: Arc::new(source) }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            let message = "it is no ordinary file";
            return Err(failed("use")(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let bytes = slipway_problem::read_stream(&file, LARGEST).map_err(failed("read"))?;
        let Parsed { graph, records, end } = parse(&path, &bytes)?;
        if end < bytes.len() {
            file.set_len(end as u64).and_then(|()| file.sync_all()).map_err(failed("repair"))?;
        }
        if bytes.is_empty() {
            sync_directory(&path).map_err(failed("create"))?;
        }
        let inner = Inner { file, end: end as u64, graph, records };
        Ok(Self { path, inner: Arc::new(Mutex::new(inner)) })
    }

    /// Reads a journal without opening it for writing, whoever else is using it: what it is bound to and
    /// every whole record.
    pub fn read(path: impl AsRef<Path>) -> Result<(Option<Fingerprint>, Vec<Record>), JournalError> {
        let path = path.as_ref();
        let bytes = slipway_problem::read_file_within(path, LARGEST).map_err(|source| JournalError::Io {
            path: path.to_owned(),
            doing: "read",
            source: Arc::new(source),
        })?;
        parse(path, &bytes).map(|parsed| (parsed.graph, parsed.records))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The graph it is bound to; none before its first run.
    pub fn graph(&self) -> Option<Fingerprint> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).graph.clone()
    }

    /// Everything recorded so far.
    pub fn records(&self) -> Vec<Record> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).records.clone()
    }

    /// Runs blocking work on the file where it holds nobody up.
    async fn blocking<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Inner) -> io::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&mut inner.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let done = done.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        done.map_err(|source| JournalError::Io { path: self.path.clone(), doing, source: Arc::new(source) })
    }
}

impl Inner {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self
            .file
            .seek(SeekFrom::Start(self.end))
            .and_then(|_| self.file.write_all(lines))
            .and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.end += lines.len() as u64,
            // On a full disk this gives the space back; if it fails too, opening repairs it.
            Err(_) => drop(self.file.set_len(self.end)),
        }
        written
    }
}

impl Journal for FileJournal {
    async fn begin(&mut self, graph: &Fingerprint) -> Result<Vec<Record>, JournalError> {
        if let Some(bound) = self.graph() {
            if bound != *graph {
                return Err(JournalError::Mismatch { journal: bound, graph: graph.clone() });
            }
            return Ok(self.records());
        }
        let graph = graph.clone();
        self.blocking("start", move |inner| {
            let header = Header { format: FORMAT, graph: Some(graph.clone()) };
            let mut line = serde_json::to_vec(&header)?;
            line.push(b'\n');
            inner.write(&line)?;
            inner.graph = Some(graph);
            Ok(Vec::new())
        })
        .await
    }

    async fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let records = records.to_vec();
        self.blocking("write to", move |inner| {
            let mut lines = Vec::new();
            for record in &records {
                serde_json::to_writer(&mut lines, record)?;
                lines.push(b'\n');
            }
            inner.write(&lines)?;
            inner.records.extend(records);
            Ok(())
        })
        .await
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Parsed, JournalError> {
    let mut parsed = Parsed { graph: None, records: Vec::new(), end: 0 };
    let mut rest = bytes;
    let mut number = 0;
    while let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = (&rest[..length], &rest[length + 1..]);
        number += 1;
        let read = if number == 1 {
            match serde_json::from_slice::<Header>(line) {
                Ok(header) if header.format != FORMAT => {
                    let path = path.to_owned();
                    return Err(JournalError::Version { path, found: header.format, supported: FORMAT });
                }
                Ok(header) => {
                    parsed.graph = header.graph;
                    Ok(())
                }
                Err(error) => Err(error),
            }
        } else {
            serde_json::from_slice(line).map(|record| parsed.records.push(record))
        };
        match read {
            Ok(()) => parsed.end = bytes.len() - after.len(),
            Err(_) if after.is_empty() && number > 1 => break,
            Err(error) => return Err(damaged(path, number, error.column() as u32)),
        }
        rest = after;
    }
    let torn_header = rest.starts_with(HEADER_START) || HEADER_START.starts_with(rest);
    if number == 0 && !torn_header {
        return Err(damaged(path, 1, 1));
    }
    Ok(parsed)
}

fn damaged(path: &Path, line: u32, column: u32) -> JournalError {
    let at = Location::new(path.display().to_string(), line, column);
    let message =
        if line == 1 { "this is not a journal" } else { "the journal is damaged: this is not a record" };
    let hint = "records from here on cannot be trusted; start a new run, or restore the file from a copy";
    JournalError::Corrupt(Box::new(Problem::error(message).at(at).hint(hint)))
}

/// Makes the name of a new file survive a crash.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}
