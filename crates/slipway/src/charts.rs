//! From what a user calls a source to one on this machine: a path, an archive, standard input,
//! `REPO/NAME`, `oci://…`, an address, or a name with a repository's address.
//!
//! Every command that takes a chart goes through [`fetch`].

use std::path::{Path, PathBuf};

use anyhow::Context;
use slipway_chart::net::{Access, Home, Provenance, wait};
use slipway_release::Source;
use tempfile::TempDir;

use crate::commands::chart;
use crate::{files, helm};

/// What somebody wants to use.
#[derive(Clone, Debug, Default)]
pub struct ChartRequest {
    /// As the user wrote it; `-` is an archive on standard input.
    pub reference: String,
    /// Where to look and how to get in: repository, version or constraint, login, certificates.
    pub access: Access,
    /// Helm's files, when they are elsewhere.
    pub home: Option<Home>,
    /// Keys to check the chart's signature with; it is not checked without.
    pub keyring: Option<PathBuf>,
    /// Bring in missing dependencies of a chart directory first.
    pub dependency_update: bool,
}

/// A source on this machine, for as long as this value lives.
#[derive(Debug)]
pub struct Fetched {
    pub source: Source,
    /// What is worth knowing of a download.
    pub notes: Vec<String>,
    /// Holds what came through standard input.
    _folder: Option<TempDir>,
}

/// Gets a source here and says what it is. Blocks while it downloads; works inside of a runtime too.
pub fn fetch(request: &ChartRequest) -> anyhow::Result<Fetched> {
    let reference = request.reference.as_str();
    if reference == "-" {
        let bytes = files::read_stdin()?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("chart.tgz");
        std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        return Ok(Fetched { source: Source::Chart(path), notes: Vec::new(), _folder: Some(folder) });
    }
    let (source, notes) = if is_elsewhere(request) || request.keyring.is_some() {
        let (path, notes) = locate(request)?;
        // What a repository holds is a chart; what lies here may be anything.
        (if Path::new(reference).exists() { Source::detect(&path)? } else { Source::Chart(path) }, notes)
    } else {
        (Source::detect(Path::new(reference))?, Vec::new())
    };
    if let (true, Source::Chart(path)) = (request.dependency_update, &source)
        && path.is_dir()
    {
        chart::update_dependencies(path, &request.access)?;
    }
    Ok(Fetched { source, notes, _folder: None })
}

/// Whether the reference names something that is not on this machine.
fn is_elsewhere(request: &ChartRequest) -> bool {
    let reference = request.reference.as_str();
    let in_repository = reference.contains('/') && !reference.starts_with(['.', '/']);
    reference.contains("://")
        || !request.access.repo.is_empty()
        || in_repository && !Path::new(reference).exists()
}

/// The chart's place on this machine, fetched and checked if need be, and what is worth knowing of it.
pub fn locate(request: &ChartRequest) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let ChartRequest { reference, access, home, keyring, .. } = request;
    // The usual case costs nothing: the chart is here.
    if keyring.is_none() && Path::new(reference).exists() && access.repo.is_empty() {
        return Ok((PathBuf::from(reference), Vec::new()));
    }
    let provenance = if keyring.is_some() { Provenance::Must } else { Provenance::No };
    let remote = helm::remote_with(home.clone().unwrap_or_else(helm::home), access.clone());
    let found = wait(remote.locate(reference, provenance))?;
    if let Some(keyring) = keyring {
        chart::verify::check(&found.path, keyring)?;
    }
    Ok((found.path, found.notes))
}
