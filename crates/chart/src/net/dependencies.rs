//! Dependencies of charts from repositories and registries.

use slipway_event::without_credentials;

use super::index::download;
use super::oci;
use super::reference::Reference;
use super::remote::{Remote, Target, fail, target, wait};
use crate::deps::Fetch;
use crate::error::Error;
use crate::repo::Repository;

impl Remote {
    /// The repository a dependency means by an address, `@name` or `alias:name`.
    fn repository_named(&self, text: &str) -> Result<Repository, Error> {
        let repositories = self.home.repositories()?;
        let named = text.strip_prefix('@').or_else(|| text.strip_prefix("alias:"));
        match named {
            Some(name) => repositories.get(name).cloned().ok_or_else(|| {
                Error::Publish(format!("no repository definition for {}", without_credentials(text)))
            }),
            None => Ok(repositories
                .by_url(text)
                .cloned()
                .unwrap_or_else(|| Repository { url: text.to_owned(), ..Repository::default() })),
        }
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
            let address = without_credentials(&repository.url);
            return fail(format!("{name} chart not found in repo {address}"));
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
        let entry = index.find(name, version)?;
        match target(entry, repository.clone())? {
            Target::Http { .. } => download(&self.client(&repository)?, &repository, entry).await,
            Target::Oci { reference, .. } => {
                let credentials = self.known(&reference.host)?;
                let client = self.client(&Repository::default())?;
                Ok(oci::pull(&client, &credentials, &reference).await?.chart)
            }
        }
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
