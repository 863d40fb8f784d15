//! Dependencies of charts from repositories and registries.

use slipway_event::without_credentials;

use super::index::download;
use super::oci;
use super::reference::OciReference;
use super::remote::{FetchTarget, RemoteCharts, fail, target, wait};
use crate::deps::DependencyFetcher;
use crate::error::ChartError;
use crate::repo::RepositoryEntry;

impl RemoteCharts {
    /// The repository a dependency means by an address, `@name` or `alias:name`.
    fn repository_named(&self, text: &str) -> Result<RepositoryEntry, ChartError> {
        let repositories = self.home.repositories()?;
        let named = text.strip_prefix('@').or_else(|| text.strip_prefix("alias:"));
        match named {
            Some(name) => repositories.get(name).cloned().ok_or_else(|| {
                ChartError::Publish(format!("no repository definition for {}", without_credentials(text)))
            }),
            None => Ok(repositories
                .by_url(text)
                .cloned()
                .unwrap_or_else(|| RepositoryEntry { url: text.to_owned(), ..RepositoryEntry::default() })),
        }
    }

    async fn resolve_dependency(
        &self,
        repository: &str,
        name: &str,
        wanted: &str,
    ) -> Result<Option<String>, ChartError> {
        if repository.starts_with("oci://") {
            let reference = OciReference::parse(&format!("{}/{name}", repository.trim_end_matches('/')))?;
            if slipway_go::semver::Version::parse_strict(wanted).is_ok() {
                return Ok(Some(wanted.to_owned()));
            }
            let credentials = self.credentials(&reference.host)?;
            let tags =
                oci::tags(&self.client(&RepositoryEntry::default())?, &credentials, &reference).await?;
            return Ok(oci::choose(&tags, wanted));
        }
        let repository = self.repository_named(repository)?;
        let index = self.index(&repository).await?;
        if !index.entries.contains_key(name) {
            let address = without_credentials(&repository.url);
            return fail(format!("{name} chart not found in repo {address}"));
        }
        Ok(index.find(name, wanted).ok().map(|entry| entry.metadata.version.clone()))
    }

    async fn fetch_dependency(
        &self,
        repository: &str,
        name: &str,
        version: &str,
    ) -> Result<Vec<u8>, ChartError> {
        if repository.starts_with("oci://") {
            let text = format!("{}/{name}:{}", repository.trim_end_matches('/'), version.replace('+', "_"));
            let reference = OciReference::parse(&text)?;
            let credentials = self.credentials(&reference.host)?;
            let client = self.client(&RepositoryEntry::default())?;
            return Ok(oci::pull(&client, &credentials, &reference).await?.chart);
        }
        let repository = self.repository_named(repository)?;
        let index = self.index(&repository).await?;
        let entry = index.find(name, version)?;
        match target(entry, repository.clone())? {
            FetchTarget::Http { .. } => download(&self.client(&repository)?, &repository, entry).await,
            FetchTarget::Oci { reference, .. } => {
                let credentials = self.known(&reference.host)?;
                let client = self.client(&RepositoryEntry::default())?;
                Ok(oci::pull(&client, &credentials, &reference).await?.chart)
            }
        }
    }
}

impl DependencyFetcher for RemoteCharts {
    fn address(&self, repository: &str) -> Result<String, ChartError> {
        if repository.starts_with('@') || repository.starts_with("alias:") {
            return Ok(self.repository_named(repository)?.url);
        }
        Ok(repository.to_owned())
    }

    fn resolve(&self, repository: &str, name: &str, constraint: &str) -> Result<Option<String>, ChartError> {
        wait(self.resolve_dependency(repository, name, constraint))
    }

    fn fetch(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, ChartError> {
        wait(self.fetch_dependency(repository, name, version))
    }
}
