//! Charts from HTTP repositories.

use crate::deps::{Fetch, sha256_hex};
use crate::error::{Error, Notices};
use crate::repo::{Entry, Index, Repositories, Repository};

use super::credentials::{Credentials, Login};
use super::http::Client;
use super::oci;

/// Fetches a repository's index.
pub async fn fetch_index(client: &Client, repository: &Repository) -> Result<(Index, Vec<u8>), Error> {
    let url = crate::repo::absolute(&repository.url, "index.yaml")?;
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
pub async fn download(client: &Client, repository: &Repository, entry: &Entry) -> Result<Vec<u8>, Error> {
    let url = entry.url(&repository.url)?;
    let bytes = client.get(&url, login(repository, &url).as_ref()).await?;
    let promised = entry.digest.strip_prefix("sha256:").unwrap_or(&entry.digest);
    let found = sha256_hex(&bytes);
    if !promised.is_empty() && !promised.eq_ignore_ascii_case(&found) {
        return Err(Error::Publish(format!(
            "{url} has the digest {found}, but the repository's index promises {promised}"
        )));
    }
    Ok(bytes)
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

/// Brings dependencies in from the repositories the user knows and from registries.
#[derive(Clone, Debug)]
pub struct Fetcher {
    pub client: Client,
    pub repositories: Repositories,
    pub credentials: Credentials,
}

impl Fetcher {
    /// The repository meant by an address, `@name` or `alias:name`.
    fn repository(&self, text: &str) -> Result<Repository, Error> {
        let named = text.strip_prefix('@').or_else(|| text.strip_prefix("alias:"));
        if let Some(name) = named {
            return self
                .repositories
                .get(name)
                .cloned()
                .ok_or_else(|| Error::Publish(format!("no repository definition for {text}")));
        }
        Ok(self
            .repositories
            .by_url(text)
            .cloned()
            .unwrap_or_else(|| Repository { url: text.to_owned(), ..Repository::default() }))
    }

    async fn resolve_async(
        &self,
        repository: &str,
        name: &str,
        wanted: &str,
    ) -> Result<Option<String>, Error> {
        if repository.starts_with("oci://") {
            let reference = oci::Reference::parse(&format!("{}/{name}", repository.trim_end_matches('/')))?;
            let tags = oci::tags(&self.client, &self.credentials, &reference).await?;
            return Ok(oci::choose(&tags, wanted));
        }
        let (index, _) = fetch_index(&self.client, &self.repository(repository)?).await?;
        Ok(index.find(name, wanted).ok().map(|entry| entry.metadata.version.clone()))
    }

    async fn fetch_async(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, Error> {
        if repository.starts_with("oci://") {
            let text = format!("{}/{name}:{}", repository.trim_end_matches('/'), version.replace('+', "_"));
            let reference = oci::Reference::parse(&text)?;
            return Ok(oci::pull(&self.client, &self.credentials, &reference).await?.chart);
        }
        let repository = self.repository(repository)?;
        let (index, _) = fetch_index(&self.client, &repository).await?;
        download(&self.client, &repository, index.find(name, version)?).await
    }
}

/// Runs to its end on a thread of its own, so that it works inside and outside of a runtime.
fn wait<T: Send>(work: impl Future<Output = Result<T, Error>> + Send) -> Result<T, Error> {
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

impl Fetch for Fetcher {
    fn resolve(&self, repository: &str, name: &str, constraint: &str) -> Result<Option<String>, Error> {
        wait(self.resolve_async(repository, name, constraint))
    }

    fn fetch(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, Error> {
        wait(self.fetch_async(repository, name, version))
    }
}
