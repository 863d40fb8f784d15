//! Writing into a directory again and again: what is ours is replaced, what is not is left alone.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use slipway_problem::Problem;

use super::OutFile;
use crate::build::PackageBuild;
use crate::report::coded_error;

/// The file that says which files of a directory are ours.
pub const MARKER: &str = ".kurel-manifest.json";

/// The changes to make to a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryPlan {
    /// Files that differ from what is there, the marker among them.
    pub write: Vec<OutFile>,
    /// Files of an earlier build that this one does not have.
    pub delete: Vec<String>,
}

/// The treatment of files in an output directory that no build wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFiles {
    /// Nothing is written beside them.
    Refused,
    /// They stay, and files are written beside them.
    Kept,
}

/// Compares a build's files with a directory. `existing` are the directory's files by path.
pub fn plan_directory(
    build: &PackageBuild,
    files: &[OutFile],
    existing: &BTreeMap<String, Vec<u8>>,
    foreign: ForeignFiles,
) -> Result<DirectoryPlan, Problem> {
    let ours: Vec<String> = match existing.get(MARKER) {
        Some(bytes) => {
            let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
            let paths = json["files"].as_array().into_iter().flatten();
            paths
                .filter_map(|file| file["path"].as_str())
                .filter(|path| is_inside(path))
                .map(str::to_owned)
                .collect()
        }
        None if existing.is_empty() || foreign == ForeignFiles::Kept => Vec::new(),
        None => {
            return Err(coded_error("KO001", "the output directory has files that are not ours")
                .hint("choose an empty directory, or use --force"));
        }
    };
    let mut all: Vec<OutFile> = files.to_vec();
    all.push(OutFile { path: MARKER.to_owned(), text: marker_text(build, files) });
    let write = all
        .iter()
        .filter(|file| existing.get(&file.path).map(Vec::as_slice) != Some(file.text.as_bytes()))
        .cloned()
        .collect();
    let delete = ours
        .into_iter()
        .filter(|path| existing.contains_key(path) && !files.iter().any(|file| file.path == *path))
        .collect();
    Ok(DirectoryPlan { write, delete })
}

/// A marker someone edited must not make us delete elsewhere.
fn is_inside(path: &str) -> bool {
    !path.starts_with('/')
        && !path.contains('\\')
        && path.split('/').all(|part| !part.is_empty() && part != ".." && part != ".")
}

fn marker_text(build: &PackageBuild, files: &[OutFile]) -> String {
    let files: Vec<Json> = files
        .iter()
        .map(|file| json!({"path": file.path, "sha256": crate::package::hex_text(&Sha256::digest(file.text.as_bytes()))}))
        .collect();
    let marker =
        json!({"package": build.package, "version": build.version, "inputs": build.digest, "files": files});
    let mut text = serde_json::to_string_pretty(&marker).unwrap_or_default();
    text.push('\n');
    text
}
