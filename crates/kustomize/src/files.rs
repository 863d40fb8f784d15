//! Reading files without leaving the directories they may be in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use slipway_problem::{Location, Problem, Problems, describe_io, read_hint};

use crate::kustomization::LocatedValue;

/// The directory of one kustomization.
#[derive(Clone, Debug)]
pub(crate) struct BuildDirectory {
    /// As the user named it, for messages.
    pub(crate) shown: PathBuf,
    /// With symbolic links followed.
    pub(crate) real: PathBuf,
    /// Relative to the directory the build started in, for origins.
    pub(crate) relative: PathBuf,
}

/// The file or directory an entry of `resources` names.
pub(crate) enum EntryTarget {
    File(PathBuf),
    Directory(BuildDirectory),
}

/// Reads files and remembers which.
#[derive(Debug, Default)]
pub(crate) struct FileReader {
    /// No directory outside of this one is entered.
    pub(crate) within: Option<PathBuf>,
    pub(crate) read: BTreeSet<PathBuf>,
}

/// The longest file that is read.
const LONGEST: u64 = 64 << 20;

/// Removes `.` and resolves `..` by the text alone.
pub(crate) fn normalise_path(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match tidy.components().next_back() {
                Some(Component::Normal(_)) => {
                    tidy.pop();
                }
                Some(Component::RootDir | Component::Prefix(_)) => {}
                _ => tidy.push(".."),
            },
            other => tidy.push(other),
        }
    }
    tidy
}

/// A path as text with forward slashes.
pub(crate) fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() }
}

/// Returns true if an entry names something on another machine.
fn is_remote(entry: &str) -> bool {
    entry.contains("://")
        || entry.starts_with("git@")
        || entry.starts_with("git::")
        || entry.starts_with("github.com/")
        || entry.starts_with("gitlab.com/")
        || entry.starts_with("bitbucket.org/")
        || entry.contains("?ref=")
        || entry.contains("?timeout=")
        || entry.contains(".git//")
}

fn refuse_elsewhere(entry: &LocatedValue<String>) -> Option<Problem> {
    if Path::new(&entry.value).is_absolute() {
        return Some(
            Problem::error(format!("`{}` is an absolute path", entry.value))
                .code("KZ002")
                .at(entry.at.clone())
                .hint("use a path relative to the kustomization"),
        );
    }
    is_remote(&entry.value).then(|| {
        Problem::error(format!("`{}` is not on this machine, and nothing is downloaded", entry.value))
            .code("KZ002")
            .at(entry.at.clone())
            .hint("fetch it first (a git submodule, a vendored copy) and name the local path")
    })
}

fn cannot_read(entry: &LocatedValue<String>, error: &std::io::Error) -> Problem {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        _ => error.to_string(),
    };
    Problem::error(format!("cannot read `{}`: {why}", entry.value)).at(entry.at.clone())
}

fn unusable_root(root: &Path, why: &str) -> Problem {
    Problem::error(format!("cannot open the directory: {why}")).at(Location::file(root.display().to_string()))
}

impl FileReader {
    /// The directory a build starts in.
    pub(crate) fn start(&self, root: &Path) -> Result<BuildDirectory, Problems> {
        let real = fs::canonicalize(root)
            .map_err(|error| unusable_root(root, &describe_io(&error)).hint(read_hint(&error)))
            .map_err(Problems::from)?;
        if !real.is_dir() {
            let problem = unusable_root(root, "it is not a directory");
            return Err(problem.hint("name the directory of a `kustomization.yaml`").into());
        }
        Ok(BuildDirectory { shown: normalise_path(root), real, relative: PathBuf::new() })
    }

    /// Finds out what an entry is: a file below its kustomization, or a directory anywhere.
    pub(crate) fn resolve_entry(
        &self,
        from: &BuildDirectory,
        entry: &LocatedValue<String>,
    ) -> Result<EntryTarget, Problems> {
        let path = from.shown.join(&entry.value);
        let real = match fs::canonicalize(from.real.join(&entry.value)) {
            Ok(real) if !Path::new(&entry.value).is_absolute() => real,
            result => {
                if let Some(problem) = refuse_elsewhere(entry) {
                    return Err(problem.into());
                }
                let error = result.err().unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
                let problem = cannot_read(entry, &error);
                return Err(match nearest_entry(from, &entry.value) {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem,
                }
                .into());
            }
        };
        if !real.is_dir() {
            self.check_confined(from, entry, &real)?;
            return Ok(EntryTarget::File(real));
        }
        if let Some(within) = &self.within
            && !real.starts_with(within)
        {
            return Err(Problem::error(format!("`{}` leads out of `{}`", entry.value, within.display()))
                .at(entry.at.clone())
                .into());
        }
        let relative = normalise_path(&from.relative.join(&entry.value));
        Ok(EntryTarget::Directory(BuildDirectory { shown: normalise_path(&path), real, relative }))
    }

    fn check_confined(
        &self,
        from: &BuildDirectory,
        entry: &LocatedValue<String>,
        real: &Path,
    ) -> Result<(), Problems> {
        if real.starts_with(&from.real) {
            return Ok(());
        }
        let root = if from.shown.as_os_str().is_empty() { Path::new(".") } else { &from.shown };
        Err(Problem::error(format!("`{}` is not in or below `{}`", entry.value, root.display()))
            .at(entry.at.clone())
            .hint("a kustomization reads files of its own directory only; share files through a directory with a kustomization of its own")
            .into())
    }

    /// Reads a file in or below the kustomization's directory.
    pub(crate) fn bytes(
        &mut self,
        from: &BuildDirectory,
        entry: &LocatedValue<String>,
    ) -> Result<Vec<u8>, Problems> {
        match self.resolve_entry(from, entry)? {
            EntryTarget::File(real) => self.read_bytes_of(&real, entry),
            EntryTarget::Directory(_) => {
                Err(Problem::error(format!("`{}` is a directory, a file is needed", entry.value))
                    .at(entry.at.clone())
                    .into())
            }
        }
    }

    pub(crate) fn read_bytes_of(
        &mut self,
        real: &Path,
        entry: &LocatedValue<String>,
    ) -> Result<Vec<u8>, Problems> {
        let about = fs::metadata(real).map_err(|error| Problems::from(cannot_read(entry, &error)))?;
        if !about.is_file() {
            return Err(Problem::error(format!("`{}` is not a regular file", entry.value))
                .at(entry.at.clone())
                .into());
        }
        if about.len() > LONGEST {
            return Err(Problem::error(format!(
                "`{}` has {} bytes, more than the {LONGEST} allowed",
                entry.value,
                about.len()
            ))
            .at(entry.at.clone())
            .into());
        }
        let bytes =
            slipway_problem::read_file(real).map_err(|error| Problems::from(cannot_read(entry, &error)))?;
        self.read.insert(real.to_path_buf());
        Ok(bytes)
    }

    /// Reads a text file in or below the kustomization's directory.
    pub(crate) fn text(
        &mut self,
        from: &BuildDirectory,
        entry: &LocatedValue<String>,
    ) -> Result<String, Problems> {
        let bytes = self.bytes(from, entry)?;
        decode_text(bytes, entry)
    }
}

/// Bytes as text, without a byte order mark.
pub(crate) fn decode_text(bytes: Vec<u8>, entry: &LocatedValue<String>) -> Result<String, Problems> {
    let text = String::from_utf8(bytes)
        .map_err(|_| Problem::error(format!("`{}` is not UTF-8 text", entry.value)).at(entry.at.clone()))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// The entry of the same directory with the most similar name.
fn nearest_entry(from: &BuildDirectory, entry: &str) -> Option<String> {
    let path = normalise_path(Path::new(entry));
    let (parent, name) = (path.parent()?, path.file_name()?.to_str()?);
    let mut names: Vec<String> = fs::read_dir(from.real.join(parent))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let near = slipway_problem::nearest_name(name, names.iter().map(String::as_str))?;
    Some(display_path(&parent.join(near)))
}
