//! Places that keep a record as one document: a file of a directory, a Kubernetes Secret, anything else that can.
//!
//! The journal talks to no cluster: a Secret is a store of the crate that knows clusters.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::files;

/// A record as it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordDocument {
    pub content: Vec<u8>,
    /// Facts that are readable without the content, where the store can show them.
    pub annotations: BTreeMap<String, String>,
}

/// The answer of a store, in time.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps the record of one subject's runs.
pub trait RecordStore: Send + Sync {
    /// Names the place, for people.
    fn place(&self) -> String;

    /// Reads the record; none if there is none.
    fn load(&self) -> StoreFuture<'_, Option<Vec<u8>>>;

    /// Writes the record. Whoever wrote in between loses, unless the place is somebody else's now.
    fn save<'a>(&'a self, record: &'a RecordDocument) -> StoreFuture<'a, ()>;

    /// Removes the record if it is ours.
    fn remove(&self) -> StoreFuture<'_, ()>;
}

/// The request a store could not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAction {
    Read,
    Write,
    Delete,
}

impl std::fmt::Display for StoreAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        })
    }
}

/// The sort of a failure, by what a person can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// The place the record goes to does not exist.
    NoPlace,
    Forbidden,
    Other,
}

/// The reason why a store does not give or take a record.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the record {place} exists and is not managed by {manager}")]
    Foreign { place: String, manager: String },
    #[error("the record {place} cannot be read: {why}")]
    Corrupt { place: String, why: String },
    #[error("cannot {action} the record {place}: {source}")]
    Failed {
        place: String,
        action: StoreAction,
        fault: StoreFault,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A record in one file, whole or not there.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// Keeps the record at `path`; directories above it are made when it is first saved.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn failed(&self, action: StoreAction) -> impl FnOnce(io::Error) -> StoreError {
        let place = self.place();
        move |source| {
            let fault = match source.kind() {
                io::ErrorKind::NotFound => StoreFault::NoPlace,
                io::ErrorKind::PermissionDenied => StoreFault::Forbidden,
                _ => StoreFault::Other,
            };
            StoreError::Failed { place, action, fault, source: source.into() }
        }
    }
}

impl RecordStore for FileStore {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn load(&self) -> StoreFuture<'_, Option<Vec<u8>>> {
        let read = match fs::read(&self.path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(StoreAction::Read)(error)),
        };
        Box::pin(std::future::ready(read))
    }

    fn save<'a>(&'a self, record: &'a RecordDocument) -> StoreFuture<'a, ()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let written =
            files::directories(directory).and_then(|()| files::replace(&self.path, &record.content));
        Box::pin(std::future::ready(written.map_err(self.failed(StoreAction::Write))))
    }

    fn remove(&self) -> StoreFuture<'_, ()> {
        let removed = match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(self.failed(StoreAction::Delete)),
        };
        Box::pin(std::future::ready(removed))
    }
}
