//! The durable log: every write is on disk before its request is answered.
//!
//! A directory holds one snapshot and the log since. Records are appended to a buffer under the store's
//! lock; one thread writes and syncs whatever has gathered (group commit), then tells the waiting
//! requests and the watchers. A torn last record is cut off on opening: it was never acknowledged.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::{Change, Key, Object, Store};

const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";
const LOCK: &str = "lock";
const MAGIC: &[u8; 8] = b"slipwal1";
/// A record longer than this can only be damage: the server refuses bodies of 3 MiB.
const LONGEST: u32 = 64 << 20;
/// The log is folded into a snapshot when it is this long.
const FOLD_AT: u64 = 64 << 20;

/// The disk refused a write; the sandbox cannot promise anything any more.
#[derive(Debug, Clone, thiserror::Error)]
#[error("write the data directory: {0}")]
pub struct DurableError(String);

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(rename = "t")]
    table: std::borrow::Cow<'a, str>,
    #[serde(rename = "n")]
    namespace: std::borrow::Cow<'a, str>,
    #[serde(rename = "m")]
    name: std::borrow::Cow<'a, str>,
    #[serde(rename = "r")]
    rev: u64,
    /// `a`dded, `m`odified, `d`eleted, `s`napshot.
    #[serde(rename = "c")]
    change: char,
    #[serde(rename = "o", borrow)]
    object: &'a RawValue,
}

/// One record read back.
pub(super) struct Record {
    pub table: String,
    pub key: Key,
    pub rev: u64,
    /// `None` for a line of the snapshot.
    pub change: Option<Change>,
    pub tail: Bytes,
    /// The snapshot's revision.
    pub floor: u64,
}

#[derive(Default)]
struct Pending {
    buffer: Vec<u8>,
    rev: u64,
    closed: bool,
}

/// The log of one store.
pub(crate) struct Log {
    dir: PathBuf,
    pending: Arc<(Mutex<Pending>, Condvar)>,
    done: Arc<watch::Sender<Result<u64, DurableError>>>,
    file: Mutex<Option<File>>,
    lock: Arc<File>,
}

/// What the directory held when it was opened.
pub(super) struct State {
    snapshot: Option<BufReader<File>>,
    /// Where the snapshot is, for complaints.
    file: PathBuf,
    floor: u64,
    log: io::Cursor<Vec<u8>>,
    rev: u64,
}

impl Log {
    pub(super) fn open(dir: &Path) -> io::Result<(Log, State)> {
        std::fs::create_dir_all(dir)?;
        let lock = Arc::new(claim(dir)?);
        let snapshot = match File::open(dir.join(SNAPSHOT)) {
            Ok(file) => Some(BufReader::new(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(dir.join(LOG))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        if !text.starts_with(MAGIC) && !MAGIC.starts_with(&text) {
            return Err(damaged(&dir.join(LOG), "it is not a sandbox's log"));
        }
        let good = whole_records(&text);
        if let Some(at) = record_after_damage(&text, good) {
            let why = format!("the record at byte {good} is broken, yet whole ones follow at byte {at}");
            return Err(damaged(&dir.join(LOG), &why));
        }
        if good < text.len() as u64 {
            file.set_len(good)?;
            text.truncate(usize::try_from(good).unwrap_or(0));
        }
        if good == 0 {
            file.set_len(0)?;
            file.write_all(MAGIC)?;
            file.sync_data()?;
            text.clear();
        }
        let mut log = io::Cursor::new(text);
        log.set_position(MAGIC.len().min(log.get_ref().len()) as u64);
        let mut state = State { snapshot: None, file: dir.join(SNAPSHOT), floor: 0, log, rev: 0 };
        if let Some(mut reader) = snapshot {
            let mut head = [0_u8; 16];
            if reader.read_exact(&mut head).is_err() || &head[..8] != MAGIC {
                return Err(damaged(&dir.join(SNAPSHOT), "it is not a sandbox's snapshot"));
            }
            state.floor = u64::from_le_bytes(head[8..].try_into().unwrap_or_default());
            state.rev = state.floor;
            state.snapshot = Some(reader);
        }
        let log = Log {
            dir: dir.to_owned(),
            pending: Arc::default(),
            done: Arc::new(watch::channel(Ok(u64::MAX)).0),
            file: Mutex::new(Some(file)),
            lock,
        };
        Ok((log, state))
    }

    /// Starts the thread that writes. It ends when the store is dropped.
    pub(super) fn start(&self, store: Weak<Store>) {
        let Some(file) = lock(&self.file).take() else { return };
        let (pending, done, dir) = (self.pending.clone(), self.done.clone(), self.dir.clone());
        let _lock = self.lock.clone();
        let rev = store.upgrade().map_or(0, |s| s.rev());
        let _ = done.send_replace(Ok(rev));
        lock(&pending.0).rev = rev;
        let spawned = std::thread::Builder::new()
            .name("sandbox-log".into())
            .spawn(move || Writer { file, dir, pending, done, store, _lock }.run());
        if let Err(e) = spawned {
            let _ = self.done.send_replace(Err(DurableError(e.to_string())));
        }
    }

    pub(super) fn append(&self, table: &str, change: Change, object: &Object) {
        let code = match change {
            Change::Added => 'a',
            Change::Modified => 'm',
            Change::Deleted => 'd',
        };
        let mut pending = lock(&self.pending.0);
        frame(&mut pending.buffer, table, code, object);
        pending.rev = pending.rev.max(object.rev);
        self.pending.1.notify_one();
    }

    pub(super) async fn durable(&self, rev: u64) -> Result<(), DurableError> {
        let mut done = self.done.subscribe();
        loop {
            match &*done.borrow_and_update() {
                Ok(at) if *at >= rev => return Ok(()),
                Ok(_) => {}
                Err(e) => return Err(e.clone()),
            }
            if done.changed().await.is_err() {
                return Err(DurableError("the log has stopped".into()));
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        lock(&self.pending.0).closed = true;
        self.pending.1.notify_one();
    }
}

struct Writer {
    file: File,
    dir: PathBuf,
    pending: Arc<(Mutex<Pending>, Condvar)>,
    done: Arc<watch::Sender<Result<u64, DurableError>>>,
    store: Weak<Store>,
    /// The directory is this process's as long as something may be written to it.
    _lock: Arc<File>,
}

impl Writer {
    fn run(mut self) {
        let mut length = self.file.metadata().map_or(0, |m| m.len());
        loop {
            let (buffer, rev) = {
                let mut pending = lock(&self.pending.0);
                while pending.buffer.is_empty() {
                    if pending.closed {
                        return;
                    }
                    pending = self.pending.1.wait(pending).unwrap_or_else(PoisonError::into_inner);
                }
                (std::mem::take(&mut pending.buffer), pending.rev)
            };
            if let Err(e) = self.file.write_all(&buffer).and_then(|()| self.file.sync_data()) {
                let _ = self.done.send_replace(Err(DurableError(e.to_string())));
                return;
            }
            length += buffer.len() as u64;
            if let Some(store) = self.store.upgrade() {
                store.flushed(rev);
            }
            let _ = self.done.send_replace(Ok(rev));
            if length > FOLD_AT {
                match self.fold() {
                    Ok(()) => length = MAGIC.len() as u64,
                    Err(e) => {
                        let _ = self.done.send_replace(Err(DurableError(e.to_string())));
                        return;
                    }
                }
            }
        }
    }

    /// Replaces the log by a snapshot. Records gathered meanwhile go to the new log; a crash between the
    /// two renames replays records the snapshot already has, which changes nothing.
    fn fold(&mut self) -> io::Result<()> {
        let Some(store) = self.store.upgrade() else { return Ok(()) };
        let (rev, objects) = store.dump();
        let tmp = self.dir.join("snapshot.new");
        let mut file = io::BufWriter::new(File::create(&tmp)?);
        file.write_all(MAGIC)?;
        file.write_all(&rev.to_le_bytes())?;
        let mut buffer = Vec::new();
        for (table, object) in &objects {
            buffer.clear();
            frame(&mut buffer, table, 's', object);
            file.write_all(&buffer)?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&tmp, self.dir.join(SNAPSHOT))?;
        let fresh = self.dir.join("log.new");
        let mut log = File::create(&fresh)?;
        log.write_all(MAGIC)?;
        log.sync_all()?;
        std::fs::rename(&fresh, self.dir.join(LOG))?;
        File::open(&self.dir)?.sync_all()?;
        self.file = OpenOptions::new().append(true).open(self.dir.join(LOG))?;
        Ok(())
    }
}

impl State {
    pub(super) fn rev(&self) -> u64 {
        self.rev
    }

    pub(super) fn next_record(&mut self) -> io::Result<Option<Record>> {
        if let Some(reader) = &mut self.snapshot {
            // A snapshot is renamed into place when it is whole: anything broken in it is damage.
            if !reader.fill_buf()?.is_empty() {
                let record = read_frame(reader).and_then(|text| parse(&text, self.floor));
                return record.map(Some).ok_or_else(|| damaged(&self.file, "a record is broken"));
            }
            self.snapshot = None;
        }
        loop {
            let record = read_frame(&mut self.log).and_then(|text| parse(&text, self.floor));
            // A fold that crashed half way leaves records the snapshot already holds.
            match record {
                Some(record) if record.rev <= self.floor => {}
                other => return Ok(other),
            }
        }
    }
}

fn parse(text: &[u8], floor: u64) -> Option<Record> {
    let line: Line<'_> = serde_json::from_slice(text).ok()?;
    let change = match line.change {
        'a' => Some(Change::Added),
        'm' => Some(Change::Modified),
        'd' => Some(Change::Deleted),
        _ => None,
    };
    Some(Record {
        table: line.table.into_owned(),
        key: Key::new(&line.namespace, &line.name),
        rev: line.rev,
        change,
        // The object is kept whole in the record; its tail starts after the brace.
        tail: Bytes::copy_from_slice(line.object.get().as_bytes().get(1..)?),
        floor,
    })
}

/// Appends one record: length, checksum, JSON.
fn frame(out: &mut Vec<u8>, table: &str, change: char, object: &Object) {
    let mut whole = String::with_capacity(object.tail.len() + 1);
    whole.push('{');
    whole.push_str(std::str::from_utf8(&object.tail).unwrap_or("}"));
    let Ok(raw) = RawValue::from_string(whole) else { return };
    let line = Line {
        table: table.into(),
        namespace: (&*object.key.namespace).into(),
        name: (&*object.key.name).into(),
        rev: object.rev,
        change,
        object: &raw,
    };
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    if serde_json::to_writer(&mut *out, &line).is_err() {
        out.truncate(start);
        return;
    }
    let length = u32::try_from(out.len() - start - 8).unwrap_or(0);
    let sum = checksum(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

fn read_frame(reader: &mut impl Read) -> Option<Vec<u8>> {
    let mut head = [0_u8; 8];
    reader.read_exact(&mut head).ok()?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?);
    let sum = u32::from_le_bytes(head[4..].try_into().ok()?);
    if length > LONGEST {
        return None;
    }
    let mut text = vec![0; length as usize];
    reader.read_exact(&mut text).ok()?;
    (checksum(&text) == sum).then_some(text)
}

/// How many bytes of a log are whole records.
fn whole_records(text: &[u8]) -> u64 {
    if !text.starts_with(MAGIC) {
        return 0;
    }
    let mut cursor = io::Cursor::new(text);
    cursor.set_position(MAGIC.len() as u64);
    let mut good = cursor.position();
    while read_frame(&mut cursor).is_some() {
        good = cursor.position();
    }
    good
}

/// Where a whole record follows a broken one. Then the broken one is no torn tail: what comes after it
/// was acknowledged, and cutting it off would lose it.
fn record_after_damage(text: &[u8], good: u64) -> Option<u64> {
    let start = usize::try_from(good).ok()?;
    let head = text.get(start..start + 4)?;
    let length = u32::from_le_bytes(head.try_into().ok()?);
    if length > LONGEST {
        return None;
    }
    let next = start.checked_add(8)?.checked_add(length as usize)?;
    let mut rest = io::Cursor::new(text.get(next..)?);
    read_frame(&mut rest).filter(|record| parse(record, 0).is_some()).map(|_| next as u64)
}

/// How long a sandbox that is just ending may take to let go of its directory.
const HANDOVER: Duration = Duration::from_secs(2);

/// Makes sure that no other sandbox writes here.
fn claim(dir: &Path) -> io::Result<File> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
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

fn damaged(file: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {why}", file.display()))
}

fn checksum(text: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(text);
    crc.sum()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
