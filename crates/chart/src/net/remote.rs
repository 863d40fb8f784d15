//! Charts by the names users give them: `repo/name`, an address, `oci://…`, or `--repo` and a name.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::error::{ChartError, ChartFault};
use crate::load::go_io;
use crate::repo::{IndexEntry, RepositoryEntry, RepositoryIndex};
use slipway_event::without_credentials;
use slipway_http::{HttpError, parse_url};

use super::credentials::{Credentials, Login};
use super::file_names::{archive_name, cache_directory, chart_name};
use super::home::{HelmHome, replace_file};
use super::http::{ClientOptions, HttpClient, NetworkOptions};
use super::index::{check_digest, fetch_index, is_same_origin, login_for};
use super::oci;
use super::reference::OciReference;

/// Options of reaching a chart: the flags beside its name.
#[derive(Clone, Debug, Default)]
pub struct AccessOptions {
    /// The address of a repository to look in.
    pub repo: String,
    /// A version or constraint; empty means the newest release.
    pub version: String,
    pub login: Option<Login>,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub insecure_skip_tls_verify: bool,
    pub plain_http: bool,
    /// Send the login to other hosts than the repository's as well.
    pub pass_credentials: bool,
}

/// Selects if the signature of a chart is fetched with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvenanceMode {
    No,
    /// Its absence is worth a note.
    IfThere,
    Must,
}

/// A chart brought to this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadedChart {
    pub path: PathBuf,
    /// The file with the signature, if it was asked for and is there.
    pub provenance: Option<PathBuf>,
    /// Notes for the user, line by line.
    pub notes: Vec<String>,
}

/// Asks a `docker-credential-…` program for a host's login.
pub type CredentialHelper = dyn Fn(&str, &str) -> Option<Login> + Send + Sync;

/// Finds and fetches charts.
#[derive(Clone)]
pub struct RemoteCharts {
    pub home: HelmHome,
    pub access: AccessOptions,
    helper: Arc<CredentialHelper>,
    network: NetworkOptions,
    /// Indexes already read, shared by all clones.
    indexes: Indexes,
}

/// Indexes by the address of their repository and the user they were read as. Whoever comes while one is
/// read waits for it instead of reading it again.
type Indexes = Arc<Mutex<HashMap<(String, String), Arc<OnceCell<Arc<RepositoryIndex>>>>>>;

impl fmt::Debug for RemoteCharts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCharts")
            .field("home", &self.home)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// A chart's archive and signature, not yet on disk.
pub(super) struct FetchedArchive {
    pub(super) file_name: String,
    pub(super) chart: Vec<u8>,
    pub(super) signature: Option<Vec<u8>>,
    notes: Vec<String>,
}

/// A chart to fetch and the server it comes from.
pub(super) enum FetchTarget {
    Http {
        url: String,
        repository: RepositoryEntry,
        digest: String,
    },
    /// A registry, and whether the login that was given is for it.
    Oci {
        reference: OciReference,
        login: bool,
    },
}

pub(super) fn publish_error<T>(text: impl Into<String>) -> Result<T, ChartError> {
    Err(ChartError::Publish(text.into()))
}

impl FetchedArchive {
    /// Writes the chart, and its signature beside it.
    fn write_to(self, directory: &Path) -> Result<DownloadedChart, ChartError> {
        fs::create_dir_all(directory)
            .map_err(|error| ChartError::Publish(go_io("mkdir", directory, &error)))?;
        let path = directory.join(&self.file_name);
        replace_file(&path, &self.chart)?;
        let provenance = match self.signature {
            Some(bytes) => {
                let path = directory.join(format!("{}.prov", self.file_name));
                replace_file(&path, &bytes)?;
                Some(path)
            }
            None => None,
        };
        Ok(DownloadedChart { path, provenance, notes: self.notes })
    }
}

impl RemoteCharts {
    pub fn new(home: HelmHome, access: AccessOptions, helper: Arc<CredentialHelper>) -> Self {
        Self { home, access, helper, network: NetworkOptions::default(), indexes: Arc::default() }
    }

    /// The same with other network options: limits and cancellation.
    #[must_use]
    pub fn with_network(self, network: NetworkOptions) -> Self {
        Self { network, ..self }
    }

    /// A chart on this machine by that name: where it already is, or where it was put into the cache.
    pub async fn locate_chart(
        &self,
        name: &str,
        provenance: ProvenanceMode,
    ) -> Result<DownloadedChart, ChartError> {
        let name = name.trim();
        let path = Path::new(name);
        if path.exists() {
            let beside = PathBuf::from(format!("{name}.prov"));
            let provenance = (provenance != ProvenanceMode::No && beside.is_file()).then_some(beside);
            return Ok(DownloadedChart { path: path.to_owned(), provenance, notes: Vec::new() });
        }
        if path.is_absolute() || name.starts_with('.') {
            return publish_error(format!("path {} not found", crate::values::go_quote(name)));
        }
        let archive = self.fetch_archive(name, provenance).await?;
        let directory = cache_directory(&self.home.cache, &archive.chart);
        archive.write_to(&directory)
    }

    /// Fetches a chart into a directory.
    pub async fn download_chart(
        &self,
        name: &str,
        directory: &Path,
        provenance: ProvenanceMode,
    ) -> Result<DownloadedChart, ChartError> {
        self.fetch_archive(name, provenance).await?.write_to(directory)
    }

    async fn fetch_archive(
        &self,
        name: &str,
        provenance: ProvenanceMode,
    ) -> Result<FetchedArchive, ChartError> {
        match self.resolve_target(name).await? {
            FetchTarget::Http { url, repository, digest } => {
                self.fetch_http(&url, &repository, &digest, provenance).await
            }
            FetchTarget::Oci { reference, login } => {
                let credentials = if login {
                    self.credentials_for(&reference.host)?
                } else {
                    self.known_credentials(&reference.host)?
                };
                self.fetch_oci(name, &reference, &credentials, provenance).await
            }
        }
    }

    pub(super) async fn fetch_http(
        &self,
        url: &str,
        repository: &RepositoryEntry,
        digest: &str,
        provenance: ProvenanceMode,
    ) -> Result<FetchedArchive, ChartError> {
        let client = self.client_for(repository)?;
        let login = login_for(repository, url);
        let mut address = parse_url(url)?;
        let file_name = archive_name(&address)?;
        let chart = client.get(url, login.as_ref()).await?;
        check_digest(url, digest, &chart)?;
        let mut notes = Vec::new();
        let mut signature = None;
        if provenance != ProvenanceMode::No {
            address.set_path(&format!("{}.prov", address.path()));
            let shown = without_credentials(address.as_str());
            match client.get(address.as_str(), login.as_ref()).await {
                Ok(bytes) => signature = Some(bytes),
                Err(error @ HttpError::Interrupted(_)) => return Err(error.into()),
                Err(error) if provenance == ProvenanceMode::Must => {
                    return publish_error(format!("failed to fetch provenance {shown:?}: {error}"));
                }
                Err(error) => {
                    let url = without_credentials(url);
                    notes.push(format!("WARNING: Verification not found for {url}: {error}"));
                }
            }
        }
        Ok(FetchedArchive { file_name, chart, signature, notes })
    }

    pub(super) async fn fetch_oci(
        &self,
        name: &str,
        reference: &OciReference,
        credentials: &Credentials,
        provenance: ProvenanceMode,
    ) -> Result<FetchedArchive, ChartError> {
        let client = self.client_for(&RepositoryEntry::default())?;
        let pulled = oci::pull_chart(&client, credentials, reference).await?;
        let mut notes = vec![format!("Pulled: {reference}"), format!("Digest: {}", pulled.digest)];
        if reference.tag.as_ref().is_some_and(|tag| tag.contains('_')) {
            notes.push(format!(
                "{reference} contains an underscore.\n\nOCI artifact references (e.g. tags) do not support the plus sign (+). To support\nstoring semantic versions, Helm adopts the convention of changing plus (+) to\nan underscore (_) in chart version tags when pushing to a registry and back to\na plus (+) when pulling from a registry."
            ));
        }
        if pulled.provenance.is_none() && provenance == ProvenanceMode::Must {
            return publish_error(format!("{reference} has no provenance"));
        }
        if pulled.provenance.is_none() && provenance == ProvenanceMode::IfThere {
            let name = without_credentials(name);
            notes.push(format!("WARNING: Verification not found for {name}: no provenance layer"));
        }
        let tag = reference.tag.clone().unwrap_or_else(|| "latest".into()).replace('_', "+");
        let signature = pulled.provenance.filter(|_| provenance != ProvenanceMode::No);
        let file_name = chart_name(reference.chart_name(), &tag)?;
        Ok(FetchedArchive { file_name, chart: pulled.chart, signature, notes })
    }

    /// Every version of a chart in the repository or registry it is named with, newest first.
    pub async fn list_versions(&self, name: &str) -> Result<Vec<String>, ChartError> {
        if name.starts_with("oci://") {
            let reference = OciReference::parse(name)?;
            let credentials = self.credentials_for(&reference.host)?;
            return oci::list_tags(&self.client_for(&RepositoryEntry::default())?, &credentials, &reference)
                .await;
        }
        let repository =
            self.with_flags(RepositoryEntry { url: self.access.repo.clone(), ..RepositoryEntry::default() });
        let index = self.index(&repository).await?;
        let entries = index.entries.get(name).into_iter().flatten();
        Ok(entries.map(|entry| entry.metadata.version.clone()).collect())
    }

    /// Tells what a name means.
    async fn resolve_target(&self, name: &str) -> Result<FetchTarget, ChartError> {
        if name.starts_with("oci://") {
            return self.resolve_oci(name).await;
        }
        if !self.access.repo.is_empty() {
            return self.resolve_in(name).await;
        }
        let url = url::Url::parse(name).ok().filter(|url| url.has_host() && !url.path().is_empty());
        if url.is_some() {
            let repository = self.repository_of(name)?;
            return Ok(FetchTarget::Http { url: name.to_owned(), repository, digest: String::new() });
        }
        let Some((repo, chart)) = name.split_once('/') else {
            return publish_error(format!(
                "non-absolute URLs should be in form of repo_name/path_to_chart, got: {}",
                without_credentials(name)
            ));
        };
        let repositories = self.home.read_repositories()?;
        let Some(repository) = repositories.get(repo) else {
            let known = repositories.repositories.iter().map(|entry| entry.name.as_str());
            return Err(ChartError::UnknownRepository(unknown_repository(repo, chart, known)));
        };
        let index = self.home.cached_index(repo).map_err(|error| {
            ChartError::Publish(format!("no cached repo found. (try 'helm repo update'): {error}"))
        })?;
        let version = &self.access.version;
        let entry = index.find_version(chart, version).map_err(|error| {
            ChartError::UnknownVersion(format!(
                "chart {chart:?} matching {version} not found in {repo} index. (try 'helm repo update'): {error}"
            ))
        })?;
        entry_target(entry, self.with_flags(repository.clone()))
    }

    /// A chart in the repository named by its address.
    async fn resolve_in(&self, name: &str) -> Result<FetchTarget, ChartError> {
        let address = &self.access.repo;
        let repository =
            self.with_flags(RepositoryEntry { url: address.clone(), ..RepositoryEntry::default() });
        let index = self.index(&repository).await?;
        let version = &self.access.version;
        let Ok(entry) = index.find_version(name, version) else {
            let wanted = if version.is_empty() { String::new() } else { format!(" version {version:?}") };
            let address = without_credentials(address);
            let text = format!("chart {name:?}{wanted} not found in {address} repository");
            return Err(ChartError::UnknownVersion(text));
        };
        entry_target(entry, repository)
    }

    async fn resolve_oci(&self, name: &str) -> Result<FetchTarget, ChartError> {
        let mut reference = OciReference::parse(name)?;
        let version = &self.access.version;
        if let Some(tag) = &reference.tag {
            if !version.is_empty() && tag.replace('_', "+") != *version {
                return publish_error(format!(
                    "chart reference and version mismatch: {} is not {version}",
                    tag.replace('_', "+")
                ));
            }
            return Ok(FetchTarget::Oci { reference, login: true });
        }
        if reference.digest.is_some() {
            return Ok(FetchTarget::Oci { reference, login: true });
        }
        // A full version is a tag; asking for the list would need more rights.
        if slipway_go::semver::Version::parse_strict(version).is_ok() {
            reference.tag = Some(version.replace('+', "_"));
            return Ok(FetchTarget::Oci { reference, login: true });
        }
        let credentials = self.credentials_for(&reference.host)?;
        let tags =
            oci::list_tags(&self.client_for(&RepositoryEntry::default())?, &credentials, &reference).await?;
        let Some(tag) = oci::choose_tag(&tags, version) else {
            let text = format!("Could not locate a version matching provided version string {version}");
            return Err(ChartError::UnknownVersion(text));
        };
        reference.tag = Some(tag.replace('+', "_"));
        Ok(FetchTarget::Oci { reference, login: true })
    }

    /// The known repository an address belongs to, for its login.
    fn known_repository_of(&self, address: &str) -> Result<Option<RepositoryEntry>, ChartError> {
        Ok(self.home.read_repositories()?.repositories.into_iter().find(|repository| {
            let base = repository.url.trim_end_matches('/');
            address.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
        }))
    }

    /// The repository an address belongs to; one of its own if it is in none.
    fn repository_of(&self, address: &str) -> Result<RepositoryEntry, ChartError> {
        let known = self.known_repository_of(address)?;
        Ok(self.with_flags(
            known
                .unwrap_or_else(|| RepositoryEntry { url: address.to_owned(), ..RepositoryEntry::default() }),
        ))
    }

    /// The flags say more than the file.
    fn with_flags(&self, mut repository: RepositoryEntry) -> RepositoryEntry {
        if let Some(login) = &self.access.login {
            repository.username.clone_from(&login.username);
            repository.password.clone_from(&login.password);
        }
        for (flag, field) in [
            (&self.access.ca_file, &mut repository.ca_file),
            (&self.access.cert_file, &mut repository.cert_file),
            (&self.access.key_file, &mut repository.key_file),
        ] {
            if let Some(path) = flag {
                *field = path.display().to_string();
            }
        }
        repository.insecure_skip_tls_verify |= self.access.insecure_skip_tls_verify;
        repository.pass_credentials_all |= self.access.pass_credentials;
        repository
    }

    /// A client with the certificates of a repository.
    pub fn client_for(&self, repository: &RepositoryEntry) -> Result<HttpClient, ChartError> {
        let repository = self.with_flags(repository.clone());
        let read = |path: &str| -> Result<Option<Vec<u8>>, ChartError> {
            if path.is_empty() {
                return Ok(None);
            }
            let path = Path::new(path);
            let bytes = slipway_problem::read_file(path)
                .map_err(|error| ChartError::Publish(go_io("open", path, &error)))?;
            Ok(Some(bytes))
        };
        let identity = match (read(&repository.cert_file)?, read(&repository.key_file)?) {
            (Some(certificate), Some(key)) => Some([certificate, b"\n".to_vec(), key].concat()),
            _ => None,
        };
        Ok(HttpClient::new(&ClientOptions {
            ca: read(&repository.ca_file)?,
            identity,
            insecure_skip_tls_verify: repository.insecure_skip_tls_verify,
            plain_http: self.access.plain_http,
            user_agent: String::new(),
            network: self.network.clone(),
            ..ClientOptions::default()
        })?)
    }

    /// The login for a registry: the flag's, Helm's, Docker's, or what a helper program knows.
    pub fn credentials_for(&self, host: &str) -> Result<Credentials, ChartError> {
        match &self.access.login {
            Some(login) => {
                let mut found = Credentials::default();
                found.insert(host, login);
                Ok(found)
            }
            None => self.known_credentials(host),
        }
    }

    /// The login this machine knows for a registry.
    pub(super) fn known_credentials(&self, host: &str) -> Result<Credentials, ChartError> {
        let mut found = Credentials::default();
        for known in self.home.read_credentials()? {
            let login = known.login_for(host).or_else(|| {
                let helper = known.helper_for(host)?;
                (self.helper)(helper, host)
            });
            if let Some(login) = login {
                found.insert(host, &login);
                break;
            }
        }
        Ok(found)
    }

    /// Fetches the index of a known repository and keeps it.
    pub async fn update_index(
        &self,
        repository: &RepositoryEntry,
    ) -> Result<Arc<RepositoryIndex>, ChartError> {
        let (index, bytes) = fetch_index(&self.client_for(repository)?, repository).await?;
        self.home.store_index(&repository.name, &index, &bytes)?;
        Ok(Arc::new(index))
    }

    /// The content at an address, for values files. The login that was given is for the chart's
    /// repository, so it is sent only if the file is there as well.
    pub async fn get(&self, url: &str) -> Result<Vec<u8>, ChartError> {
        let repository = self.known_repository_of(url)?;
        let login = match &self.access.login {
            Some(given) if is_same_origin(&self.access.repo, url) => Some(given.clone()),
            _ => repository.as_ref().and_then(|repository| login_for(repository, url)),
        };
        Ok(self.client_for(&repository.unwrap_or_default())?.get(url, login.as_ref()).await?)
    }

    /// The index of a repository, read once for as long as this value or a clone of it lives.
    pub(super) async fn index(
        &self,
        repository: &RepositoryEntry,
    ) -> Result<Arc<RepositoryIndex>, ChartError> {
        let cell = self.index_cell(repository);
        let index = cell.get_or_try_init(async || {
            if repository.name.is_empty() {
                Ok(Arc::new(fetch_index(&self.client_for(repository)?, repository).await?.0))
            } else {
                self.update_index(repository).await
            }
        });
        index.await.cloned()
    }

    fn index_cell(&self, repository: &RepositoryEntry) -> Arc<OnceCell<Arc<RepositoryIndex>>> {
        let key = (repository.url.trim_end_matches('/').to_owned(), repository.username.clone());
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(indexes.entry(key).or_default())
    }

    /// Uses the cached index of every known repository instead of fetching it.
    pub fn use_cache(&self) -> Result<(), ChartError> {
        for repository in self.home.read_repositories()?.repositories {
            if let Ok(index) = self.home.cached_index(&repository.name) {
                // One that was read already is newer.
                let _ = self.index_cell(&repository).set(Arc::new(index));
            }
        }
        Ok(())
    }
}

/// Returns the address an index gives for a chart.
pub(super) fn entry_target(
    entry: &IndexEntry,
    repository: RepositoryEntry,
) -> Result<FetchTarget, ChartError> {
    let url = entry.download_url(&repository.url)?;
    if url.starts_with("oci://") {
        // Its registry is another party: the repository's login is not for it.
        return Ok(FetchTarget::Oci { reference: OciReference::parse(&url)?, login: false });
    }
    Ok(FetchTarget::Http { url, repository, digest: entry.digest.clone() })
}

/// Runs to its end on a thread of its own, so that it works inside and outside of a runtime.
pub fn run_blocking<T: Send>(
    work: impl Future<Output = Result<T, ChartError>> + Send,
) -> Result<T, ChartError> {
    let failed = |text: String| ChartError::Publish(text);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| failed(error.to_string()))?;
            let result = runtime.block_on(work);
            // A name that is still being looked up must not hold up the end.
            runtime.shutdown_background();
            result
        });
        worker.join().unwrap_or_else(|_| Err(failed("the download stopped unexpectedly".into())))
    })
}

/// Says what `repo/chart` may have been meant to be: a path, or a chart of another repository.
fn unknown_repository<'r>(repo: &str, chart: &str, known: impl Iterator<Item = &'r str>) -> ChartFault {
    let fault = ChartFault::new(format!("repo {repo} not found"));
    if Path::new(repo).is_dir() {
        let asked = format!("`{repo}/{chart}` is no path here");
        let path = Path::new(repo).join(chart);
        let directory = path.ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(Path::new(repo));
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        return match near_chart(directory, &name) {
            Some(near) => fault.hint(format!("{asked}; did you mean `{}`?", near.display())),
            None => fault.hint(format!("{asked}, and `{repo}` no repository that was added")),
        };
    }
    match slipway_problem::nearest_name(repo, known) {
        Some(near) => fault.hint(format!("did you mean `{near}/{chart}`?")),
        None => fault.hint(format!(
            "`slipway repo add {repo} URL` adds it, `slipway repo list` shows those there are; the path of a chart here begins with `./`"
        )),
    }
}

/// The chart, kustomization or package below a directory, or below one in it, that a name may mean.
fn near_chart(directory: &Path, name: &str) -> Option<PathBuf> {
    const MOST: usize = 200;
    let inside = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).take(MOST).collect::<Vec<PathBuf>>()
    };
    let near = inside(directory);
    let mut charts: Vec<PathBuf> =
        near.iter().flat_map(|path| inside(path)).chain(near.iter().cloned()).collect();
    let kinds = ["Chart.yaml", "kustomization.yaml", "parameters.yaml"];
    charts.retain(|path| kinds.iter().any(|kind| path.join(kind).is_file()));
    charts.sort();
    let name_of = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = charts.iter().filter_map(name_of).collect();
    let meant = match names.iter().any(|found| found == name) {
        true => name,
        false => slipway_problem::nearest_name(name, names.iter().map(String::as_str))?,
    };
    charts.iter().find(|path| name_of(path).as_deref() == Some(meant)).cloned()
}
