//! Hashes of inputs: canonical JSON, files, source directories.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slipway_chart::Ignore;
use slipway_problem::{read_file, read_text_file};

/// `sha256:` and 64 hex digits over bytes.
pub fn bytes(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

fn hex(hash: &[u8]) -> String {
    let mut text = String::with_capacity(7 + hash.len() * 2);
    text.push_str("sha256:");
    for byte in hash {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
    }
    text
}

/// The digest of a value's canonical JSON.
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    bytes(text.as_bytes())
}

/// Canonical JSON (RFC 8785): sorted keys, no spaces, numbers as JavaScript writes them.
pub fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.push_str(&slipway_yaml::go_json_float(float)),
            None => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            let mut keys: Vec<&String> = entries.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(&entries[key], out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// No source has more; a link to the root of the disk does.
const MOST_FILES: usize = 100_000;

type Known = HashMap<PathBuf, Result<Arc<str>, Arc<io::Error>>>;

/// Hashes files and directories, each once.
#[derive(Debug, Default)]
pub struct Digests {
    known: Mutex<Known>,
}

impl Digests {
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
        Ok(text) => Ignore::parse(&text).ok(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_is_sorted_and_plain() {
        let value = serde_json::json!({"b": [1, 1.5, 1e30, true, null], "a": "é\n\"", "": {"z": 1, "y": 2}});
        let mut text = String::new();
        canonical(&value, &mut text);
        assert_eq!(text, r#"{"":{"y":2,"z":1},"a":"é\n\"","b":[1,1.5,1e+30,true,null]}"#);
    }
}
