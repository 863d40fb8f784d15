//! Asking a registry or a repository for its newest version.

use std::path::Path;

use data_encoding::BASE64;
use globset::{Glob, GlobSet, GlobSetBuilder};
use secrecy::SecretString;
use slipway_chart::net::{HttpClient, ImageDetails, Login, OciReference, list_all_tags, read_image};
use slipway_cluster::Cluster;
use slipway_git::{BranchName, CommitId, GitCredential, RepositoryAddress, RepositoryCache, TransportPolicy};
use slipway_manifest::ObjectRef;
use slipway_scm::{ProviderKind, ScmCredential};

use super::select::{SelectError, newest_tag, newest_version, wanted_tags};
use crate::OutboundClients;
use crate::kinds::{
    Artifacts, ChartSource, GitCommit, GitSource, HelmChart, ImageArtifact, ImageSource, SecretRef,
    TagStrategy,
};
use crate::registry::registry_reference;

/// Tags whose time of build is read at most, the last ones in the order of letters.
const MOST_BUILDS: usize = 50;

/// A version that was found.
pub(super) struct FoundVersion {
    /// A tag, a version or a commit.
    pub(super) version: String,
    /// A digest or a commit: what tells one version from another.
    pub(super) identity: String,
    pub(super) artifacts: Artifacts,
}

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error("the registry: {0}")]
    Registry(#[from] slipway_chart::ChartError),
    #[error("the repository: {0}")]
    Git(#[from] slipway_git::GitError),
    #[error("the repository: {0}")]
    Forbidden(#[from] crate::ForbiddenHost),
    #[error("{0}")]
    Settings(String),
    #[error("the Secret cannot be read: {0}")]
    Secret(#[from] slipway_cluster::Error),
    #[error("Secret {name} does not exist in the namespace of the subscription")]
    NoSecret { name: String },
}

/// The credentials of a Secret.
struct SourceLogin {
    /// None for a token without a name.
    user: Option<String>,
    password: String,
}

impl SourceLogin {
    fn for_registry(self) -> Login {
        Login { username: self.user.unwrap_or_else(|| "token".to_owned()), password: self.password }
    }

    /// A token needs the name its kind of server wants; servers that are not public take any.
    fn for_git(self, host: &str) -> GitCredential {
        let password = SecretString::from(self.password);
        match self.user {
            Some(user) => GitCredential::Login { user, password },
            None => {
                let kind = ProviderKind::of_host(host).unwrap_or(ProviderKind::Gitea);
                ScmCredential::Token(password).for_git(kind)
            }
        }
    }
}

/// What looking needs.
pub(super) struct Lookout<'r> {
    pub(super) cluster: &'r Cluster,
    pub(super) repositories: &'r RepositoryCache,
    pub(super) transports: TransportPolicy,
    pub(super) outbound: &'r OutboundClients,
    pub(super) namespace: &'r str,
}

impl Lookout<'_> {
    async fn login(&self, secret: Option<&SecretRef>) -> Result<Option<SourceLogin>, LookError> {
        let Some(secret) = secret else { return Ok(None) };
        let name = secret.name.as_str();
        if secret.namespace.as_deref().is_some_and(|named| named != self.namespace) {
            return Err(LookError::Settings(
                "the Secret must be in the namespace of the subscription".to_owned(),
            ));
        }
        let at = ObjectRef::core("Secret", Some(self.namespace), name);
        let found =
            self.cluster.get(&at).await?.ok_or_else(|| LookError::NoSecret { name: name.to_owned() })?;
        let text = |key: &str| {
            let bytes = BASE64.decode(found["data"][key].as_str()?.as_bytes()).ok()?;
            Some(String::from_utf8(bytes).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let password = text("password").or_else(|| text("token"));
        Ok(password.map(|password| SourceLogin { user: text("username"), password }))
    }

    fn client(&self, reference: &OciReference, is_plain: bool) -> Result<HttpClient, LookError> {
        let client = self.outbound.registry(&reference.host, is_plain);
        client.map_err(|error| LookError::Settings(error.to_string()))
    }

    pub(super) async fn image(&self, source: &ImageSource) -> Result<Option<FoundVersion>, LookError> {
        let reference = registry_reference(&source.repository)?;
        let client = self.client(&reference, source.insecure)?;
        let login = self.login(source.secret_ref.as_ref()).await?;
        let login = login.map(SourceLogin::for_registry);
        let tags = list_all_tags(&client, login.clone(), &reference).await?;
        let tag = match source.strategy {
            TagStrategy::NewestBuild => {
                self.newest_build(&client, login.clone(), &reference, &tags, source).await?
            }
            _ => newest_tag(&tags, source)?,
        };
        let Some(tag) = tag else { return Ok(None) };
        let image = read_image(&client, login, &reference, &tag, ImageDetails::Digest).await?;
        let artifact = ImageArtifact {
            name: source.name.clone().unwrap_or_else(|| source.repository.clone()),
            reference: format!("{}:{tag}", source.repository),
            digest: Some(image.digest.clone()),
        };
        let artifacts = Artifacts { images: vec![artifact], ..Artifacts::default() };
        Ok(Some(FoundVersion { version: tag, identity: image.digest, artifacts }))
    }

    async fn newest_build(
        &self,
        client: &HttpClient,
        login: Option<Login>,
        reference: &OciReference,
        tags: &[String],
        source: &ImageSource,
    ) -> Result<Option<String>, LookError> {
        let mut wanted = wanted_tags(tags, source)?;
        wanted.sort();
        let mut newest: Option<(jiff::Timestamp, String)> = None;
        for tag in wanted.into_iter().rev().take(MOST_BUILDS) {
            let image = read_image(client, login.clone(), reference, &tag, ImageDetails::Created).await?;
            let built = image.created.and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let Some(built) = built else { continue };
            if newest.as_ref().is_none_or(|(known, _)| built > *known) {
                newest = Some((built, tag));
            }
        }
        Ok(newest.map(|(_, tag)| tag))
    }

    pub(super) async fn chart(&self, source: &ChartSource) -> Result<Option<FoundVersion>, LookError> {
        let Some(place) = source.repo_url.strip_prefix("oci://") else {
            return Err(LookError::Settings("`repoURL` must begin with oci://".to_owned()));
        };
        let reference = OciReference::parse(&format!("{}/{}", place.trim_end_matches('/'), source.name))?;
        let client = self.client(&reference, source.insecure)?;
        let login = self.login(source.secret_ref.as_ref()).await?;
        let login = login.map(SourceLogin::for_registry);
        let tags = list_all_tags(&client, login.clone(), &reference).await?;
        let Some(tag) = newest_version(&tags, source.semver.as_deref())? else { return Ok(None) };
        let digest = read_image(&client, login, &reference, &tag, ImageDetails::Digest).await?.digest;
        let chart = HelmChart {
            repo_url: Some(source.repo_url.clone()),
            name: Some(source.name.clone()),
            version: Some(tag.replace('_', "+")),
        };
        // A chart in a registry is promoted by its reference, as an image is.
        let artifact = ImageArtifact {
            name: source.name.clone(),
            reference: format!("{}/{}:{tag}", place.trim_end_matches('/'), source.name),
            digest: Some(digest.clone()),
        };
        let artifacts = Artifacts { images: vec![artifact], helm_chart: Some(chart), ..Artifacts::default() };
        Ok(Some(FoundVersion { version: tag, identity: digest, artifacts }))
    }

    /// The head of a branch, if something that counts has changed since the last commit that was seen.
    pub(super) async fn commit(
        &self,
        source: &GitSource,
        last_seen: Option<&str>,
    ) -> Result<Option<FoundVersion>, LookError> {
        let settings = |error: String| LookError::Settings(error);
        let address = RepositoryAddress::parse(&source.repository, self.transports)
            .map_err(|error| settings(error.to_string()))?;
        self.outbound.check_repository(&address).await?;
        let branch = BranchName::parse(&source.branch).map_err(|error| settings(error.to_string()))?;
        let credential = match self.login(source.secret_ref.as_ref()).await? {
            Some(login) => login.for_git(address.host()),
            None => GitCredential::Anonymous,
        };
        let repository = self.repositories.repository(address, credential);
        let Some(head) = repository.remote_head(&branch).await? else {
            return Err(LookError::Settings(format!("there is no branch {}", source.branch)));
        };
        let sha = head.as_str().to_owned();
        if let Some(seen) = last_seen.filter(|seen| *seen != sha)
            && let Ok(seen) = CommitId::parse(seen)
        {
            // A history that was replaced has no changes to look at: its head counts.
            let changed = repository.changed_files(&branch, &seen, &head).await.ok();
            if let Some(changed) = changed
                && !changed.iter().any(|file| counts(file, source).unwrap_or(true))
            {
                return Ok(None);
            }
        }
        let commit = GitCommit {
            repository: source.repository.clone(),
            sha: sha.clone(),
            path: source.path.clone(),
            secret_ref: source.secret_ref.clone(),
            ..GitCommit::default()
        };
        let artifacts = Artifacts { git_commit: Some(commit), ..Artifacts::default() };
        let version = sha.chars().take(8).collect();
        Ok(Some(FoundVersion { version, identity: sha, artifacts }))
    }
}

/// Tells whether a changed file counts; a pattern that cannot be read leaves nothing out.
fn counts(file: &Path, source: &GitSource) -> Option<bool> {
    let globs = |patterns: &[String]| -> Option<GlobSet> {
        let mut builder = GlobSetBuilder::new();
        for pattern in patterns {
            builder.add(Glob::new(pattern).ok()?);
        }
        builder.build().ok()
    };
    let is_below = source.path.as_deref().is_none_or(|path| file.starts_with(path.trim_matches('/')));
    let is_included = source.include_paths.is_empty() || globs(&source.include_paths)?.is_match(file);
    let is_excluded = !source.exclude_paths.is_empty() && globs(&source.exclude_paths)?.is_match(file);
    Some(is_below && is_included && !is_excluded)
}
