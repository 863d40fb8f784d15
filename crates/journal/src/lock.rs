//! One writer for each subject of runs: the operating system's file lock, and who holds it for people to read.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::RecordError;
use crate::files;

/// Time a silent holder is believed to live.
const TTL: Duration = Duration::from_secs(60);

/// The holder of a lock, as its file names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockHolder {
    /// `user@host:pid`.
    pub owner: String,
    #[serde(default)]
    pub run_id: String,
    pub acquired_at: Timestamp,
    pub heartbeat_at: Timestamp,
    /// In seconds.
    pub ttl: u64,
}

/// The way a lock that somebody holds is dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    #[default]
    Never,
    /// Take it from a holder that has not been heard of for a minute.
    IfStale,
    /// Take it from anybody.
    Force,
}

/// A lock that is held; given back when dropped.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    file: File,
    holder: LockHolder,
    /// Whom it was taken over from.
    pub taken_from: Option<LockHolder>,
}

/// The reason why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody holds it; the holder is absent where the file does not name one.
    #[error("the lock is held by {}", .0.as_ref().map_or("another process", |holder| holder.owner.as_str()))]
    Held(Option<LockHolder>),
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl RunLock {
    /// Takes the lock at `path` for `owner` (`user@host:pid`), or tells who has it.
    pub fn acquire(path: &Path, owner: &str, now: Timestamp, takeover: Takeover) -> Result<Self, LockError> {
        let failed = |doing| RecordError::io(doing, path);
        if let Some(parent) = path.parent() {
            files::directories(parent).map_err(failed("create"))?;
        }
        let open = || files::private().read(true).create(true).truncate(false).open(path);
        let mut file = open().map_err(failed("open"))?;
        let held = match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            // Without file locks only the heartbeat tells.
            Err(TryLockError::Error(_)) => {
                read(&mut file).is_some_and(|holder| is_fresh(path, &file) && holder.owner != owner)
            }
        };
        let before = read(&mut file);
        if held {
            let fresh = before.is_none() || is_fresh(path, &file);
            let take = takeover == Takeover::Force || takeover == Takeover::IfStale && !fresh;
            if !take {
                return Err(LockError::Held(before));
            }
            // A new file under the old name; the old holder finds out at its next heartbeat.
            fs::remove_file(path).map_err(failed("take over"))?;
            file = open().map_err(failed("open"))?;
            file.try_lock().map_err(|error| failed("lock")(io::Error::other(error)))?;
        }
        let holder = LockHolder {
            owner: owner.to_owned(),
            run_id: String::new(),
            acquired_at: now,
            heartbeat_at: now,
            ttl: TTL.as_secs(),
        };
        let mut lock = Self { path: path.to_owned(), file, holder, taken_from: before };
        lock.write().map_err(failed("write"))?;
        Ok(lock)
    }

    /// Names the run it is held for.
    pub fn name_run(&mut self, run_id: &str) {
        self.holder.run_id = run_id.to_owned();
        // Who holds it is for people to read; the lock itself is the kernel's.
        let _ = self.write();
    }

    /// Tells that the holder lives; gives whether it still holds the lock.
    pub fn beat(&mut self, now: Timestamp) -> bool {
        let current = File::open(&self.path).ok().and_then(|mut file| read(&mut file));
        if current.is_some_and(|holder| holder.owner != self.holder.owner) {
            return false;
        }
        self.holder.heartbeat_at = now;
        let _ = self.write();
        true
    }

    fn write(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.holder)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(&text)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // An empty file says that nobody died holding it.
        let ours = File::open(&self.path).ok().and_then(|mut file| read(&mut file));
        if ours.is_some_and(|holder| holder.owner == self.holder.owner) {
            let _ = self.file.set_len(0);
        }
        let _ = self.file.unlock();
    }
}

fn read(file: &mut File) -> Option<LockHolder> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether the holder was heard of a short while ago. Heartbeats write the file, so its age tells; it is measured
/// against a file written just now, because clocks of machines that share a directory may differ by hours.
fn is_fresh(path: &Path, file: &File) -> bool {
    let probe = path.with_extension(format!("{}.probe", std::process::id()));
    let now = fs::write(&probe, b"now").and_then(|()| fs::metadata(&probe)?.modified());
    // A probe that stays behind does no harm.
    let _ = fs::remove_file(&probe);
    let (Ok(now), Ok(heard)) = (now, file.metadata().and_then(|metadata| metadata.modified())) else {
        // Whoever cannot be judged is left alone.
        return true;
    };
    now.duration_since(heard).map_or(true, |age| age <= TTL)
}
