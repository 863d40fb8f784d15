//! Locks between processes, held by open files: a crash releases them.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

/// An exclusive lock on a file, released when dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

/// The pause between two looks at a lock of another process.
const PAUSE: Duration = Duration::from_millis(20);

impl FileLock {
    /// Takes the lock if nobody holds it.
    pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Waits until nobody else holds the lock.
    pub(crate) async fn acquire(path: &Path) -> io::Result<Self> {
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
