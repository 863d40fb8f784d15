//! The source of a unit: sealed file by file, and restored for every rendering.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use slipway_journal::digest;
use slipway_problem::Problem;
use slipway_source::{LoadedSource, SourceContent, SourcePath};
use tempfile::TempDir;

use crate::container::{BlobStore, ChartRow, ContentHash, FileRow, SealedRows, SourceKind};
use crate::error::UnitError;
use crate::parallel::in_parallel;

/// No package has more files.
const MOST_FILES: usize = 20_000;
/// The file that holds what a kustomization builds, or plain manifests.
const MANIFESTS: &str = "manifests.yaml";

/// A file to be sealed, with the hash of its content.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) content: Arc<[u8]>,
    pub(crate) hash: ContentHash,
}

impl SourceFile {
    fn new(path: String, content: impl Into<Arc<[u8]>>) -> Self {
        let content = content.into();
        Self { path, hash: ContentHash::of(&content), content }
    }
}

/// A source as it is sealed.
#[derive(Debug)]
pub(crate) struct SealedSource {
    pub(crate) row: ChartRow,
    pub(crate) files: Vec<SourceFile>,
}

/// Takes every file of a loaded source.
pub(crate) fn seal_source(
    path: &SourcePath,
    reference: &str,
    loaded: &LoadedSource,
) -> Result<SealedSource, UnitError> {
    let stem = path.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut row = ChartRow {
        id: 1,
        reference: slipway_source::shown_address(reference),
        name: stem,
        version: String::new(),
        app_version: String::new(),
        package_digest: String::new(),
        tree_digest: String::new(),
        lock_digest: String::new(),
        source_kind: SourceKind::Manifests,
    };
    let mut files = match loaded.content() {
        SourceContent::Chart(loaded) => {
            let chart = loaded.chart();
            if loaded.has_encrypted_values() {
                let problem = Problem::error(format!(
                    "chart `{}` brings encrypted values, which a unit cannot hold",
                    chart.name()
                ));
                return Err(problem
                    .hint("refer to secrets in the values instead: `secret://PROVIDER/PATH#KEY`")
                    .into());
            }
            row.source_kind = SourceKind::Chart;
            row.name = chart.name().to_owned();
            row.version.clone_from(&chart.metadata.version);
            row.app_version.clone_from(&chart.metadata.app_version);
            row.lock_digest = chart
                .raw_file("Chart.lock")
                .or_else(|| chart.raw_file("requirements.lock"))
                .map(|file| digest::bytes(&file.data))
                .unwrap_or_default();
            in_parallel(&chart.raw, |file| {
                SourceFile::new(format!("{}/{}", chart.name(), file.name), Arc::clone(&file.data))
            })
        }
        SourceContent::Package(package) => {
            row.source_kind = SourceKind::Package;
            row.name.clone_from(&package.metadata.name);
            row.version.clone_from(&package.metadata.version);
            row.app_version.clone_from(&package.metadata.app_version);
            package_files(path.path())?
        }
        SourceContent::Kustomization(build) => {
            row.source_kind = SourceKind::Kustomization;
            vec![SourceFile::new(MANIFESTS.to_owned(), build.to_yaml().into_bytes())]
        }
        SourceContent::Manifests(documents) => {
            let mut text = String::new();
            for document in documents {
                text.push_str("---\n");
                text.push_str(&yaml_text(&document.object)?);
            }
            vec![SourceFile::new(MANIFESTS.to_owned(), text.into_bytes())]
        }
    };
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    row.tree_digest = tree_digest(&files);
    Ok(SealedSource { row, files })
}

/// The digest of a packed chart; a directory has none.
pub(crate) fn package_digest(path: &SourcePath) -> Result<String, UnitError> {
    let (SourcePath::Chart(file), true) = (path, path.path().is_file()) else { return Ok(String::new()) };
    let content = fs::read(file).map_err(UnitError::io("read", file))?;
    Ok(digest::bytes(&content))
}

pub(crate) fn yaml_text(object: &serde_json::Value) -> Result<String, UnitError> {
    slipway_yaml::to_string(object)
        .map_err(|error| UnitError::problem(format!("an object cannot be written: {error}")))
}

fn tree_digest(files: &[SourceFile]) -> String {
    let mut text = String::new();
    for file in files {
        text.push_str(&format!("{}\0{}\n", file.path, digest::hex(&file.hash.0)));
    }
    digest::bytes(text.as_bytes())
}

/// The files of a package and of the extension beside it.
fn package_files(path: &Path) -> Result<Vec<SourceFile>, UnitError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut files = Vec::new();
    read_tree(path, &name, &mut files)?;
    if let Some(stem) = name.strip_suffix(".kurel") {
        let local = format!("{stem}.local.kurel");
        let beside = path.with_file_name(&local);
        if beside.is_dir() {
            read_tree(&beside, &local, &mut files)?;
        }
    }
    Ok(files)
}

fn read_tree(root: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Result<(), UnitError> {
    let mut pending = vec![(root.to_owned(), prefix.to_owned())];
    while let Some((directory, prefix)) = pending.pop() {
        for entry in fs::read_dir(&directory).map_err(UnitError::io("read", &directory))? {
            let entry = entry.map_err(UnitError::io("read", &directory))?;
            let path = entry.path();
            let shown = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(UnitError::io("read", &path))?;
            if kind.is_dir() {
                if entry.file_name() != ".git" {
                    pending.push((path, shown));
                }
            } else if kind.is_file() {
                let content = slipway_problem::read_file(&path).map_err(UnitError::io("read", &path))?;
                files.push(SourceFile::new(shown, content));
            }
            if files.len() > MOST_FILES {
                return Err(UnitError::problem(format!("a package may have {MOST_FILES} files")));
            }
        }
    }
    Ok(())
}

/// A sealed source on this machine, for as long as it is needed.
#[derive(Debug)]
pub(crate) struct RestoredSource {
    directory: TempDir,
    pub(crate) path: SourcePath,
}

impl RestoredSource {
    /// The directory whose name must not show in anything rendered.
    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }
}

/// Writes the files of a unit to a private directory.
pub(crate) fn restore_source(rows: &SealedRows, blobs: &BlobStore) -> Result<RestoredSource, UnitError> {
    let files: Result<Vec<SourceFile>, UnitError> = rows
        .files
        .iter()
        .map(|row: &FileRow| {
            Ok(SourceFile {
                path: row.path.clone(),
                content: blobs.get(&row.sha256)?.into(),
                hash: row.sha256,
            })
        })
        .collect();
    write_source(&files?, rows.chart.source_kind)
}

/// Writes files to a private directory.
pub(crate) fn write_source(files: &[SourceFile], kind: SourceKind) -> Result<RestoredSource, UnitError> {
    let directory = tempfile::Builder::new()
        .prefix("slipway-unit-")
        .tempdir()
        .map_err(UnitError::io("create", Path::new("a temporary directory")))?;
    for file in files {
        let outside = || UnitError::tampered("chart_files", "names a path outside of the source");
        let relative = safe_path(&file.path).ok_or_else(outside)?;
        let path = directory.path().join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(UnitError::io("create", parent))?;
        }
        fs::write(&path, &file.content).map_err(UnitError::io("write", &path))?;
    }
    let first = files.first().and_then(|file| file.path.split('/').next()).unwrap_or_default();
    let root = match kind {
        // An extension beside it sorts before the package.
        SourceKind::Package => files
            .iter()
            .filter_map(|file| file.path.split('/').next())
            .find(|name| !name.ends_with(".local.kurel"))
            .unwrap_or(first),
        _ => first,
    };
    let path = directory.path().join(root);
    let path = match kind {
        SourceKind::Chart => SourcePath::Chart(path),
        SourceKind::Package => SourcePath::Package(path),
        SourceKind::Kustomization | SourceKind::Manifests => SourcePath::Manifests(path),
    };
    Ok(RestoredSource { directory, path })
}

/// A path that stays below the directory it is joined to; none if it would not.
pub(crate) fn safe_path(path: &str) -> Option<PathBuf> {
    let relative = PathBuf::from(path);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let is_safe = !path.is_empty() && relative.components().all(is_plain) && !path.contains(['\\', '\0']);
    is_safe.then_some(relative)
}
