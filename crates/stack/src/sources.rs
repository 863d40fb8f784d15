//! The files a release is made of: its chart, package or kustomization and its values files.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use slipway_problem::{Problem, Problems};

use crate::discover::Tree;
use crate::inherit::{Release, ValuesEntry};
use crate::paths;

/// The kind of source a release is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A chart in a directory.
    Chart,
    /// A packed chart.
    Archive,
    Package,
    Kustomization,
    /// `repo/name`, `oci://…` or `https://…`: fetched when it is needed.
    Remote,
}

/// The source of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub kind: SourceKind,
    /// As plans store it: a path relative to the root, or the reference as written.
    pub shown: String,
    /// Its path on disk, unless remote.
    pub path: Option<PathBuf>,
}

/// A values file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesFile {
    pub path: PathBuf,
    /// As plans store it.
    pub shown: String,
}

/// Everything a release reads.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub source: Source,
    pub values: Vec<ValuesFile>,
}

/// Finds inputs and remembers what is where.
#[derive(Debug)]
pub struct Finder<'t> {
    tree: &'t Tree,
    home: Option<&'t Path>,
    seen: HashMap<PathBuf, What>,
    /// Values files that stand in two places, with the place that is passed over.
    pub shadowed: Vec<Problem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    File,
    Directory(SourceKind),
    Nothing,
}

impl<'t> Finder<'t> {
    /// Looks for the inputs of releases of `tree`; `~` stands for `home`.
    pub fn new(tree: &'t Tree, home: Option<&'t Path>) -> Self {
        Self { tree, home, seen: HashMap::new(), shadowed: Vec::new() }
    }

    fn what(&mut self, path: &Path) -> What {
        if let Some(known) = self.seen.get(path) {
            return *known;
        }
        let what = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => What::Directory(kind(path)),
            Ok(_) => What::File,
            Err(_) => What::Nothing,
        };
        self.seen.insert(path.to_owned(), what);
        what
    }

    fn join(&self, dir: &str, written: &str) -> PathBuf {
        if written.starts_with('~') {
            return paths::expand(&self.tree.root, self.home, written);
        }
        paths::normal(&self.tree.root.join(dir).join(written))
    }

    /// Finds what a release is made of; what is missing is a problem.
    pub fn find(&mut self, release: &Release, problems: &mut Problems) -> Option<Inputs> {
        let source = self.source(release, problems);
        let chart_dir = source.as_ref().and_then(|source| match source.kind {
            SourceKind::Remote | SourceKind::Archive => None,
            _ => source.path.clone(),
        });
        let mut complete = true;
        let mut values = Vec::new();
        for entry in &release.values {
            match self.values_file(release, entry, chart_dir.as_deref()) {
                Ok(Some(path)) => {
                    values.push(ValuesFile { shown: paths::shown(&self.tree.root, &path), path });
                }
                Ok(None) => {}
                Err(problem) => {
                    complete = false;
                    problems.push(problem);
                }
            }
        }
        Some(Inputs { source: source?, values }).filter(|_| complete)
    }

    fn source(&mut self, release: &Release, problems: &mut Problems) -> Option<Source> {
        let declaration = &self.tree.releases[release.declaration];
        let written = declaration.chart.value.as_str();
        let remote = || Source { kind: SourceKind::Remote, shown: written.to_owned(), path: None };
        if written.contains("://") {
            return Some(remote());
        }
        let path = self.join(&declaration.dir, written);
        let kind = match self.what(&path) {
            What::Directory(kind) => kind,
            What::File => SourceKind::Archive,
            What::Nothing => {
                let is_path = written.starts_with(['.', '/', '~']);
                // `repo/name` has one slash and nothing that only a path would have.
                let is_reference = !is_path && written.matches('/').count() == 1;
                if is_reference {
                    return Some(remote());
                }
                let problem =
                    Problem::error(format!("release {}: chart \"{written}\" not found", release.id))
                        .code("ST014")
                        .at(declaration.chart.at.clone());
                let hint = format!("looked for {}", paths::shown(&self.tree.root, &path));
                problems.push(problem.hint(hint));
                return None;
            }
        };
        Some(Source { kind, shown: paths::shown(&self.tree.root, &path), path: Some(path) })
    }

    fn values_file(
        &mut self,
        release: &Release,
        entry: &ValuesEntry,
        chart_dir: Option<&Path>,
    ) -> Result<Option<PathBuf>, Problem> {
        let (written, optional) = match entry.written.strip_suffix('?') {
            Some(written) => (written, true),
            None => (entry.written.as_str(), false),
        };
        let mut places = Vec::new();
        if let Some(below) = written.strip_prefix("@root/") {
            places.push(self.join("", below));
        } else if let Some(below) = written.strip_prefix("@release/") {
            places.push(self.join(&self.tree.releases[release.declaration].dir, below));
        } else if let Some(below) = written.strip_prefix("@chart/") {
            places.extend(chart_dir.map(|dir| paths::normal(&dir.join(below))));
        } else {
            places.push(self.join(&entry.dir, written));
            let relative = !written.starts_with('~') && Path::new(written).is_relative();
            if entry.own && relative {
                places.extend(chart_dir.map(|dir| paths::normal(&dir.join(written))));
            }
        }
        places.dedup();
        let there: Vec<&PathBuf> = places.iter().filter(|place| self.what(place) == What::File).collect();
        if let [first, second, ..] = there.as_slice() {
            let root = &self.tree.root;
            let (used, passed) = (paths::shown(root, first), paths::shown(root, second));
            let message =
                format!("release {}: values file {used} is used; {passed} has the same name", release.id);
            self.shadowed.push(Problem::warning(message).at(entry.at.clone()));
        }
        if let Some(found) = there.first() {
            return Ok(Some((*found).clone()));
        }
        if optional {
            return Ok(None);
        }
        let dirs: Vec<String> = places
            .iter()
            .map(|place| {
                let dir = paths::shown(&self.tree.root, place.parent().unwrap_or(place));
                if dir == "." { "./".to_owned() } else { format!("{dir}/") }
            })
            .collect();
        let message = format!(
            "release {}: values file \"{written}\" not found (looked in {})",
            release.id,
            dirs.join(", ")
        );
        Err(Problem::error(message).code("ST013").at(entry.at.clone()))
    }
}

/// Tells by what is there. What is nothing else is taken for a chart, so that a wrong path gets the
/// chart loader's explanation.
fn kind(path: &Path) -> SourceKind {
    let has = |name: &str| path.join(name).is_file();
    if has("Chart.yaml") {
        SourceKind::Chart
    } else if path.extension().is_some_and(|extension| extension == "kurel") || has("parameters.yaml") {
        SourceKind::Package
    } else if KUSTOMIZATIONS.into_iter().any(has) {
        SourceKind::Kustomization
    } else {
        SourceKind::Chart
    }
}

const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// More bases than any kustomization has.
const MOST_BASES: usize = 1_000;

/// The directories and files a source is made of. A kustomization names bases outside its own directory;
/// everything else is one directory or file.
pub fn parts(source: &Source) -> Vec<PathBuf> {
    let Some(path) = &source.path else { return Vec::new() };
    if source.kind != SourceKind::Kustomization {
        return vec![path.clone()];
    }
    let mut parts = BTreeSet::from([path.clone()]);
    let mut open = vec![path.clone()];
    while let Some(dir) = open.pop() {
        let text =
            KUSTOMIZATIONS.iter().find_map(|name| slipway_problem::read_text_file(&dir.join(name)).ok());
        let Some(root) = text.and_then(|text| slipway_yaml::parse_one(&text, "kustomization.yaml").ok())
        else {
            continue;
        };
        for key in ["resources", "components", "bases"] {
            for entry in root.get(key).and_then(slipway_yaml::YamlNode::as_seq).into_iter().flatten() {
                let Some(entry) = entry.as_str().filter(|entry| !entry.contains("://")) else { continue };
                let part = paths::normal(&dir.join(entry));
                if parts.len() < MOST_BASES && part.exists() && parts.insert(part.clone()) && part.is_dir() {
                    open.push(part);
                }
            }
        }
    }
    // What lies inside another part is covered by it.
    let all: Vec<PathBuf> = parts.into_iter().collect();
    all.iter()
        .filter(|part| !all.iter().any(|other| other != *part && part.starts_with(other)))
        .cloned()
        .collect()
}
