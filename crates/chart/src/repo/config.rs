//! `repositories.yaml`: the repositories the user knows.

use serde_json::{Value, json};

use crate::codec;
use crate::decode::{self, StructFields};
use crate::error::ChartError;
use slipway_go::GoError;

/// The user's repositories.
#[derive(Clone, Debug, Default)]
pub struct RepositoryList {
    pub generated: String,
    pub repositories: Vec<RepositoryEntry>,
}

/// One repository and how to get in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RepositoryEntry {
    pub name: String,
    pub url: String,
    pub username: String,
    pub password: String,
    pub cert_file: String,
    pub key_file: String,
    pub ca_file: String,
    pub insecure_skip_tls_verify: bool,
    /// Send the credentials to other hosts as well.
    pub pass_credentials_all: bool,
}

impl std::fmt::Debug for RepositoryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = slipway_event::without_credentials(&self.url);
        f.debug_struct("RepositoryEntry").field("name", &self.name).field("url", &url).finish_non_exhaustive()
    }
}

impl RepositoryList {
    /// Reads the file's content.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChartError> {
        let read = || -> Result<Self, GoError> {
            let value = codec::read_document(bytes)?;
            let Some(map) = decode::expect_object(&value, "repo.File")? else { return Ok(Self::default()) };
            let fields = StructFields::new(map, "File");
            let items = fields.object_list("repositories", "[]*repo.Entry", "repo.Entry")?;
            let repositories = items.into_iter().flatten().map(|map| {
                let fields = StructFields::new(map, "Entry.repositories");
                Ok(RepositoryEntry {
                    name: fields.string_field("name")?,
                    url: fields.string_field("url")?,
                    username: fields.string_field("username")?,
                    password: fields.string_field("password")?,
                    cert_file: fields.string_field("certFile")?,
                    key_file: fields.string_field("keyFile")?,
                    ca_file: fields.string_field("caFile")?,
                    insecure_skip_tls_verify: fields.bool_field("insecure_skip_tls_verify")?,
                    pass_credentials_all: fields.bool_field("pass_credentials_all")?,
                })
            });
            Ok(Self {
                generated: fields.string_field("generated")?,
                repositories: repositories.collect::<Result<_, GoError>>()?,
            })
        };
        read().map_err(|error| ChartError::Publish(error.into()))
    }

    /// The repository of that name.
    pub fn get(&self, name: &str) -> Option<&RepositoryEntry> {
        self.repositories.iter().find(|repository| repository.name == name)
    }

    /// The repository at that address, with or without a final slash.
    pub fn by_url(&self, url: &str) -> Option<&RepositoryEntry> {
        let plain = |url: &str| url.trim_end_matches('/').to_owned();
        self.repositories.iter().find(|repository| plain(&repository.url) == plain(url))
    }

    /// Adds or replaces one.
    pub fn set_repository(&mut self, repository: RepositoryEntry) {
        match self.repositories.iter_mut().find(|known| known.name == repository.name) {
            Some(known) => *known = repository,
            None => self.repositories.push(repository),
        }
    }

    /// Forgets one; tells whether it was there.
    pub fn remove_repository(&mut self, name: &str) -> bool {
        let before = self.repositories.len();
        self.repositories.retain(|repository| repository.name != name);
        self.repositories.len() < before
    }

    /// The written form.
    pub fn to_yaml(&self) -> String {
        let repositories: Vec<Value> = self
            .repositories
            .iter()
            .map(|repository| {
                json!({
                    "caFile": repository.ca_file,
                    "certFile": repository.cert_file,
                    "insecure_skip_tls_verify": repository.insecure_skip_tls_verify,
                    "keyFile": repository.key_file,
                    "name": repository.name,
                    "pass_credentials_all": repository.pass_credentials_all,
                    "password": repository.password,
                    "url": repository.url,
                    "username": repository.username,
                })
            })
            .collect();
        let generated =
            if self.generated.is_empty() { "0001-01-01T00:00:00Z" } else { self.generated.as_str() };
        codec::write_document(
            &json!({"apiVersion": "", "generated": generated, "repositories": repositories}),
        )
    }
}
