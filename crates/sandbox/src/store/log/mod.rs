//! The durable log: every write is on disk before its request is answered.
//!
//! A directory holds one snapshot, the log since, and the number of the last acknowledged record. Records
//! are appended to a buffer under the store's lock; one thread writes and syncs whatever has gathered
//! (group commit), then tells the waiting requests and the watchers. What the disk refuses is undone in
//! memory. Reading a directory back, damaged or not, is in `recover`.

mod frame;
mod head;
mod old;
mod record;
mod recover;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{ChangeType, PlacedObject, Store, StoredObject, private};
use head::HeadFile;
pub(super) use record::LogRecord;
pub use recover::{DataNotice, RecoveryMode};
use writer::LogWriter;

const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";
const LOCK: &str = "lock";
const LOG_MAGIC: &[u8; 8] = b"slipwal2";
const SNAPSHOT_MAGIC: &[u8; 8] = b"slipsnp2";
/// The log is folded into a snapshot when it is this long.
const FOLD_AT: u64 = 64 << 20;

/// The disk refused a write: it did not happen.
#[derive(Debug, Clone, thiserror::Error)]
#[error("write the data directory: {0}")]
pub struct DurableError(String);

/// Writes bytes to a file. Tests put one between that runs full.
pub(crate) trait Disk: Send + Sync {
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()>;
}

/// The machine's own disk.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }
}

/// The options of a log.
#[derive(Clone)]
pub(crate) struct LogOptions {
    pub recovery: RecoveryMode,
    pub disk: Arc<dyn Disk>,
    /// The length at which the log is folded into a snapshot.
    pub fold_at: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { recovery: RecoveryMode::Strict, disk: Arc::new(RealDisk), fold_at: FOLD_AT }
    }
}

#[derive(Default)]
struct PendingRecords {
    buffer: Vec<u8>,
    /// The revision of the last record in the buffer.
    rev: u64,
    /// The number of the last record in the buffer.
    sequence: u64,
    /// Somebody wants to know whether the disk takes writes again.
    probe: bool,
    closed: bool,
}

/// The progress of writing.
#[derive(Debug, Clone, Default)]
struct WriteProgress {
    flushed: u64,
    /// Revisions that the disk refused.
    refused: Vec<RefusedRange>,
    /// The error of the last attempt, until one succeeds.
    failing: Option<DurableError>,
    /// Number of attempts.
    attempts: u64,
}

#[derive(Debug, Clone)]
struct RefusedRange {
    revisions: RangeInclusive<u64>,
    error: DurableError,
}

/// Ranges kept for requests that have not looked yet.
const MOST_RANGES: usize = 1024;

impl WriteProgress {
    fn refuse_range(&mut self, revisions: RangeInclusive<u64>, error: &DurableError) {
        match self.refused.last_mut() {
            // Between two failures in a row nothing was written.
            Some(range) if self.failing.is_some() => {
                range.revisions = *range.revisions.start()..=*revisions.end();
            }
            _ => self.refused.push(RefusedRange { revisions, error: error.clone() }),
        }
        if self.refused.len() > MOST_RANGES {
            self.refused.remove(0);
        }
    }

    fn outcome_of(&self, rev: u64) -> Option<Result<(), DurableError>> {
        if let Some(range) = self.refused.iter().find(|r| r.revisions.contains(&rev)) {
            return Some(Err(range.error.clone()));
        }
        (self.flushed >= rev).then_some(Ok(()))
    }
}

/// The log of one store.
pub(crate) struct DurableLog {
    dir: PathBuf,
    options: LogOptions,
    pending: Arc<(Mutex<PendingRecords>, Condvar)>,
    progress: Arc<watch::Sender<WriteProgress>>,
    /// The files until the writing thread takes them.
    files: Mutex<Option<(File, HeadFile)>>,
    lock: Arc<File>,
    notices: Vec<DataNotice>,
}

/// The log that was opened, and what is to be done with it.
pub(super) struct Opened {
    pub log: DurableLog,
    pub floor: u64,
    pub state: FileState,
}

/// The state of the files: current, or written by an older version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileState {
    Good,
    /// They are in an older format or were damaged: write them anew.
    Stale,
}

impl DurableLog {
    /// Opens the log in `dir` and hands every record to `replay`.
    pub(super) fn open(
        dir: &Path,
        options: LogOptions,
        replay: &mut dyn FnMut(LogRecord),
    ) -> io::Result<Opened> {
        private::create_directory(dir)?;
        let lock = Arc::new(claim(dir)?);
        private::narrow_files(dir)?;
        let found = recover::recover_directory(dir, options.recovery, replay)?;
        let path = dir.join(LOG);
        let mut file = private::open_private(&path, OpenOptions::new().read(true).append(true).create(true))?;
        if let Some(length) = found.log_length {
            file.set_len(length)?;
            if length == 0 {
                file.write_all(LOG_MAGIC)?;
            }
            file.sync_all()?;
            private::sync_directory(dir)?;
        }
        let head = HeadFile::open(dir, found.sequence)?;
        let pending = PendingRecords { sequence: found.sequence, ..PendingRecords::default() };
        let log = DurableLog {
            dir: dir.to_owned(),
            options,
            pending: Arc::new((Mutex::new(pending), Condvar::new())),
            progress: Arc::new(
                watch::channel(WriteProgress { flushed: u64::MAX, ..WriteProgress::default() }).0,
            ),
            files: Mutex::new(Some((file, head))),
            lock,
            notices: found.notices,
        };
        let state = if found.log_length.is_some() { FileState::Good } else { FileState::Stale };
        Ok(Opened { log, floor: found.floor, state })
    }

    /// Writes snapshot and log anew from what was read.
    pub(super) fn rewrite(&self, rev: u64, objects: &[PlacedObject]) -> io::Result<()> {
        let sequence = lock(&self.pending.0).sequence;
        write_snapshot(&self.dir, &*self.options.disk, rev, sequence, objects)?;
        let file = start_log(&self.dir)?;
        if let Some((log, _)) = &mut *lock(&self.files) {
            *log = file;
        }
        Ok(())
    }

    /// Starts the thread that writes. It ends when the store is dropped.
    pub(super) fn start(&self, store: Weak<Store>) {
        let Some((file, head)) = lock(&self.files).take() else { return };
        let rev = store.upgrade().map_or(0, |s| s.current_revision());
        self.progress.send_modify(|progress| progress.flushed = rev);
        lock(&self.pending.0).rev = rev;
        let writer = LogWriter {
            length: file.metadata().map_or(0, |m| m.len()),
            sequence: lock(&self.pending.0).sequence,
            fold_at: self.options.fold_at,
            file,
            head,
            dir: self.dir.clone(),
            options: self.options.clone(),
            pending: self.pending.clone(),
            progress: self.progress.clone(),
            store,
            _lock: self.lock.clone(),
        };
        let spawned = std::thread::Builder::new().name("sandbox-log".into()).spawn(move || writer.run());
        if let Err(e) = spawned {
            let error = DurableError(e.to_string());
            self.progress.send_modify(|progress| {
                progress.refuse_range(rev + 1..=u64::MAX, &error);
                progress.failing = Some(error.clone());
            });
        }
    }

    pub(super) fn append(&self, table: &str, change: ChangeType, object: &StoredObject) {
        let payload = record::encode_record(table, Some(change), object);
        let mut pending = lock(&self.pending.0);
        pending.sequence += 1;
        let sequence = pending.sequence;
        frame::append_frame(&mut pending.buffer, sequence, &payload);
        pending.rev = pending.rev.max(object.rev);
        self.pending.1.notify_one();
    }

    /// Returns when everything up to `rev` is on disk, or was refused.
    pub(super) async fn durable(&self, rev: u64) -> Result<(), DurableError> {
        let mut progress = self.progress.subscribe();
        loop {
            if let Some(known) = progress.borrow_and_update().outcome_of(rev) {
                return known;
            }
            if progress.changed().await.is_err() {
                return Err(DurableError("the log has stopped".into()));
            }
        }
    }

    /// Finds out whether the disk takes writes. At once unless the last attempt failed.
    pub(super) async fn probe(&self) -> Result<(), DurableError> {
        let mut progress = self.progress.subscribe();
        let attempts = {
            let known = progress.borrow_and_update();
            if known.failing.is_none() {
                return Ok(());
            }
            known.attempts
        };
        lock(&self.pending.0).probe = true;
        self.pending.1.notify_one();
        loop {
            if progress.changed().await.is_err() {
                return Err(DurableError("the log has stopped".into()));
            }
            let known = progress.borrow_and_update();
            if known.attempts > attempts {
                return known.failing.clone().map_or(Ok(()), Err);
            }
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        self.progress.borrow().failing.is_some()
    }

    /// Returns when the disk takes writes.
    pub(super) async fn recovered(&self) {
        let mut progress = self.progress.subscribe();
        let _ = progress.wait_for(|progress| progress.failing.is_none()).await;
    }

    pub(super) fn notices(&self) -> &[DataNotice] {
        &self.notices
    }
}

impl Drop for DurableLog {
    fn drop(&mut self) {
        lock(&self.pending.0).closed = true;
        self.pending.1.notify_one();
    }
}

/// The first bytes of a snapshot.
#[derive(Debug, Clone, Copy)]
struct SnapshotHeader {
    /// The revision the snapshot was taken at.
    floor: u64,
    /// The number of the last record it contains.
    sequence: u64,
    /// Number of objects that follow.
    count: u64,
}

impl SnapshotHeader {
    const LENGTH: usize = 36;

    fn encode(self) -> [u8; SnapshotHeader::LENGTH] {
        let mut out = [0; SnapshotHeader::LENGTH];
        out[..8].copy_from_slice(SNAPSHOT_MAGIC);
        out[8..16].copy_from_slice(&self.floor.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.count.to_le_bytes());
        let sum = frame::crc_checksum(&out[..32]);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn parse(text: &[u8]) -> Option<SnapshotHeader> {
        let header = text.get(..SnapshotHeader::LENGTH)?;
        let sum = u32::from_le_bytes(*header[32..].first_chunk()?);
        if &header[..8] != SNAPSHOT_MAGIC || frame::crc_checksum(&header[..32]) != sum {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(*header[at..].first_chunk()?));
        Some(SnapshotHeader { floor: number(8)?, sequence: number(16)?, count: number(24)? })
    }
}

/// Replaces the snapshot. A crash leaves the old one or the new one.
fn write_snapshot(
    dir: &Path,
    disk: &dyn Disk,
    floor: u64,
    sequence: u64,
    objects: &[PlacedObject],
) -> io::Result<()> {
    let fresh = dir.join("snapshot.new");
    let written = (|| {
        let mut file = private::create_private(&fresh)?;
        let header = SnapshotHeader { floor, sequence, count: objects.len() as u64 };
        let mut buffer = header.encode().to_vec();
        for (number, (table, object)) in (1..).zip(objects) {
            frame::append_frame(&mut buffer, number, &record::encode_record(table, None, object));
            if buffer.len() > 1 << 20 {
                disk.write(&mut file, &buffer)?;
                buffer.clear();
            }
        }
        disk.write(&mut file, &buffer)?;
        file.sync_all()
    })();
    if let Err(e) = written {
        // Half a snapshot only takes room.
        let _ = std::fs::remove_file(&fresh);
        return Err(e);
    }
    std::fs::rename(&fresh, dir.join(SNAPSHOT))?;
    private::sync_directory(dir)
}

/// Replaces the log by an empty one, open for appending.
fn start_log(dir: &Path) -> io::Result<File> {
    let path = dir.join(LOG);
    private::replace_file(&path, LOG_MAGIC)?;
    private::open_private(&path, OpenOptions::new().append(true))
}

/// Time limit for another sandbox that is ending to release the directory: on a busy machine its last connections take a while.
const HANDOVER: Duration = Duration::from_secs(10);

/// Makes sure that no other sandbox writes here.
fn claim(dir: &Path) -> io::Result<File> {
    let path = dir.join(LOCK);
    let file = private::open_private(&path, OpenOptions::new().write(true).create(true).truncate(false))?;
    let deadline = Instant::now() + HANDOVER;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(e),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another sandbox uses it"));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
