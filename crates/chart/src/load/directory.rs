//! A chart in a directory: walking it as Helm does.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{BYTE_ORDER_MARK, ChartFile, IgnoreRules, LoadLimits, strip_bom};
use crate::error::{LogNotice, Notices};
use slipway_go::GoError;

/// Directories nested deeper than this are a symbolic-link loop or an attack.
const DEEPEST: usize = 128;

/// Fewer files are read before another thread has started.
const WORTH_A_THREAD: usize = 64;

/// Files found before they are read.
const MOST_FOUND: usize = 4096;

/// Reads every file of the chart, in lexical order per directory, following symbolic links.
pub(super) fn read_directory(
    root: &Path,
    limits: &LoadLimits,
    notices: &mut Notices,
) -> Result<Vec<ChartFile>, GoError> {
    let ignore = match slipway_problem::read_file(&root.join(".helmignore")) {
        Ok(bytes) => IgnoreRules::parse(&String::from_utf8_lossy(&bytes)),
        Err(_) => IgnoreRules::parse(""),
    }
    .map_err(|error| error.to_string())?;
    let total = AtomicU64::new(0);
    let mut walk = Walk { ignore, limits, notices, found: Vec::new(), files: Vec::new(), total };
    // What was found before an error may have one of its own, which comes first.
    let walked = walk.walk_directory(root, "", 0);
    walk.read_found()?;
    walked.map(|()| walk.files)
}

/// A file that belongs to the chart.
struct FoundFile {
    path: PathBuf,
    /// Its slash path inside the chart.
    name: String,
}

struct Walk<'w> {
    ignore: IgnoreRules,
    limits: &'w LoadLimits,
    notices: &'w mut Notices,
    /// Files that are still to be read.
    found: Vec<FoundFile>,
    files: Vec<ChartFile>,
    /// Bytes of all files.
    total: AtomicU64,
}

impl Walk<'_> {
    fn walk_directory(&mut self, path: &Path, prefix: &str, depth: usize) -> Result<(), GoError> {
        if depth > DEEPEST {
            return Err(format!("{} is nested more than {DEEPEST} directories deep", path.display()).into());
        }
        let entries = fs::read_dir(path).map_err(|error| go_io("open", path, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| go_io("readdirent", path, &error))?;
            let kind = entry.file_type().map_err(|error| go_io("lstat", &entry.path(), &error))?;
            names.push((entry.file_name(), kind));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            let path = path.join(&name);
            let name = name.to_string_lossy();
            let relative = if prefix.is_empty() { name.into_owned() } else { format!("{prefix}/{name}") };
            self.visit_entry(path, relative, kind, depth)?;
        }
        Ok(())
    }

    fn visit_entry(
        &mut self,
        path: PathBuf,
        relative: String,
        kind: fs::FileType,
        depth: usize,
    ) -> Result<(), GoError> {
        let kind = if kind.is_symlink() {
            let resolved = resolve_link(&path)?;
            self.notices.push(LogNotice(format!(
                "walk.go:75: found symbolic link in path: {} resolves to {}. Contents of linked file included and used",
                path.display(),
                resolved.display()
            )));
            fs::metadata(&path).map_err(|error| go_io("stat", &path, &error))?.file_type()
        } else {
            kind
        };
        if self.ignore.ignores(&relative, kind.is_dir()) {
            return Ok(());
        }
        if kind.is_dir() {
            return self.walk_directory(&path, &relative, depth + 1);
        }
        if !kind.is_file() {
            return Err(format!(
                "cannot load irregular file {} as it has file mode type bits set",
                path.display()
            )
            .into());
        }
        self.found.push(FoundFile { path, name: relative });
        // Links can make a few files look like millions: their bytes are counted before the walk goes on for long.
        if self.found.len() < MOST_FOUND { Ok(()) } else { self.read_found() }
    }

    fn read_found(&mut self) -> Result<(), GoError> {
        let found = std::mem::take(&mut self.found);
        self.files.extend(read_files(found, self.limits, &self.total)?);
        Ok(())
    }
}

/// Reads the files, many of them by two threads. The error is that of the first file that has one.
fn read_files(
    found: Vec<FoundFile>,
    limits: &LoadLimits,
    total: &AtomicU64,
) -> Result<Vec<ChartFile>, GoError> {
    let read = |file: FoundFile| read_found_file(file, limits, total);
    if found.len() < WORTH_A_THREAD {
        return found.into_iter().map(read).collect();
    }
    let queue = Mutex::new(found.into_iter().enumerate());
    let work = || {
        let mut results = Vec::new();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((at, file)) = next else { return results };
            results.push((at, read(file)));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, work);
        let mut results = work();
        // A thread that cannot be had is not missed.
        if let Ok(other) = other {
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Reads one file; `total` counts the bytes of all.
fn read_found_file(found: FoundFile, limits: &LoadLimits, total: &AtomicU64) -> Result<ChartFile, GoError> {
    let FoundFile { path, name } = found;
    let failed = |error| format!("error reading {name}: {}", go_io("open", &path, &error));
    let mut file = fs::File::open(&path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length > limits.file {
        return Err(
            format!("chart file {name:?} is larger than the maximum file size {}", limits.file).into()
        );
    }
    if total.fetch_add(length, Ordering::Relaxed) + length > limits.directory {
        return Err(format!("chart is larger than the maximum size {}", limits.directory).into());
    }
    let data = read_contents(&mut file, length as usize).map_err(failed)?;
    Ok(ChartFile { name, data })
}

/// Reads a file into the allocation it is kept in: a chart may be made of hundreds.
fn read_contents(file: &mut fs::File, length: usize) -> io::Result<Arc<[u8]>> {
    let mut data: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
    let mut filled = 0;
    if let Some(place) = Arc::get_mut(&mut data) {
        while filled < length {
            match file.read(&mut place[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    if length > 0 && filled == length && !data.starts_with(BYTE_ORDER_MARK) {
        return Ok(data);
    }
    // Not as long as it was said to be, or to be shortened.
    let mut rest = data[..filled].to_vec();
    file.take(slipway_problem::LARGEST_FILE).read_to_end(&mut rest)?;
    Ok(strip_bom(rest).into())
}

fn resolve_link(path: &Path) -> Result<PathBuf, GoError> {
    fs::canonicalize(path).map_err(|error| {
        let missing = unresolved_part(&path.to_string_lossy());
        let missing = missing.as_deref().map_or(path, Path::new);
        let cause = go_io("lstat", missing, &error);
        GoError::new(format!("error evaluating symlink {}: {cause}", path.display()))
    })
}

/// The part of a path that Go cannot find, written as Go walks there: link by link, and with the `..` it
/// keeps directly under the root.
fn unresolved_part(path: &str) -> Option<String> {
    let mut rest = path.to_owned();
    let mut root = usize::from(rest.starts_with('/'));
    let mut walked = rest[..root].to_owned();
    let mut end = root;
    // Go follows no more links than this either.
    for _ in 0..10_000 {
        let start = end + rest[end..].bytes().take_while(|byte| *byte == b'/').count();
        end = rest[start..].find('/').map_or(rest.len(), |length| start + length);
        let part = rest[start..end].to_owned();
        let parent = |walked: &str| walked[root.min(walked.len())..].rfind('/').map(|at| at + root);
        match part.as_str() {
            "" => return None,
            "." => {}
            ".." => match parent(&walked) {
                Some(at) if &walked[at + 1..] != ".." => walked.truncate(at),
                _ => {
                    if walked.len() > root {
                        walked.push('/');
                    }
                    walked.push_str("..");
                }
            },
            part => {
                if !walked.is_empty() && !walked.ends_with('/') {
                    walked.push('/');
                }
                walked.push_str(part);
                let Ok(metadata) = fs::symlink_metadata(&walked) else { return Some(walked) };
                if !metadata.file_type().is_symlink() {
                    continue;
                }
                let link = fs::read_link(&walked).ok()?.to_string_lossy().into_owned();
                let at = parent(&walked);
                rest = link + &rest[end..];
                if rest.starts_with('/') {
                    root = 1;
                    walked.replace_range(.., "/");
                    end = 1;
                } else {
                    walked.truncate(at.unwrap_or(root));
                    end = 0;
                }
            }
        }
    }
    None
}

/// A failed file operation in Go's words.
pub(crate) fn go_io(operation: &str, path: &Path, error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        // Go would go on reading, so these words are ours.
        io::ErrorKind::FileTooLarge | io::ErrorKind::TimedOut => {
            format!("{error}\n  hint: {}", slipway_problem::read_hint(error))
        }
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_lowercase()
        }
    };
    format!("{operation} {}: {reason}", path.display())
}
