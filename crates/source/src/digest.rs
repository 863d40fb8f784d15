//! Digests of what a source is made of on disk: files and directories, each read once.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use slipway_chart::IgnoreRules;
use slipway_problem::{read_file, read_text_file};

use slipway_journal::digest::{bytes, hex};

/// No source has more; a link to the root of the disk does.
const MOST_FILES: usize = 100_000;

type Known = HashMap<PathBuf, Result<Arc<str>, Arc<io::Error>>>;

/// Hashes files and directories, each once.
#[derive(Debug, Default)]
pub struct SourceDigests {
    known: Mutex<Known>,
}

impl SourceDigests {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The digest of a file's bytes, or of a directory's files.
    pub fn of(&self, path: &Path) -> Result<Arc<str>, Arc<io::Error>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(known) = known {
            return known;
        }
        let made = make(path).map(Arc::from).map_err(Arc::new);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), made.clone());
        made
    }
}

fn make(path: &Path) -> io::Result<String> {
    match read_file(path) {
        Ok(content) => Ok(bytes(&content)),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory || path.is_dir() => directory(path),
        Err(error) => Err(error),
    }
}

/// Sorted relative paths, each with whether it is executable and the digest of its content. What a
/// chart's `.helmignore` leaves out is left out.
fn directory(root: &Path) -> io::Result<String> {
    let ignore = match read_text_file(&root.join(".helmignore")) {
        Ok(text) => IgnoreRules::parse(&text).ok(),
        Err(_) => None,
    };
    let mut files = Vec::new();
    let mut open = vec![(String::new(), root.to_owned())];
    while let Some((dir, path)) = open.pop() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
            let mut kind = entry.file_type()?;
            if kind.is_symlink() {
                // What somebody linked to is content all the same, unless it leads back up.
                kind = fs::metadata(entry.path())?.file_type();
                if kind.is_dir() && fs::canonicalize(&path)?.starts_with(fs::canonicalize(entry.path())?) {
                    continue;
                }
            }
            let left_out = ignore.as_ref().is_some_and(|ignore| ignore.ignores(&below, kind.is_dir()));
            if left_out || dir.is_empty() && (name == ".git" || name == ".slipway") {
                continue;
            }
            if kind.is_dir() {
                open.push((below, entry.path()));
            } else {
                files.push((below, entry.path()));
            }
        }
        if files.len() + open.len() > MOST_FILES {
            return Err(io::Error::other(format!("more than {MOST_FILES} files")));
        }
    }
    files.sort_unstable();
    let mut hash = Sha256::new();
    for (below, path) in files {
        let content = read_file(&path)?;
        hash.update(below.as_bytes());
        hash.update([0, u8::from(executable(&path)), 0]);
        hash.update(Sha256::digest(&content));
    }
    Ok(hex(hash.finalize().as_slice()))
}

#[cfg(unix)]
fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn executable(_: &Path) -> bool {
    false
}
