//! Dependencies of charts from repositories and registries.

use slipway_event::without_credentials;

use super::index::download_chart;
use super::oci;
use super::reference::OciReference;
use super::remote::{FetchTarget, ProvenanceMode, RemoteCharts, entry_target, publish_error, run_blocking};
use crate::deps::{DependencyFetcher, SignedArchive};
use crate::error::ChartError;
use crate::repo::RepositoryEntry;

impl RemoteCharts {
    /// The repository a dependency means by an address, `@name` or `alias:name`.
    fn repository_named(&self, text: &str) -> Result<RepositoryEntry, ChartError> {
        let repositories = self.home.read_repositories()?;
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
            let credentials = self.credentials_for(&reference.host)?;
            let tags =
                oci::list_tags(&self.client_for(&RepositoryEntry::default())?, &credentials, &reference)
                    .await?;
            return Ok(oci::choose_tag(&tags, wanted));
        }
        let repository = self.repository_named(repository)?;
        let index = self.index(&repository).await?;
        if !index.entries.contains_key(name) {
            let address = without_credentials(&repository.url);
            return publish_error(format!("{name} chart not found in repo {address}"));
        }
        Ok(index.find_version(name, wanted).ok().map(|entry| entry.metadata.version.clone()))
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
            let credentials = self.credentials_for(&reference.host)?;
            let client = self.client_for(&RepositoryEntry::default())?;
            return Ok(oci::pull_chart(&client, &credentials, &reference).await?.chart);
        }
        let repository = self.repository_named(repository)?;
        let index = self.index(&repository).await?;
        let entry = index.find_version(name, version)?;
        match entry_target(entry, repository.clone())? {
            FetchTarget::Http { .. } => {
                download_chart(&self.client_for(&repository)?, &repository, entry).await
            }
            FetchTarget::Oci { reference, .. } => {
                let credentials = self.known_credentials(&reference.host)?;
                let client = self.client_for(&RepositoryEntry::default())?;
                Ok(oci::pull_chart(&client, &credentials, &reference).await?.chart)
            }
        }
    }
}

impl RemoteCharts {
    async fn fetch_signed_dependency(
        &self,
        repository: &str,
        name: &str,
        version: &str,
    ) -> Result<SignedArchive, ChartError> {
        const MODE: ProvenanceMode = ProvenanceMode::Must;
        let fetched = if repository.starts_with("oci://") {
            let text = format!("{}/{name}:{}", repository.trim_end_matches('/'), version.replace('+', "_"));
            let reference = OciReference::parse(&text)?;
            let credentials = self.credentials_for(&reference.host)?;
            self.fetch_oci(&text, &reference, &credentials, MODE).await?
        } else {
            let repository = self.repository_named(repository)?;
            let index = self.index(&repository).await?;
            let entry = index.find_version(name, version)?;
            match entry_target(entry, repository.clone())? {
                FetchTarget::Http { url, repository, digest } => {
                    self.fetch_http(&url, &repository, &digest, MODE).await?
                }
                FetchTarget::Oci { reference, .. } => {
                    let credentials = self.known_credentials(&reference.host)?;
                    self.fetch_oci(name, &reference, &credentials, MODE).await?
                }
            }
        };
        let provenance = fetched.signature.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let provenance = provenance.unwrap_or_default();
        Ok(SignedArchive { file_name: fetched.file_name, bytes: fetched.chart, provenance })
    }
}

impl DependencyFetcher for RemoteCharts {
    fn resolve_address(&self, repository: &str) -> Result<String, ChartError> {
        if repository.starts_with('@') || repository.starts_with("alias:") {
            return Ok(self.repository_named(repository)?.url);
        }
        Ok(repository.to_owned())
    }

    fn newest_version(
        &self,
        repository: &str,
        name: &str,
        constraint: &str,
    ) -> Result<Option<String>, ChartError> {
        run_blocking(self.resolve_dependency(repository, name, constraint))
    }

    fn fetch_archive(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, ChartError> {
        run_blocking(self.fetch_dependency(repository, name, version))
    }

    fn fetch_signed(&self, repository: &str, name: &str, version: &str) -> Result<SignedArchive, ChartError> {
        run_blocking(self.fetch_signed_dependency(repository, name, version))
    }
}
