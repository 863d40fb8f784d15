//! Reading the local files a step names: regular ones, up to a size.

use std::io::Read as _;
use std::path::Path;

use slipway_source::LARGEST_FILE;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it is no regular file")]
    Irregular,
    #[error("it has more than {} MiB, the most that is read", LARGEST_FILE >> 20)]
    TooLarge,
}

impl FileError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io(_) => None,
            Self::Irregular => Some("write what a pipe or device gives to a file first"),
            Self::TooLarge => Some("is it the right file? split it if it is"),
        }
    }

    /// The error with its hint, as one text.
    pub(crate) fn told(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}\nhint: {hint}"),
            None => self.to_string(),
        }
    }
}

/// Reads a file. A pipe or a device is refused unopened: opening one may wait for ever, and reading it may
/// never end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into());
    }
    if !metadata.is_file() {
        return Err(FileError::Irregular);
    }
    if metadata.len() > LARGEST_FILE as u64 {
        return Err(FileError::TooLarge);
    }
    let mut bytes = Vec::new();
    // Files of the system, and those that grow, have more than their size says.
    std::fs::File::open(path)?.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LARGEST_FILE { Err(FileError::TooLarge) } else { Ok(bytes) }
}

/// Reads a text file; what is no UTF-8 is none.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    String::from_utf8(read(path)?)
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8 text").into())
}

/// Says why a chart at a path cannot be read at all, if that is so.
pub(crate) fn check_chart(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() || metadata.is_file() => Ok(()),
        Ok(_) => Err(format!("chart {} is neither a directory nor a regular file", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("chart {} does not exist", path.display()))
        }
        Err(error) => Err(format!("chart {}: {error}", path.display())),
    }
}
