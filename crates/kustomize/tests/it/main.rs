//! What the crate does, seen from outside.

mod editing;
mod mistakes;
mod quirks;
mod recorded;

use std::fs;
use std::path::Path;

/// Writes files into a fresh directory.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        write(directory.path(), path, text);
    }
    directory
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, text).expect("a file");
}
