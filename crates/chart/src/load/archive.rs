//! A chart in a gzipped tar archive, read with limits against hostile ones.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::{ChartFile, LoadLimits, strip_bom};
use slipway_go::GoError;
use slipway_go::filepath;

/// The reason an archive cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArchiveError {
    /// It does not begin as gzip does.
    Header,
    /// Anything else, in Helm's words.
    Content(GoError),
}

impl<T: Into<String>> From<T> for ArchiveError {
    fn from(text: T) -> Self {
        Self::Content(GoError::new(text))
    }
}

impl From<ArchiveError> for GoError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Header => "gzip: invalid header".into(),
            ArchiveError::Content(error) => error,
        }
    }
}

/// Tells that the bytes begin as a gzipped archive does.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.get(..3) == Some(&[0x1f, 0x8b, 0x08])
}

/// Reads every file of the archive, without the leading directory.
pub(super) fn read_archive(bytes: &[u8], limits: &LoadLimits) -> Result<Vec<ChartFile>, ArchiveError> {
    if !is_gzip(bytes) {
        return Err(if bytes.is_empty() {
            ArchiveError::Content("EOF".into())
        } else {
            ArchiveError::Header
        });
    }
    // The decoder is cut off just past the limit, so that a bomb is noticed before it is unpacked.
    let unpacked = MultiGzDecoder::new(bytes).take(limits.archive + 2 * 1024 * 1024);
    let mut archive = tar::Archive::new(unpacked);
    let mut files = Vec::new();
    let mut left = limits.archive;
    for entry in archive.entries().map_err(|error| go_tar(&error))? {
        let mut entry = entry.map_err(|error| go_tar(&error))?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = inner_name(&raw)?;
        let size = entry.size();
        if size > limits.file {
            return Err(format!(
                "decompressed chart file {raw:?} is larger than the maximum file size {}",
                limits.file
            )
            .into());
        }
        if size > left {
            return Err(format!(
                "decompressed chart is larger than the maximum file size {}",
                limits.archive
            )
            .into());
        }
        left -= size;
        if files.len() >= limits.files {
            return Err(format!("chart archive holds more than {} files", limits.files).into());
        }
        let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        entry.read_to_end(&mut data).map_err(|error| go_tar(&error))?;
        if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() || data.is_empty() {
            files.push(ChartFile { name, data: strip_bom(data).into() });
        }
    }
    if files.is_empty() {
        return Err("no files in chart archive".into());
    }
    Ok(files)
}

/// Checks an entry's name and drops its first directory.
fn inner_name(raw: &str) -> Result<String, GoError> {
    let separator = if raw.contains('\\') { '\\' } else { '/' };
    let inner = raw.split_once(separator).map_or("", |(_, inner)| inner);
    let inner = inner.replace(separator, "/");
    if inner.starts_with('/') {
        return Err("chart illegally contains absolute paths".into());
    }
    let cleaned = filepath::clean(&inner);
    if cleaned == "." {
        return Err(format!("chart illegally contains content outside the base directory: {raw:?}").into());
    }
    if cleaned.starts_with("..") {
        return Err("chart illegally references parent directory".into());
    }
    let bytes = cleaned.as_bytes();
    if bytes.len() >= 3 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && bytes[2] == b'/' {
        return Err("chart contains illegally named files".into());
    }
    if raw.split(separator).next() == Some("Chart.yaml") {
        return Err("chart yaml not in base directory".into());
    }
    Ok(cleaned)
}

fn go_tar(error: &std::io::Error) -> ArchiveError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "unexpected EOF".into(),
        std::io::ErrorKind::InvalidInput => ArchiveError::Header,
        _ => {
            // The libraries give no type for it, and the text is only shown.
            let text = error.to_string();
            if text.contains("corrupt deflate") || text.contains("invalid gzip") {
                "gzip: invalid checksum".into()
            } else {
                "archive/tar: invalid tar header".into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_chart_are_refused() {
        for (raw, expected) in [
            ("c/Chart.yaml", Ok("Chart.yaml")),
            ("c/templates/a.yaml", Ok("templates/a.yaml")),
            ("c\\templates\\a.yaml", Ok("templates/a.yaml")),
            ("c/./x", Ok("x")),
            ("c//abs", Err("chart illegally contains absolute paths")),
            ("c/../x", Err("chart illegally references parent directory")),
            ("c/a/../../x", Err("chart illegally references parent directory")),
            ("c", Err("chart illegally contains content outside the base directory: \"c\"")),
            ("c/C:/x", Err("chart contains illegally named files")),
            ("Chart.yaml/x", Err("chart yaml not in base directory")),
        ] {
            let found = inner_name(raw);
            assert_eq!(found.as_deref().map_err(GoError::as_str), expected, "{raw}");
        }
    }
}
