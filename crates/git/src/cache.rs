//! The directory of mirrors: one a repository, bounded in size, shared by several processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slipway_event::Clock;
use tokio_util::sync::CancellationToken;

use crate::address::RepositoryAddress;
use crate::credential::GitCredential;
use crate::error::GitError;
use crate::lock::FileLock;
use crate::mirror::{MirrorState, Repository};
use crate::name::OperationId;
use crate::program::GitProgram;

/// The limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// The most bytes all mirrors may take; the ones used longest ago go first.
    pub most_bytes: u64,
    /// The most bytes one repository may take.
    pub largest_repository: u64,
    /// A mirror older than this is cloned anew.
    pub most_age: Duration,
    /// The time one conversation with a remote may take.
    pub network_time: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            most_bytes: 8 << 30,
            largest_repository: 4 << 30,
            most_age: Duration::from_secs(24 * 60 * 60),
            network_time: Duration::from_secs(10 * 60),
        }
    }
}

/// The directory of mirrors.
#[derive(Clone)]
pub struct RepositoryCache {
    pub(crate) shared: Arc<CacheState>,
}

pub(crate) struct CacheState {
    pub(crate) root: PathBuf,
    pub(crate) options: CacheOptions,
    pub(crate) git: Arc<dyn GitProgram>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: CancellationToken,
    /// One a repository, so that one process asks a remote once at a time.
    mirrors: Mutex<BTreeMap<String, Arc<MirrorState>>>,
}

impl RepositoryCache {
    /// Opens a cache, and creates its directory. Everything ends once `stop` is cancelled.
    pub fn open(
        root: impl Into<PathBuf>,
        options: CacheOptions,
        git: Arc<dyn GitProgram>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Result<Self, GitError> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(GitError::files(&root))?;
        let root = root.canonicalize().map_err(GitError::files(&root))?;
        let mirrors = Mutex::default();
        Ok(Self { shared: Arc::new(CacheState { root, options, git, clock, stop, mirrors }) })
    }

    /// A repository, seen with these credentials. Nothing is fetched yet.
    pub fn repository(&self, address: RepositoryAddress, credential: GitCredential) -> Repository {
        let key = address.cache_key();
        let mut mirrors = self.shared.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        let state = mirrors.entry(key.clone()).or_default().clone();
        drop(mirrors);
        Repository::new(self.shared.clone(), state, self.shared.root.join(key), address, credential)
    }

    /// Removes work trees that nobody holds and that `is_wanted` does not ask for: what a crash left behind.
    pub async fn sweep(&self, is_wanted: impl Fn(&OperationId) -> bool) -> Result<(), GitError> {
        for place in self.shared.places()? {
            let _lock = FileLock::acquire(&place.lock).await.map_err(GitError::files(&place.lock))?;
            for tree in work_trees(&place.directory) {
                if !is_wanted(&tree.operation) && is_free(&tree.lock) {
                    remove_tree(&tree.directory)?;
                    let _ = fs::remove_file(&tree.lock);
                }
            }
            // Keys of a process that was killed.
            let _ = fs::remove_dir_all(place.directory.join("scratch"));
        }
        Ok(())
    }

    /// Removes the mirrors used longest ago until the cache fits its limit. Those in use stay.
    pub fn shrink(&self) -> Result<(), GitError> {
        self.shared.shrink(None)
    }
}

/// The directory of one repository.
struct MirrorPlace {
    directory: PathBuf,
    lock: PathBuf,
}

/// A work tree found in a cache.
struct FoundTree {
    operation: OperationId,
    directory: PathBuf,
    lock: PathBuf,
}

impl CacheState {
    fn places(&self) -> Result<Vec<MirrorPlace>, GitError> {
        let entries = fs::read_dir(&self.root).map_err(GitError::files(&self.root))?;
        let mut places: Vec<MirrorPlace> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .map(|directory| MirrorPlace { lock: directory.with_extension("lock"), directory })
            .collect();
        places.sort_by(|a, b| a.directory.cmp(&b.directory));
        Ok(places)
    }

    /// Makes room; the mirror at `kept` is about to be used.
    pub(crate) fn shrink(&self, kept: Option<&Path>) -> Result<(), GitError> {
        self.shrink_to(self.options.most_bytes, kept)
    }

    /// Removes every mirror but the one at `kept` and those in use: the disk is full.
    pub(crate) fn make_room(&self, kept: &Path) -> Result<(), GitError> {
        self.shrink_to(0, Some(kept))
    }

    fn shrink_to(&self, most_bytes: u64, kept: Option<&Path>) -> Result<(), GitError> {
        let mut found: Vec<(std::time::SystemTime, u64, MirrorPlace)> = Vec::new();
        for place in self.places()? {
            let used = fs::metadata(place.directory.join("used")).and_then(|about| about.modified());
            found.push((used.unwrap_or(std::time::UNIX_EPOCH), size_of(&place.directory), place));
        }
        found.sort_by(|a, b| (a.0, &a.2.directory).cmp(&(b.0, &b.2.directory)));
        let mut total: u64 = found.iter().map(|(_, size, _)| size).sum();
        for (_, size, place) in found {
            if total <= most_bytes {
                break;
            }
            if kept == Some(&place.directory) {
                continue;
            }
            let lock = FileLock::try_acquire(&place.lock).map_err(GitError::files(&place.lock))?;
            if lock.is_some() && work_trees(&place.directory).iter().all(|tree| is_free(&tree.lock)) {
                remove_tree(&place.directory)?;
                total = total.saturating_sub(size);
            }
        }
        Ok(())
    }
}

/// The work trees of a repository.
fn work_trees(place: &Path) -> Vec<FoundTree> {
    let trees = place.join("wt");
    let Ok(entries) = fs::read_dir(&trees) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let name = name.strip_suffix(".lock").unwrap_or(&name);
            let operation = OperationId::parse(name).ok()?;
            Some(FoundTree {
                directory: trees.join(name),
                lock: trees.join(format!("{name}.lock")),
                operation,
            })
        })
        .collect()
}

/// Tells that nobody works in any work tree of a repository.
pub(crate) fn is_idle(place: &Path) -> bool {
    work_trees(place).iter().all(|tree| is_free(&tree.lock))
}

fn is_free(lock: &Path) -> bool {
    !lock.exists() || FileLock::try_acquire(lock).is_ok_and(|lock| lock.is_some())
}

/// Removes a directory with everything in it, if it is there.
pub(crate) fn remove_tree(path: &Path) -> Result<(), GitError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(GitError::files(path)(error)),
        _ => Ok(()),
    }
}

/// The bytes a directory takes.
pub(crate) fn size_of(directory: &Path) -> u64 {
    let files = walkdir::WalkDir::new(directory).into_iter().filter_map(Result::ok);
    files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file).map(|about| about.len()).sum()
}
