//! From what a user calls a source to one on this machine: a path, an archive, standard input,
//! `REPO/NAME`, `oci://…`, an address, or a name with a repository's address.
//!
//! Every command that takes a chart goes through [`fetch`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use futures::future::BoxFuture;
use slipway_chart::net::{AccessOptions, HelmHome, Login, ProvenanceMode, run_blocking};
use slipway_source::{
    ChartReference, Decryption, FetchError, FetchedChart, Fetcher, LoadContext, LoadError, SourcePath,
    SourceReference,
};
use tempfile::TempDir;

use crate::commands::chart;
use crate::commands::secrets::resolution::{self, ReferenceResolver};
use crate::exit::SecretError;
use crate::session::Session;
use crate::{files, helm};

/// What somebody wants to use.
#[derive(Clone, Debug, Default)]
pub struct ChartRequest {
    /// As the user wrote it; `-` is an archive on standard input.
    pub reference: String,
    /// Where to look and how to get in: repository, version or constraint, login, certificates.
    pub access: AccessOptions,
    /// Helm's files, when they are elsewhere.
    pub home: Option<HelmHome>,
    /// Keys to check the chart's signature with; it is not checked without.
    pub keyring: Option<PathBuf>,
    /// Bring in missing dependencies of a chart directory first.
    pub dependency_update: bool,
}

/// A source on this machine, for as long as this value lives.
#[derive(Debug)]
pub struct Fetched {
    pub source: SourcePath,
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
        return Ok(Fetched { source: SourcePath::Chart(path), notes: Vec::new(), _folder: Some(folder) });
    }
    let repository = Some(request.access.repo.as_str()).filter(|repository| !repository.is_empty());
    let version = Some(request.access.version.as_str()).filter(|version| !version.is_empty());
    let parsed = SourceReference::parse(reference, repository, version);
    let mut notes = Vec::new();
    if matches!(parsed, SourceReference::Path(_)) && request.keyring.is_some() {
        // A chart that is here has its signature beside it.
        notes = locate(request)?.1;
    }
    let fetcher = HelmFetcher::new(request.clone(), Notes::Give);
    let found =
        futures::executor::block_on(slipway_source::fetch_source(&parsed, &fetcher)).map_err(load_failure)?;
    notes.extend(found.notes);
    if let (true, SourcePath::Chart(path)) = (request.dependency_update, &found.path)
        && path.is_dir()
    {
        chart::update_dependencies(path, &request.access)?;
    }
    Ok(Fetched { source: found.path, notes, _folder: None })
}

/// Where notes on downloads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// To the caller.
    Give,
    /// To standard error.
    Say,
    /// Nowhere.
    Drop,
}

/// Fetches charts as Helm does, each once, into Helm's cache.
pub struct HelmFetcher {
    /// What every chart is asked for with.
    request: ChartRequest,
    notes: Notes,
    fetched: Mutex<HashMap<(String, String), PathBuf>>,
}

impl HelmFetcher {
    pub fn new(request: ChartRequest, notes: Notes) -> Self {
        Self { request, notes, fetched: Mutex::default() }
    }

    fn fetch(&self, chart: &ChartReference) -> anyhow::Result<FetchedChart> {
        let mut request = ChartRequest { reference: chart.name.clone(), ..self.request.clone() };
        let access = &mut request.access;
        if let Some(repository) = &chart.repository {
            access.repo.clone_from(repository);
        }
        if let Some(version) = &chart.version {
            access.version.clone_from(version);
        }
        if let Some(login) = &chart.login {
            let (username, password) = (login.username.clone(), login.password.clone());
            access.login = Some(Login { username, password });
        }
        let wanted = (chart.name.clone(), access.version.clone());
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = fetched.get(&wanted) {
            return Ok(FetchedChart { path: path.clone(), notes: Vec::new() });
        }
        let (path, mut notes) = locate(&request)?;
        match self.notes {
            Notes::Give => {}
            Notes::Say => notes.drain(..).for_each(|note| say!("{note}")),
            Notes::Drop => notes.clear(),
        }
        fetched.insert(wanted, path.clone());
        Ok(FetchedChart { path, notes })
    }
}

impl Fetcher for HelmFetcher {
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>> {
        let failed = |error: anyhow::Error| FetchError {
            message: format!("{error:#}"),
            permanent: true,
            source: error.downcast().ok(),
        };
        Box::pin(async move { self.fetch(chart).map_err(failed) })
    }

    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        let home = self.request.home.clone().unwrap_or_else(helm::home);
        let remote = helm::remote_with(home, self.request.access.clone());
        Box::pin(async move { Ok(run_blocking(remote.get(url))?) })
    }
}

/// How sources are read: secrets are decrypted with the key that is found, and hidden wherever something is shown.
pub fn load_context(
    fetcher: impl Fetcher + 'static,
    decryption: Decryption,
    session: &Session,
) -> LoadContext {
    let redactor = session.redactor().clone();
    LoadContext { fetcher: Arc::new(fetcher), decryption, redactor, ..LoadContext::default() }
}

/// The same, with references to secrets resolved.
pub fn load_context_with(
    fetcher: impl Fetcher + 'static,
    decryption: Decryption,
    references: ReferenceResolver,
    session: &Session,
) -> LoadContext {
    LoadContext { resolver: Some(Arc::new(references)), ..load_context(fetcher, decryption, session) }
}

/// A source that could not be read, as the user is told.
pub fn load_failure(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Chart(error) => error.into(),
        LoadError::Problems(problems) => problems.into(),
        LoadError::NoKey(problem) => SecretError(problem).into(),
        LoadError::Resolve(error) => resolution::failure(error),
        LoadError::Decrypt { file, source } => anyhow::Error::from(source).context(format!("decrypt {file}")),
        error => error.into(),
    }
}

/// The chart's place on this machine, fetched and checked if need be, and what is worth knowing of it.
pub fn locate(request: &ChartRequest) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let ChartRequest { reference, access, home, keyring, .. } = request;
    // The usual case costs nothing: the chart is here.
    if keyring.is_none() && Path::new(reference).exists() && access.repo.is_empty() {
        return Ok((PathBuf::from(reference), Vec::new()));
    }
    // A word that names neither a repository nor an address is a path, and a path that is not there.
    if access.repo.is_empty() && !reference.contains('/') {
        SourcePath::detect(Path::new(reference))?;
    }
    let provenance = if keyring.is_some() { ProvenanceMode::Must } else { ProvenanceMode::No };
    let remote = helm::remote_with(home.clone().unwrap_or_else(helm::home), access.clone());
    let found = run_blocking(remote.locate_chart(reference, provenance))?;
    if let Some(keyring) = keyring {
        chart::verify::check(&found.path, keyring)?;
    }
    Ok((found.path, found.notes))
}
