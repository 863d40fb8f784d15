//! The files of a package, read once and never again: everything after works on these bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use slipway_problem::{Location, Problems, describe_io, read_hint};

use crate::report::{coded_error, coded_warning};

const MOST_BYTES: u64 = 50 << 20;
const MOST_FILES: usize = 50_000;
const DEEPEST: usize = 32;

/// File contents by path relative to the package, with `/` between names on every system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// Names directly in the package, directories with a `/` at the end.
    top: Vec<String>,
    /// Problems on the way that are not fatal.
    pub(crate) problems: Problems,
}

impl PackageFiles {
    /// Takes files from memory.
    pub fn of<P: Into<String>, T: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, T)>) -> Self {
        let files: BTreeMap<String, Vec<u8>> =
            files.into_iter().map(|(path, bytes)| (path.into(), bytes.into())).collect();
        let mut top: Vec<String> = files
            .keys()
            .map(|path| match path.split_once('/') {
                Some((directory, _)) => format!("{directory}/"),
                None => path.clone(),
            })
            .collect();
        top.dedup();
        Self { files, top, problems: Problems::new() }
    }

    /// Reads the parts of a package that mean something: `parameters.yaml`, `resources/`, `patches/`,
    /// `schemas/` and `tests/`. Nothing outside `root` is read: a link that leads out is an error of the
    /// package, reported with its others.
    pub fn read(root: &Path) -> Result<Self, Problems> {
        let shown = root.display().to_string();
        let canonical = fs::canonicalize(root).map_err(|why| {
            coded_error("KR002", format!("cannot read `{shown}`: {}", describe_io(&why)))
                .at(Location::file(&*shown))
                .hint(read_hint(&why))
        })?;
        let mut walk = DirectoryWalk { root: canonical, bytes: 0, files: PackageFiles::default() };
        walk.read_entries(root, "", 0);
        let files = walk.files;
        // What could be read is looked at as well, so that one run shows every mistake.
        if files.files.is_empty() && files.problems.has_errors() { Err(files.problems) } else { Ok(files) }
    }

    /// The bytes of a file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// The text of a file without its byte order mark; a problem if it is not UTF-8.
    pub(crate) fn text(&self, path: &str, problems: &mut Problems) -> Option<&str> {
        let bytes = self.get(path)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Err(why) => {
                let line =
                    bytes[..why.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() as u32 + 1;
                problems.push(coded_error("KR002", "the file is not UTF-8").at(Location::new(path, line, 1)));
                None
            }
        }
    }

    /// Paths below a directory (`resources/`), in byte order.
    pub fn below<'f>(&'f self, directory: &'f str) -> impl Iterator<Item = &'f str> {
        self.files
            .range(directory.to_owned()..)
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(directory))
    }

    /// Names directly in the package; directories end in `/`.
    pub fn top(&self) -> &[String] {
        &self.top
    }
}

struct DirectoryWalk {
    root: std::path::PathBuf,
    bytes: u64,
    files: PackageFiles,
}

const DIRECTORIES: [&str; 4] = ["resources", "patches", "schemas", "tests"];

impl DirectoryWalk {
    fn read_entries(&mut self, directory: &Path, prefix: &str, depth: usize) {
        if depth > DEEPEST {
            let problem = coded_error("KR010", format!("directories nest deeper than {DEEPEST} levels"));
            self.files.problems.push(problem.at(Location::new(prefix, 1, 1)));
            return;
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(why) => {
                let problem = coded_error("KR002", format!("cannot read the directory: {why}"));
                let shown =
                    if prefix.is_empty() { directory.display().to_string() } else { prefix.to_owned() };
                self.files.problems.push(problem.at(Location::file(shown)));
                return;
            }
        };
        let mut names: Vec<std::ffi::OsString> =
            entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort();
        for name in names {
            let Some(name) = name.to_str() else {
                let shown = format!("{prefix}{}", name.display());
                self.files.problems.push(
                    coded_warning("KR011", "the file name is not UTF-8; ignored").at(Location::file(shown)),
                );
                continue;
            };
            if name.contains('\\') {
                let problem =
                    coded_error("KR011", "the file name has a backslash, which is a separator elsewhere");
                let at = Location::new(format!("{prefix}{name}"), 1, 1);
                self.files
                    .problems
                    .push(problem.at(at).hint("rename it: patches and files are known by `/`"));
            } else if !name.starts_with('.') {
                self.read_entry(&directory.join(name), name, prefix, depth);
            }
        }
    }

    fn read_entry(&mut self, path: &Path, name: &str, prefix: &str, depth: usize) {
        let shown = format!("{prefix}{name}");
        let Ok(own) = fs::symlink_metadata(path) else { return };
        if own.is_symlink() && !self.stays_inside(path, &shown) {
            return;
        }
        let Ok(kind) = fs::metadata(path) else { return };
        if prefix.is_empty() {
            self.files.top.push(if kind.is_dir() { format!("{name}/") } else { name.to_owned() });
        }
        if kind.is_dir() {
            if !prefix.is_empty() || DIRECTORIES.contains(&name) {
                self.read_entries(path, &format!("{shown}/"), depth + 1);
            }
        } else if kind.is_file() && (!prefix.is_empty() || matches!(name, "parameters.yaml" | "kurel.yaml")) {
            self.read_file(path, shown, kind.len());
        }
    }

    fn stays_inside(&mut self, path: &Path, shown: &str) -> bool {
        let problem = match fs::canonicalize(path) {
            Ok(target)
                if path
                    .parent()
                    .and_then(|p| fs::canonicalize(p).ok())
                    .is_some_and(|p| p.starts_with(&target)) =>
            {
                coded_error("KR010", "the link leads to a directory it is in")
            }
            Ok(target) if target.starts_with(&self.root) => return true,
            Ok(_) => coded_error("KR010", "the link leads out of the package")
                .hint("copy the file into the package: nothing outside of it is read"),
            Err(why) => coded_error("KR010", format!("the link cannot be followed: {why}")),
        };
        // What is wrong is the file as a whole: its beginning stands for it.
        self.files.problems.push(problem.at(Location::new(shown, 1, 1)));
        false
    }

    fn read_file(&mut self, path: &Path, shown: String, length: u64) {
        self.bytes += length;
        if self.bytes > MOST_BYTES || self.files.files.len() >= MOST_FILES {
            if !self.files.problems.has_errors() {
                let problem = coded_error("KR012", "the package is larger than 50 MiB or 50,000 files");
                self.files.problems.push(problem.at(Location::file(shown)));
            }
            return;
        }
        match slipway_problem::read_file(path) {
            Ok(bytes) => {
                self.files.files.insert(shown, bytes);
            }
            Err(why) => {
                let problem = coded_error("KR002", format!("cannot read the file: {why}"));
                self.files.problems.push(problem.at(Location::file(shown)));
            }
        }
    }
}
