//! A journal in a file: one JSON value a line, appended and flushed to the disk.
//!
//! The first line is `{"slipway-journal":1,"graph":"sha256:…","sum":"…"}`, every other one a [`JournalRecord`] with
//! a checksum. A line counts once its line break is written. A crash can only damage the end: an unfinished or
//! unreadable last line is cut off when the journal is opened, anything unreadable before it is an error.

use std::fs::{File, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use slipway_graph::{Fingerprint, Id, Journal, JournalError, JournalRecord};
use slipway_problem::{Location, Problem};

use crate::chain::Chain;
use crate::files;

const FORMAT: u64 = 1;
/// The beginning of every journal; what begins otherwise is somebody else's file and is never cut.
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
    torn: Option<TornLine>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    /// The end of the last whole line. What lies beyond, if anything, is left of a failed write.
    end: u64,
    chain: Chain,
    graph: Option<Fingerprint>,
    records: Vec<JournalRecord>,
}

/// The end of a journal that a crash left unfinished; it was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornLine {
    /// Its place in the file.
    pub at: Location,
    /// Its length in bytes.
    pub bytes: usize,
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
    records: Vec<JournalRecord>,
    chain: Chain,
    end: usize,
    torn: Option<TornLine>,
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
        let opened = files::private().read(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(failed("open"))?;
        keep_private(&file).map_err(failed("protect"))?;
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
        let Parsed { graph, records, chain, end, torn } = parse(&path, &bytes)?;
        if end < bytes.len() {
            file.set_len(end as u64).and_then(|()| file.sync_all()).map_err(failed("repair"))?;
        }
        if bytes.is_empty() {
            files::sync_directory(&path).map_err(failed("create"))?;
        }
        let inner = Inner { file, end: end as u64, chain, graph, records };
        Ok(Self { path, inner: Arc::new(Mutex::new(inner)), torn })
    }

    /// Reads a journal without opening it for writing, whoever else is using it: what it is bound to and
    /// every whole record.
    pub fn read(path: impl AsRef<Path>) -> Result<(Option<Fingerprint>, Vec<JournalRecord>), JournalError> {
        let path = path.as_ref();
        let bytes = slipway_problem::read_file_within(path, LARGEST).map_err(|source| JournalError::Io {
            path: path.to_owned(),
            doing: "read",
            source: Arc::new(source),
        })?;
        parse(path, &bytes).map(|parsed| (parsed.graph, parsed.records))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The graph it is bound to; none before its first run.
    pub fn graph(&self) -> Option<Fingerprint> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).graph.clone()
    }

    /// Everything recorded so far.
    pub fn records(&self) -> Vec<JournalRecord> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).records.clone()
    }

    /// The unfinished line that was cut off when the journal was opened.
    pub fn torn(&self) -> Option<&TornLine> {
        self.torn.as_ref()
    }

    /// Nodes that were running when the earlier run died, in the order they started. Nobody knows how far they
    /// got, and they run again.
    pub fn interrupted(&self) -> Vec<Id> {
        let mut open: Vec<Id> = Vec::new();
        for record in &self.inner.lock().unwrap_or_else(PoisonError::into_inner).records {
            open.retain(|id| id != record.id());
            if let JournalRecord::Started { id, .. } = record {
                open.push(id.clone());
            }
        }
        open
    }

    /// Another handle of the file. The journal stays locked as long as anybody has one: a process that inherits it
    /// and outlives this one keeps the next run waiting.
    pub fn handle(&self) -> io::Result<File> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).file.try_clone()
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
    async fn begin(&mut self, graph: &Fingerprint) -> Result<Vec<JournalRecord>, JournalError> {
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
            let mut chain = Chain::default();
            chain.seal(&mut line);
            inner.write(&line)?;
            inner.chain = chain;
            inner.graph = Some(graph);
            Ok(Vec::new())
        })
        .await
    }

    async fn append(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        let records = records.to_vec();
        self.blocking("write to", move |inner| {
            let mut lines = Vec::new();
            // A failed write leaves the chain where it was: its lines are cut off.
            let mut chain = inner.chain.clone();
            for record in &records {
                let mut line = serde_json::to_vec(record)?;
                chain.seal(&mut line);
                lines.extend(line);
            }
            inner.write(&lines)?;
            inner.chain = chain;
            inner.records.extend(records);
            Ok(())
        })
        .await
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Parsed, JournalError> {
    let mut parsed = Parsed { graph: None, records: Vec::new(), chain: Chain::default(), end: 0, torn: None };
    let mut rest = bytes;
    let mut number = 0;
    while let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = (&rest[..length], &rest[length + 1..]);
        number += 1;
        let mut chain = parsed.chain.clone();
        let read =
            if number == 1 { read_header(path, line, &mut parsed)? } else { read_record(line, &mut parsed) };
        let damage = match read {
            Err(error) => Some(Damage::Unreadable { column: error.column() as u32 }),
            Ok(()) if chain.check(line) => None,
            Ok(()) => Some(Damage::Checksum),
        };
        match damage {
            None => {
                parsed.chain = chain;
                parsed.end = bytes.len() - after.len();
            }
            Some(damage) if after.is_empty() && number > 1 => {
                if matches!(damage, Damage::Checksum) {
                    parsed.records.pop();
                }
                number -= 1;
                break;
            }
            Some(damage) => return Err(damaged(path, number, damage)),
        }
        rest = after;
    }
    let torn_header = rest.starts_with(HEADER_START) || HEADER_START.starts_with(rest);
    if number == 0 && !torn_header {
        return Err(damaged(path, 1, Damage::Unreadable { column: 1 }));
    }
    if !rest.is_empty() {
        let at = Location { line: number + 1, ..Location::file(path.display().to_string()) };
        parsed.torn = Some(TornLine { at, bytes: rest.len() });
    }
    Ok(parsed)
}

fn read_header(
    path: &Path,
    line: &[u8],
    parsed: &mut Parsed,
) -> Result<Result<(), serde_json::Error>, JournalError> {
    match serde_json::from_slice::<Header>(line) {
        Ok(header) if header.format != FORMAT => {
            Err(JournalError::Version { path: path.to_owned(), found: header.format, supported: FORMAT })
        }
        Ok(header) => {
            parsed.graph = header.graph;
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error)),
    }
}

fn read_record(line: &[u8], parsed: &mut Parsed) -> Result<(), serde_json::Error> {
    parsed.records.push(serde_json::from_slice(line)?);
    Ok(())
}

/// The way a line is wrong.
#[derive(Clone, Copy)]
enum Damage {
    Unreadable { column: u32 },
    Checksum,
}

fn damaged(path: &Path, line: u32, damage: Damage) -> JournalError {
    let file = path.display().to_string();
    let (at, message) = match damage {
        Damage::Unreadable { column } if line == 1 => {
            (Location::new(file, line, column), "this is not a journal")
        }
        Damage::Unreadable { column } => {
            (Location::new(file, line, column), "the journal is damaged: this is not a record")
        }
        Damage::Checksum => {
            let at = Location { line, ..Location::file(file) };
            (
                at,
                "the journal is damaged: this line does not match its checksum, or a line before it is missing",
            )
        }
    };
    let hint = "records from here on cannot be trusted; start a new run, or restore the file from a copy";
    JournalError::Corrupt(Box::new(Problem::error(message).at(at).hint(hint)))
}

/// A journal is its owner's alone, whoever created the file.
#[cfg(unix)]
fn keep_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match file.set_permissions(std::fs::Permissions::from_mode(mode & 0o700)) {
        // Somebody else's file is somebody else's to protect.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

#[cfg(not(unix))]
fn keep_private(_: &File) -> io::Result<()> {
    Ok(())
}
