//! Detects what a release is made of by what lies at a path.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use slipway_problem::{Location, Problem, nearest_name};

/// A source on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePath {
    /// A chart directory or archive.
    Chart(PathBuf),
    Package(PathBuf),
    Kustomization(PathBuf),
    /// A YAML file, or a directory of them.
    Manifests(PathBuf),
}

/// The kinds of source that a file in their directory marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceKind {
    Chart,
    Package,
    Kustomization,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chart => "chart",
            Self::Package => "package",
            Self::Kustomization => "kustomization",
        })
    }
}

/// The files that tell what a directory is.
const MARKS: [(&str, SourceKind); 5] = [
    ("Chart.yaml", SourceKind::Chart),
    ("parameters.yaml", SourceKind::Package),
    ("kustomization.yaml", SourceKind::Kustomization),
    ("kustomization.yml", SourceKind::Kustomization),
    ("Kustomization", SourceKind::Kustomization),
];

/// Most suggestions a hint makes.
const MOST_HINTS: usize = 5;

impl SourcePath {
    /// The path of the source.
    pub fn path(&self) -> &Path {
        match self {
            Self::Chart(path) | Self::Package(path) | Self::Kustomization(path) | Self::Manifests(path) => {
                path
            }
        }
    }

    /// Tells what `path` is: a directory by the files in it, a file by its content. Naming one of those
    /// files (`shop/Chart.yaml`) means its directory, and settles what the directory is to be taken for.
    pub fn detect(path: &Path) -> Result<Self, Problem> {
        let at = || Location::file(path.display().to_string());
        let Ok(about) = fs::metadata(path) else {
            return Err(missing_problem(path).at(at()));
        };
        if !about.is_dir() {
            return Self::detect_file(path).map_err(|problem| problem.at(at()));
        }
        let found = find_marks(path);
        let source = |kind| Self::from_kind(kind, path);
        match found.as_slice() {
            [(_, kind), rest @ ..] if rest.iter().all(|(_, other)| other == kind) => Ok(source(*kind)),
            [] if is_named(path, ".local.kurel") => {
                let problem = Problem::error("this is the local extension of a package");
                Err(problem.at(at()).hint("name the package; the extension beside it is found"))
            }
            // The name says what it is to be; what is missing, the package's own loader explains.
            [] if is_named(path, ".kurel") => Ok(source(SourceKind::Package)),
            [] if !manifest_files(path).is_empty() => Ok(Self::Manifests(path.to_owned())),
            [] => Err(empty_directory_problem(path).at(at())),
            several => {
                let kinds: Vec<String> =
                    several.iter().map(|(name, kind)| format!("a {kind} ({name})")).collect();
                let names: Vec<String> =
                    several.iter().map(|(name, _)| format!("`{}`", path.join(name).display())).collect();
                let problem = Problem::error(format!("the directory is {} at once", kinds.join(" and ")));
                Err(problem.at(at()).hint(format!("name the file that counts: {}", names.join(" or "))))
            }
        }
    }

    fn detect_file(path: &Path) -> Result<Self, Problem> {
        let name = path.file_name().unwrap_or_default();
        if let Some((_, kind)) = MARKS.iter().find(|(mark, _)| name == *mark) {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            return Ok(Self::from_kind(*kind, parent.unwrap_or(Path::new("."))));
        }
        if is_archive(path) {
            return Ok(Self::Chart(path.to_owned()));
        }
        if is_manifest(path) {
            return Ok(Self::Manifests(path.to_owned()));
        }
        Err(Problem::error("the file is neither a chart archive nor manifests")
            .hint("name the directory of a chart, package or kustomization, a .tgz, or a YAML file"))
    }

    fn from_kind(kind: SourceKind, path: &Path) -> Self {
        let path = path.to_owned();
        match kind {
            SourceKind::Chart => Self::Chart(path),
            SourceKind::Package => Self::Package(path),
            SourceKind::Kustomization => Self::Kustomization(path),
        }
    }
}

fn is_manifest(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
}

/// The manifests at a path: the file itself, or those in the directory, in order.
pub(crate) fn manifest_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut files: Vec<PathBuf> = entry_names(path).into_iter().map(|name| path.join(name)).collect();
    files.retain(|file| file.is_file() && is_manifest(file));
    files
}

fn is_named(path: &Path, end: &str) -> bool {
    // `.` and the like have no name of their own.
    let real = path.canonicalize();
    let name = path.file_name().or_else(|| real.as_deref().ok()?.file_name());
    name.is_some_and(|name| name.to_string_lossy().ends_with(end))
}

/// The files in a directory that tell what it is.
fn find_marks(directory: &Path) -> Vec<(&'static str, SourceKind)> {
    let is_there = |(name, kind): &(&str, SourceKind)| {
        let path = directory.join(name);
        // Many things are called parameters.yaml; a package's one says `kurel:`.
        path.is_file() && (*kind != SourceKind::Package || is_named(directory, ".kurel") || says_kurel(&path))
    };
    MARKS.into_iter().filter(is_there).collect()
}

fn says_kurel(path: &Path) -> bool {
    // What cannot be read is left to the package's loader to explain.
    slipway_problem::read_file(path).is_ok_and(|bytes| {
        let first = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        first.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"kurel:"))
    })
}

/// Returns true if a file begins as gzip does, or is named as if it did.
fn is_archive(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    let begins =
        path.is_file() && fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    let name = path.to_string_lossy();
    begins && start == [0x1f, 0x8b] || name.ends_with(".tgz") || name.ends_with(".tar.gz")
}

fn missing_problem(path: &Path) -> Problem {
    let problem = Problem::error("there is no such file or directory");
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = entry_names(parent);
    let wanted = path.file_name().unwrap_or_default().to_string_lossy();
    match nearest_name(&wanted, names.iter().map(String::as_str)) {
        Some(near) => problem.hint(format!("did you mean `{}`?", parent.join(near).display())),
        None => problem.hint("a source is the directory of a chart, package or kustomization"),
    }
}

fn empty_directory_problem(path: &Path) -> Problem {
    let problem = Problem::error("there is no chart, package, kustomization or manifest in this directory");
    let inside: Vec<String> = entry_names(path)
        .into_iter()
        .map(|name| path.join(name))
        .filter(|path| path.is_dir() && (!find_marks(path).is_empty() || is_named(path, ".kurel")))
        .map(|path| format!("`{}`", path.display()))
        .take(MOST_HINTS)
        .collect();
    problem.hint(if inside.is_empty() {
        "one of Chart.yaml, parameters.yaml (with `kurel:`) or kustomization.yaml is needed".to_owned()
    } else {
        format!("did you mean {}?", inside.join(" or "))
    })
}

/// The names in a directory, in order; none when it cannot be read.
fn entry_names(directory: &Path) -> Vec<String> {
    let read = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = read.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::SourceKind;
    use crate::SourcePath;

    #[test]
    fn a_directory_is_what_its_files_say() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str, files: &[(&str, &str)]| {
            let directory = root.path().join(name);
            fs::create_dir_all(&directory).unwrap();
            for (name, text) in files {
                fs::write(directory.join(name), text).unwrap();
            }
            directory
        };
        let package = ("parameters.yaml", "kurel: {name: a}\n");
        for (name, files, expected) in [
            ("chart", &[("Chart.yaml", "")][..], Ok(SourceKind::Chart)),
            ("plain-parameters", &[("Chart.yaml", ""), ("parameters.yaml", "a: 1\n")], Ok(SourceKind::Chart)),
            ("package", &[package], Ok(SourceKind::Package)),
            ("empty.kurel", &[], Ok(SourceKind::Package)),
            ("kustomization", &[("kustomization.yml", "")], Ok(SourceKind::Kustomization)),
            ("two", &[("kustomization.yml", ""), ("Kustomization", "")], Ok(SourceKind::Kustomization)),
            ("a.local.kurel", &[], Err("name the package")),
            ("both", &[("Chart.yaml", ""), ("kustomization.yaml", "")], Err("both/Chart.yaml` or `")),
            ("nothing", &[("README.md", "")], Err("is needed")),
            ("charts/shop", &[("Chart.yaml", "")], Ok(SourceKind::Chart)),
            ("charts", &[], Err("charts/shop`?")),
        ] {
            let path = place(name, files);
            match (SourcePath::detect(&path), expected) {
                (Ok(source), Ok(kind)) => assert_eq!(source, SourcePath::from_kind(kind, &path), "{name}"),
                (Err(problem), Err(hint)) => {
                    assert!(problem.hint.as_deref().is_some_and(|text| text.contains(hint)), "{problem}");
                    assert!(problem.at.is_some(), "{name}");
                }
                (found, expected) => panic!("{name}: {found:?}, not {expected:?}"),
            }
        }
        let chosen = SourcePath::detect(&root.path().join("both/kustomization.yaml")).unwrap();
        assert_eq!(chosen, SourcePath::Kustomization(root.path().join("both")));
        let plain = place("plain", &[("a.yaml", "")]);
        assert_eq!(SourcePath::detect(&plain).unwrap(), SourcePath::Manifests(plain.clone()));
        let near = SourcePath::detect(&root.path().join("chrt")).unwrap_err();
        assert!(near.hint.unwrap().contains("chart`?"));
        assert!(SourcePath::detect(&root.path().join("nothing/README.md")).is_err());
    }
}
