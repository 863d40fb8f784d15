//! Charts by the names users give them: `repo/name`, an address, `oci://…`, or `--repo` and a name.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::deps::{Fetch, sha256_hex};
use crate::error::{Error, Notices};
use crate::load::go_io;
use crate::repo::{Entry, Index, Repository, absolute};

use super::credentials::{Credentials, Login};
use super::home::{Home, replace};
use super::http::{Client, ClientOptions};
use super::oci::{self, Reference};

/// How to reach what the user names: the flags beside a chart's name.
#[derive(Clone, Debug, Default)]
pub struct Access {
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

/// Whether the signature of a chart is fetched with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    No,
    /// Its absence is worth a note.
    IfThere,
    Must,
}

/// A chart brought to this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downloaded {
    pub path: PathBuf,
    /// The file with the signature, if it was asked for and is there.
    pub provenance: Option<PathBuf>,
    /// What people should know of it, line by line.
    pub notes: Vec<String>,
}

/// Asks a `docker-credential-…` program for a host's login.
pub type Helper = dyn Fn(&str, &str) -> Option<Login> + Send + Sync;

/// Finds and fetches charts.
#[derive(Clone)]
pub struct Remote {
    pub home: Home,
    pub access: Access,
    helper: Arc<Helper>,
    /// Indexes already read, shared by all clones.
    indexes: Indexes,
}

/// Indexes by the address of their repository and the user they were read as. Whoever comes while one is
/// read waits for it instead of reading it again.
type Indexes = Arc<Mutex<HashMap<(String, String), Arc<OnceCell<Arc<Index>>>>>>;

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("home", &self.home)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// What to fetch and from whom.
enum Target {
    Http {
        url: String,
        repository: Repository,
        digest: String,
    },
    /// A registry, and whether the login that was given is for it.
    Oci {
        reference: Reference,
        login: bool,
    },
}

fn fail<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Publish(text.into()))
}

impl Remote {
    pub fn new(home: Home, access: Access, helper: Arc<Helper>) -> Self {
        Self { home, access, helper, indexes: Arc::default() }
    }

    /// A chart on this machine by that name: where it already is, or where it was put into the cache.
    pub async fn locate(&self, name: &str, provenance: Provenance) -> Result<Downloaded, Error> {
        let name = name.trim();
        let path = Path::new(name);
        if path.exists() {
            let beside = PathBuf::from(format!("{name}.prov"));
            let provenance = (provenance != Provenance::No && beside.is_file()).then_some(beside);
            return Ok(Downloaded { path: path.to_owned(), provenance, notes: Vec::new() });
        }
        if path.is_absolute() || name.starts_with('.') {
            return fail(format!("path {} not found", crate::values::go_quote(name)));
        }
        self.download(name, &self.home.cache, provenance).await
    }

    /// Fetches a chart into a directory.
    pub async fn download(
        &self,
        name: &str,
        directory: &Path,
        provenance: Provenance,
    ) -> Result<Downloaded, Error> {
        let mut notes = Vec::new();
        let (file_name, chart, signature) = match self.resolve(name).await? {
            Target::Http { url, repository, digest } => {
                let client = self.client(&repository)?;
                let login = login(&repository, &url);
                let chart = client.get(&url, login.as_ref()).await?;
                check_digest(&url, &digest, &chart)?;
                let signature = if provenance == Provenance::No {
                    None
                } else {
                    match client.get(&format!("{url}.prov"), login.as_ref()).await {
                        Ok(bytes) => Some(bytes),
                        Err(error) if provenance == Provenance::Must => {
                            return fail(format!("failed to fetch provenance \"{url}.prov\": {error}"));
                        }
                        Err(error) => {
                            notes.push(format!("WARNING: Verification not found for {name}: {error}"));
                            None
                        }
                    }
                };
                let path = url::Url::parse(&url).map(|url| url.path().to_owned()).unwrap_or(url);
                let file_name = path.rsplit('/').next().unwrap_or_default().to_owned();
                (file_name, chart, signature)
            }
            Target::Oci { reference, login } => {
                let credentials =
                    if login { self.credentials(&reference.host)? } else { self.known(&reference.host)? };
                let client = self.client(&Repository::default())?;
                let pulled = oci::pull(&client, &credentials, &reference).await?;
                notes.push(format!("Pulled: {reference}"));
                notes.push(format!("Digest: {}", pulled.digest));
                if reference.tag.as_ref().is_some_and(|tag| tag.contains('_')) {
                    notes.push(format!(
                        "{reference} contains an underscore.\n\nOCI artifact references (e.g. tags) do not support the plus sign (+). To support\nstoring semantic versions, Helm adopts the convention of changing plus (+) to\nan underscore (_) in chart version tags when pushing to a registry and back to\na plus (+) when pulling from a registry."
                    ));
                }
                if pulled.provenance.is_none() && provenance == Provenance::Must {
                    return fail(format!("{reference} has no provenance"));
                }
                if pulled.provenance.is_none() && provenance == Provenance::IfThere {
                    notes.push(format!("WARNING: Verification not found for {name}: no provenance layer"));
                }
                let tag = reference.tag.clone().unwrap_or_else(|| "latest".into()).replace('_', "+");
                let signature = pulled.provenance.filter(|_| provenance != Provenance::No);
                (format!("{}-{tag}.tgz", reference.name()), pulled.chart, signature)
            }
        };
        if file_name.is_empty() || file_name == ".." {
            return fail(format!("{name} names no file"));
        }
        fs::create_dir_all(directory).map_err(|error| Error::Publish(go_io("mkdir", directory, &error)))?;
        let path = directory.join(&file_name);
        replace(&path, &chart)?;
        let provenance = match signature {
            Some(bytes) => {
                let path = directory.join(format!("{file_name}.prov"));
                replace(&path, &bytes)?;
                Some(path)
            }
            None => None,
        };
        Ok(Downloaded { path, provenance, notes })
    }

    /// Every version of a chart in the repository or registry it is named with, newest first.
    pub async fn versions(&self, name: &str) -> Result<Vec<String>, Error> {
        if name.starts_with("oci://") {
            let reference = Reference::parse(name)?;
            let credentials = self.credentials(&reference.host)?;
            return oci::tags(&self.client(&Repository::default())?, &credentials, &reference).await;
        }
        let repository = self.over(Repository { url: self.access.repo.clone(), ..Repository::default() });
        let index = self.index(&repository).await?;
        let entries = index.entries.get(name).into_iter().flatten();
        Ok(entries.map(|entry| entry.metadata.version.clone()).collect())
    }

    /// Tells what a name means.
    async fn resolve(&self, name: &str) -> Result<Target, Error> {
        if name.starts_with("oci://") {
            return self.resolve_oci(name).await;
        }
        if !self.access.repo.is_empty() {
            return self.resolve_in(name).await;
        }
        let url = url::Url::parse(name).ok().filter(|url| url.has_host() && !url.path().is_empty());
        if url.is_some() {
            let repository = self.repository_of(name)?;
            return Ok(Target::Http { url: name.to_owned(), repository, digest: String::new() });
        }
        let Some((repo, chart)) = name.split_once('/') else {
            return fail(format!(
                "non-absolute URLs should be in form of repo_name/path_to_chart, got: {name}"
            ));
        };
        let repositories = self.home.repositories()?;
        let Some(repository) = repositories.get(repo) else { return fail(format!("repo {repo} not found")) };
        let index = self.home.cached_index(repo).map_err(|error| {
            Error::Publish(format!("no cached repo found. (try 'helm repo update'): {error}"))
        })?;
        let version = &self.access.version;
        let entry = index.find(chart, version).map_err(|error| {
            Error::Publish(format!(
                "chart {chart:?} matching {version} not found in {repo} index. (try 'helm repo update'): {error}"
            ))
        })?;
        let repository = self.over(repository.clone());
        Ok(Target::Http { url: entry.url(&repository.url)?, repository, digest: entry.digest.clone() })
    }

    /// A chart in the repository named by its address.
    async fn resolve_in(&self, name: &str) -> Result<Target, Error> {
        let address = &self.access.repo;
        let repository = self.over(Repository { url: address.clone(), ..Repository::default() });
        let index = self.index(&repository).await?;
        let version = &self.access.version;
        let Ok(entry) = index.find(name, version) else {
            let wanted = if version.is_empty() { String::new() } else { format!(" version {version:?}") };
            return fail(format!("chart {name:?}{wanted} not found in {address} repository"));
        };
        let url = entry.url(address)?;
        if url.starts_with("oci://") {
            // Its registry is another party: the repository's login is not for it.
            return Ok(Target::Oci { reference: Reference::parse(&url)?, login: false });
        }
        Ok(Target::Http { url, repository, digest: entry.digest.clone() })
    }

    async fn resolve_oci(&self, name: &str) -> Result<Target, Error> {
        let mut reference = Reference::parse(name)?;
        let version = &self.access.version;
        if let Some(tag) = &reference.tag {
            if !version.is_empty() && tag.replace('_', "+") != *version {
                return fail(format!(
                    "chart reference and version mismatch: {} is not {version}",
                    tag.replace('_', "+")
                ));
            }
            return Ok(Target::Oci { reference, login: true });
        }
        if reference.digest.is_some() {
            return Ok(Target::Oci { reference, login: true });
        }
        // A full version is a tag; asking for the list would need more rights.
        if slipway_go::semver::Version::parse_strict(version).is_ok() {
            reference.tag = Some(version.replace('+', "_"));
            return Ok(Target::Oci { reference, login: true });
        }
        let credentials = self.credentials(&reference.host)?;
        let tags = oci::tags(&self.client(&Repository::default())?, &credentials, &reference).await?;
        let Some(tag) = oci::choose(&tags, version) else {
            return fail(format!("Could not locate a version matching provided version string {version}"));
        };
        reference.tag = Some(tag.replace('+', "_"));
        Ok(Target::Oci { reference, login: true })
    }

    /// The known repository an address belongs to, for its login.
    fn repository_of(&self, address: &str) -> Result<Repository, Error> {
        let known = self.home.repositories()?.repositories.into_iter().find(|repository| {
            let base = repository.url.trim_end_matches('/');
            address.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
        });
        Ok(self
            .over(known.unwrap_or_else(|| Repository { url: address.to_owned(), ..Repository::default() })))
    }

    /// The flags say more than the file.
    fn over(&self, mut repository: Repository) -> Repository {
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
    pub fn client(&self, repository: &Repository) -> Result<Client, Error> {
        let repository = self.over(repository.clone());
        let read = |path: &str| -> Result<Option<Vec<u8>>, Error> {
            if path.is_empty() {
                return Ok(None);
            }
            let path = Path::new(path);
            let bytes = slipway_problem::read_file(path)
                .map_err(|error| Error::Publish(go_io("open", path, &error)))?;
            Ok(Some(bytes))
        };
        let identity = match (read(&repository.cert_file)?, read(&repository.key_file)?) {
            (Some(certificate), Some(key)) => Some([certificate, b"\n".to_vec(), key].concat()),
            _ => None,
        };
        Client::new(&ClientOptions {
            ca: read(&repository.ca_file)?,
            identity,
            insecure_skip_tls_verify: repository.insecure_skip_tls_verify,
            plain_http: self.access.plain_http,
            user_agent: String::new(),
        })
    }

    /// The login for a registry: the flag's, Helm's, Docker's, or what a helper program knows.
    pub fn credentials(&self, host: &str) -> Result<Credentials, Error> {
        match &self.access.login {
            Some(login) => {
                let mut found = Credentials::default();
                found.insert(host, login);
                Ok(found)
            }
            None => self.known(host),
        }
    }

    /// The login this machine knows for a registry.
    fn known(&self, host: &str) -> Result<Credentials, Error> {
        let mut found = Credentials::default();
        for known in self.home.credentials()? {
            let login = known.login(host).or_else(|| {
                let helper = known.helper(host)?;
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
    pub async fn update(&self, repository: &Repository) -> Result<Arc<Index>, Error> {
        let (index, bytes) = fetch_index(&self.client(repository)?, repository).await?;
        self.home.store_index(&repository.name, &index, &bytes)?;
        Ok(Arc::new(index))
    }

    /// The content at an address, for values files.
    pub async fn get(&self, url: &str) -> Result<Vec<u8>, Error> {
        let repository = self.repository_of(url)?;
        self.client(&repository)?.get(url, login(&repository, url).as_ref()).await
    }

    /// The repository a dependency means by an address, `@name` or `alias:name`.
    fn repository_named(&self, text: &str) -> Result<Repository, Error> {
        let repositories = self.home.repositories()?;
        let named = text.strip_prefix('@').or_else(|| text.strip_prefix("alias:"));
        match named {
            Some(name) => repositories
                .get(name)
                .cloned()
                .ok_or_else(|| Error::Publish(format!("no repository definition for {text}"))),
            None => Ok(repositories
                .by_url(text)
                .cloned()
                .unwrap_or_else(|| Repository { url: text.to_owned(), ..Repository::default() })),
        }
    }

    /// The index of a repository, read once for as long as this value or a clone of it lives.
    async fn index(&self, repository: &Repository) -> Result<Arc<Index>, Error> {
        let cell = self.index_cell(repository);
        let index = cell.get_or_try_init(async || {
            if repository.name.is_empty() {
                Ok(Arc::new(fetch_index(&self.client(repository)?, repository).await?.0))
            } else {
                self.update(repository).await
            }
        });
        index.await.cloned()
    }

    fn index_cell(&self, repository: &Repository) -> Arc<OnceCell<Arc<Index>>> {
        let key = (repository.url.trim_end_matches('/').to_owned(), repository.username.clone());
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(indexes.entry(key).or_default())
    }

    /// Uses the cached index of every known repository instead of fetching it.
    pub fn use_cache(&self) -> Result<(), Error> {
        for repository in self.home.repositories()?.repositories {
            if let Ok(index) = self.home.cached_index(&repository.name) {
                // One that was read already is newer.
                let _ = self.index_cell(&repository).set(Arc::new(index));
            }
        }
        Ok(())
    }

    async fn resolve_dependency(
        &self,
        repository: &str,
        name: &str,
        wanted: &str,
    ) -> Result<Option<String>, Error> {
        if repository.starts_with("oci://") {
            let reference = Reference::parse(&format!("{}/{name}", repository.trim_end_matches('/')))?;
            if slipway_go::semver::Version::parse_strict(wanted).is_ok() {
                return Ok(Some(wanted.to_owned()));
            }
            let credentials = self.credentials(&reference.host)?;
            let tags = oci::tags(&self.client(&Repository::default())?, &credentials, &reference).await?;
            return Ok(oci::choose(&tags, wanted));
        }
        let repository = self.repository_named(repository)?;
        let index = self.index(&repository).await?;
        if !index.entries.contains_key(name) {
            return fail(format!("{name} chart not found in repo {}", repository.url));
        }
        Ok(index.find(name, wanted).ok().map(|entry| entry.metadata.version.clone()))
    }

    async fn fetch_dependency(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, Error> {
        if repository.starts_with("oci://") {
            let text = format!("{}/{name}:{}", repository.trim_end_matches('/'), version.replace('+', "_"));
            let reference = Reference::parse(&text)?;
            let credentials = self.credentials(&reference.host)?;
            let client = self.client(&Repository::default())?;
            return Ok(oci::pull(&client, &credentials, &reference).await?.chart);
        }
        let repository = self.repository_named(repository)?;
        let index = self.index(&repository).await?;
        download(&self.client(&repository)?, &repository, index.find(name, version)?).await
    }
}

impl Fetch for Remote {
    fn address(&self, repository: &str) -> Result<String, Error> {
        if repository.starts_with('@') || repository.starts_with("alias:") {
            return Ok(self.repository_named(repository)?.url);
        }
        Ok(repository.to_owned())
    }

    fn resolve(&self, repository: &str, name: &str, constraint: &str) -> Result<Option<String>, Error> {
        wait(self.resolve_dependency(repository, name, constraint))
    }

    fn fetch(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, Error> {
        wait(self.fetch_dependency(repository, name, version))
    }
}

/// Fetches a repository's index.
pub async fn fetch_index(client: &Client, repository: &Repository) -> Result<(Index, Vec<u8>), Error> {
    let url = absolute(&repository.url, "index.yaml")?;
    let bytes = client.get(&url, login(repository, &url).as_ref()).await.map_err(|error| {
        Error::Publish(format!(
            "looks like {:?} is not a valid chart repository or cannot be reached: {error}",
            repository.url
        ))
    })?;
    let index = Index::parse(&bytes, &repository.url, &mut Notices::new())?;
    Ok((index, bytes))
}

/// Fetches one chart of a repository, and checks it against the digest the index promises.
async fn download(client: &Client, repository: &Repository, entry: &Entry) -> Result<Vec<u8>, Error> {
    let url = entry.url(&repository.url)?;
    let bytes = client.get(&url, login(repository, &url).as_ref()).await?;
    check_digest(&url, &entry.digest, &bytes)?;
    Ok(bytes)
}

fn check_digest(url: &str, promised: &str, bytes: &[u8]) -> Result<(), Error> {
    let promised = promised.strip_prefix("sha256:").unwrap_or(promised);
    let found = sha256_hex(bytes);
    if promised.is_empty() || promised.eq_ignore_ascii_case(&found) {
        return Ok(());
    }
    fail(format!("{url} has the digest {found}, but the repository's index promises {promised}"))
}

/// Credentials go to the repository's own host only, unless the user said otherwise.
fn login(repository: &Repository, url: &str) -> Option<Login> {
    if repository.username.is_empty() && repository.password.is_empty() {
        return None;
    }
    let origin = |text: &str| url::Url::parse(text).ok().map(|url| url.origin());
    let same = origin(&repository.url).is_some() && origin(&repository.url) == origin(url);
    (same || repository.pass_credentials_all)
        .then(|| Login { username: repository.username.clone(), password: repository.password.clone() })
}

/// Runs to its end on a thread of its own, so that it works inside and outside of a runtime.
pub fn wait<T: Send>(work: impl Future<Output = Result<T, Error>> + Send) -> Result<T, Error> {
    let failed = |text: String| Error::Publish(text);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| failed(error.to_string()))?;
            runtime.block_on(work)
        });
        worker.join().unwrap_or_else(|_| Err(failed("the download stopped unexpectedly".into())))
    })
}
