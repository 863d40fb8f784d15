//! Reading the local files a step names. They are read again for their digests, so they are regular files.

use std::io;
use std::path::Path;

use slipway_problem::{read_hint, read_regular_file};
use slipway_source::LARGEST_FILE;

/// Reads a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_regular_file(path, LARGEST_FILE as u64)
}

/// Reads a text file; what is no UTF-8 is none.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Says why a file was not read and, unless it is only missing or closed, what to do about it.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => {
            error.to_string()
        }
        _ => format!("{error}\nhint: {}", read_hint(error)),
    }
}

/// Says why a chart at a path cannot be read at all, if that is so.
pub(crate) fn check_chart(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() || metadata.is_file() => Ok(()),
        Ok(_) => Err(format!("chart {} is neither a directory nor a regular file", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("chart {} does not exist", path.display()))
        }
        Err(error) => Err(format!("chart {}: {error}", path.display())),
    }
}
