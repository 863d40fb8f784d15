//! Where Helm keeps repositories, their indexes and logins: the same files, so both tools see one state.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{ChartError, Notices};
use crate::load::go_io;
use crate::repo::{RepositoryIndex, RepositoryList};
use slipway_go::filepath::is_file_name;

use super::credentials::Credentials;

/// The files; where they are is the caller's decision.
#[derive(Clone, Debug)]
pub struct HelmHome {
    /// `repositories.yaml`.
    pub repositories: PathBuf,
    /// The directory of cached indexes and downloaded charts.
    pub cache: PathBuf,
    /// Helm's own `config.json`, which logins are written to.
    pub registry: PathBuf,
    /// Docker's `config.json`, which is only read.
    pub docker: Option<PathBuf>,
}

/// How long another process may hold the repositories' lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

impl HelmHome {
    /// The repositories the user knows; none if there is no file.
    pub fn repositories(&self) -> Result<RepositoryList, ChartError> {
        match read(&self.repositories)? {
            Some(bytes) => RepositoryList::parse(&bytes).map_err(|error| {
                ChartError::Publish(format!(
                    "couldn't load repositories file ({}): {error}",
                    self.repositories.display()
                ))
            }),
            None => Ok(RepositoryList::default()),
        }
    }

    /// Reads, changes and writes the repositories while no other process does.
    pub fn change_repositories<T>(
        &self,
        change: impl FnOnce(&mut RepositoryList) -> Result<T, ChartError>,
    ) -> Result<T, ChartError> {
        let lock = lock(&self.repositories.with_extension("lock"))?;
        let mut repositories = self.repositories()?;
        let result = change(&mut repositories)?;
        replace(&self.repositories, repositories.to_yaml().as_bytes())?;
        drop(lock);
        Ok(result)
    }

    /// The index of a repository as last fetched.
    pub fn cached_index(&self, name: &str) -> Result<RepositoryIndex, ChartError> {
        let path = self.cached(name, "index.yaml")?;
        let bytes = slipway_problem::read_file(&path)
            .map_err(|error| ChartError::Publish(go_io("open", &path, &error)))?;
        RepositoryIndex::parse(&bytes, &path.display().to_string(), &mut Notices::new())
    }

    /// Keeps an index, and the names in it for shell completion.
    pub fn store_index(&self, name: &str, index: &RepositoryIndex, bytes: &[u8]) -> Result<(), ChartError> {
        let names: String = index.entries.keys().map(|chart| format!("{chart}\n")).collect();
        replace(&self.cached(name, "charts.txt")?, names.as_bytes())?;
        replace(&self.cached(name, "index.yaml")?, bytes)
    }

    /// Removes what is cached of a repository.
    pub fn forget_index(&self, name: &str) -> Result<(), ChartError> {
        for path in [self.cached(name, "charts.txt")?, self.cached(name, "index.yaml")?] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(ChartError::Publish(go_io("remove", &path, &error)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A file of a repository in the cache, never outside it.
    fn cached(&self, name: &str, what: &str) -> Result<PathBuf, ChartError> {
        if !is_file_name(name) {
            return Err(ChartError::Publish(format!(
                "invalid repository name {name:?}: it names the repository's files, so it cannot be a path"
            )));
        }
        Ok(self.cache.join(format!("{name}-{what}")))
    }

    /// The logins Helm keeps, then those Docker keeps.
    pub fn credentials(&self) -> Result<Vec<Credentials>, ChartError> {
        let mut all = Vec::new();
        for path in std::iter::once(&self.registry).chain(&self.docker) {
            if let Some(bytes) = read(path)? {
                all.push(Credentials::parse(&bytes)?);
            }
        }
        Ok(all)
    }

    /// Changes Helm's own logins.
    pub fn change_credentials<T>(&self, change: impl FnOnce(&mut Credentials) -> T) -> Result<T, ChartError> {
        let mut credentials = match read(&self.registry)? {
            Some(bytes) => Credentials::parse(&bytes)?,
            None => Credentials::default(),
        };
        let result = change(&mut credentials);
        replace(&self.registry, credentials.to_json().as_bytes())?;
        Ok(result)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, ChartError> {
    match slipway_problem::read_file(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ChartError::Publish(go_io("open", path, &error))),
    }
}

/// Holds a lock Helm respects as well, until the file is dropped.
fn lock(path: &Path) -> Result<fs::File, ChartError> {
    let failed = |error: &std::io::Error| ChartError::Publish(go_io("open", path, error));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| failed(&error))?;
    }
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| failed(&error))?;
    let begun = Instant::now();
    while file.try_lock().is_err() {
        if begun.elapsed() > LOCK_PATIENCE {
            return Err(ChartError::Publish(format!("{} is locked by another process", path.display())));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(file)
}

/// Writes a file for its owner only; it has the old content or the new one, nothing between.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), ChartError> {
    let failed = |error: std::io::Error| ChartError::Publish(go_io("open", path, &error));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    drop(file);
    fs::rename(&beside, path).map_err(failed)
}
