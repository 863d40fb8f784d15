//! Credentials of a repository: a Secret of the step's namespace, for Git and for the server of pull requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::BASE64;
use secrecy::SecretString;
use slipway_git::{GitCredential, Repository, RepositoryAddress, SigningKey};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_scm::{
    AppCredential, ConnectOptions, ProviderKind, RemoteRepository, ScmCredential, ScmProvider, WebhookSecret,
};

use crate::kinds::{GitCommit, PromotionStep, ScmProvider as ProviderName, SecretRef, labels};

use super::outcome::{Dependency, StepError};
use super::reconciler::{KnownProvider, StepShared};

/// A repository as a step reaches it.
pub(super) struct RepositoryAccess {
    pub(super) repository: Repository,
    /// The server of pull requests; none without credentials for it.
    pub(super) scm: Option<Arc<dyn ScmProvider>>,
    pub(super) kind: ProviderKind,
    /// `owner/name`, as webhooks say it.
    pub(super) slug: String,
}

impl RepositoryAccess {
    /// The server of pull requests.
    pub(super) fn scm(&self) -> Result<&dyn ScmProvider, StepError> {
        self.scm.as_deref().ok_or_else(|| {
            let message = "pull requests need a Secret with a token in `git.secretRef`";
            StepError::trouble(Dependency::Scm, "CredentialsMissing", message)
        })
    }
}

/// The content of a Secret.
#[derive(Clone, Default)]
pub(super) struct SecretContent {
    pub(super) version: String,
    data: BTreeMap<String, Vec<u8>>,
}

impl SecretContent {
    /// A value that is text.
    pub(super) fn text(&self, key: &str) -> Option<SecretString> {
        let bytes = self.data.get(key).filter(|bytes| !bytes.is_empty())?;
        String::from_utf8(bytes.clone()).ok().map(SecretString::from)
    }

    /// A value without the line break editors put at its end.
    pub(super) fn word(&self, key: &str) -> Option<SecretString> {
        let bytes = self.data.get(key)?;
        let text = std::str::from_utf8(bytes).ok()?.trim();
        (!text.is_empty()).then(|| SecretString::from(text.to_owned()))
    }

    fn plain(&self, key: &str) -> Option<String> {
        let bytes = self.data.get(key)?;
        std::str::from_utf8(bytes).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        self.data.get(key).cloned().filter(|bytes| !bytes.is_empty())
    }

    /// The credentials for the server; the first that is whole counts.
    fn scm_credential(&self) -> Option<ScmCredential> {
        if let (Some(app_id), Some(installation_id), Some(private_key)) = (
            self.plain("githubAppID"),
            self.plain("githubAppInstallationID"),
            self.text("githubAppPrivateKey"),
        ) {
            return Some(ScmCredential::App(AppCredential { app_id, installation_id, private_key }));
        }
        if let Some(token) = self.word("token") {
            return Some(ScmCredential::Token(token));
        }
        let (user, password) = (self.plain("username")?, self.word("password")?);
        Some(ScmCredential::Login { user, password })
    }

    fn ssh_credential(&self) -> Result<Option<GitCredential>, StepError> {
        let Some(private_key) = self.text("sshPrivateKey") else { return Ok(None) };
        let Some(known_hosts) = self.plain("knownHosts") else {
            let message =
                "the Secret has `sshPrivateKey` but no `knownHosts`: hosts are never trusted blindly";
            return Err(StepError::trouble(Dependency::Git, "CredentialsMissing", message));
        };
        Ok(Some(GitCredential::SshKey { private_key, known_hosts }))
    }

    /// The secret webhooks of the repository are signed with.
    pub(super) fn webhook_secret(&self) -> Option<WebhookSecret> {
        self.plain("webhookSecret").map(WebhookSecret::new)
    }

    fn connect_options(&self, usual: &ConnectOptions) -> ConnectOptions {
        let identity = match (self.bytes("tls.crt"), self.bytes("tls.key")) {
            (Some(mut certificate), Some(key)) => {
                certificate.push(b'\n');
                certificate.extend(key);
                Some(certificate)
            }
            _ => usual.identity.clone(),
        };
        ConnectOptions { ca: self.bytes("ca.crt").or_else(|| usual.ca.clone()), identity, ..usual.clone() }
    }
}

/// A Secret by name.
fn secret_at(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("", "v1", "Secret"), Some(namespace), name)
}

impl StepShared {
    /// Reads a Secret. One of another namespace has to allow the step's by an annotation.
    pub(super) async fn read_secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
        dependency: Dependency,
    ) -> Result<SecretContent, StepError> {
        let place = reference.namespace.as_deref().unwrap_or(namespace);
        let name = &reference.name;
        let missing = |message: String| StepError::trouble(dependency, "CredentialsMissing", message);
        let at = secret_at(place, name);
        let local = match &self.local_secrets {
            Some(cluster) => cluster.get(&at).await?,
            None => None,
        };
        let found = match local {
            Some(secret) => Some(secret),
            None => self.cluster.get(&at).await?,
        };
        let Some(secret) = found else {
            return Err(missing(format!("there is no Secret {place}/{name}")));
        };
        let metadata = &secret["metadata"];
        if place != namespace {
            let allowed = metadata["annotations"][labels::ALLOW_NAMESPACES].as_str().unwrap_or_default();
            if !allowed.split(',').map(str::trim).any(|one| one == namespace || one == "*") {
                let key = labels::ALLOW_NAMESPACES;
                let message =
                    format!("the Secret {place}/{name} is not for {namespace}: see the annotation {key}");
                return Err(missing(message));
            }
        }
        let data = secret["data"].as_object().into_iter().flatten();
        let decoded = data.filter_map(|(key, value)| {
            let bytes = BASE64.decode(value.as_str()?.as_bytes()).ok()?;
            Some((key.clone(), bytes))
        });
        let version = metadata["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok(SecretContent { version, data: decoded.collect() })
    }

    /// Reaches the repository of a step. A Secret that has changed counts at once.
    pub(super) async fn connect(&self, step: &PromotionStep) -> Result<RepositoryAccess, StepError> {
        let git = &step.spec.git;
        let secret = match &git.secret_ref {
            Some(reference) => self.read_secret(step.namespace(), reference, Dependency::Git).await?,
            None => SecretContent::default(),
        };
        let address = self.parse_address(&git.url).await?;
        let kind = provider_kind(git.provider);
        let invalid =
            |error: slipway_scm::RemoteError| StepError::failed("InvalidGitSettings", error.to_string());
        let (scm, slug) = match (kind, secret.scm_credential()) {
            (ProviderKind::None, _) => (None, address.path().to_owned()),
            (_, None) => (None, address.path().to_owned()),
            (_, Some(credential)) => {
                let remote =
                    RemoteRepository::new(&address, Some(kind), git.api_url.as_deref()).map_err(invalid)?;
                let slug = remote.slug();
                let key = format!("{}\n{:?}\n{}\n{slug}", git.url, git.api_url, step.namespace());
                (Some(self.provider(&key, &secret, remote, credential)?), slug)
            }
        };
        let credential = if address.is_http() {
            match (&scm, secret.scm_credential()) {
                (Some(scm), _) => scm.git_credential().await?,
                (None, Some(credential)) => credential.for_git(kind),
                (None, None) => GitCredential::Anonymous,
            }
        } else {
            secret.ssh_credential()?.unwrap_or_default()
        };
        let repository = self.cache.repository(address, credential);
        Ok(RepositoryAccess { repository, scm, kind, slug })
    }

    /// Reaches the repository of a configuration commit.
    pub(super) async fn connect_config(
        &self,
        step: &PromotionStep,
        commit: &GitCommit,
    ) -> Result<Repository, StepError> {
        let address = self.parse_address(&commit.repository).await?;
        let own =
            (commit.repository == step.spec.git.url).then_some(step.spec.git.secret_ref.as_ref()).flatten();
        let secret = match commit.secret_ref.as_ref().or(own) {
            Some(reference) => self.read_secret(step.namespace(), reference, Dependency::Git).await?,
            None => SecretContent::default(),
        };
        let kind = ProviderKind::of_host(address.host()).unwrap_or(provider_kind(step.spec.git.provider));
        let credential = match secret.scm_credential() {
            Some(ScmCredential::App(_)) | None => secret.ssh_credential()?.unwrap_or_default(),
            Some(credential) => credential.for_git(kind),
        };
        Ok(self.cache.repository(address, credential))
    }

    /// The key commits of a step are signed with.
    pub(super) async fn signing_key(&self, step: &PromotionStep) -> Result<Option<SigningKey>, StepError> {
        let reference = step.spec.git.commit.as_ref().and_then(|commit| commit.signing_secret_ref.as_ref());
        let Some(reference) = reference else { return Ok(None) };
        let secret = self.read_secret(step.namespace(), reference, Dependency::Git).await?;
        let key = secret.text("sshPrivateKey").map(SigningKey::Ssh);
        let key = key.or_else(|| secret.text("gpgPrivateKey").map(SigningKey::OpenPgp));
        key.map(Some).ok_or_else(|| {
            let message = "the Secret for signing has neither `sshPrivateKey` nor `gpgPrivateKey`";
            StepError::trouble(Dependency::Git, "CredentialsMissing", message)
        })
    }

    /// The address of a repository that may be reached from here.
    async fn parse_address(&self, url: &str) -> Result<RepositoryAddress, StepError> {
        let address = RepositoryAddress::parse(url, self.options.transports)
            .map_err(|error| StepError::failed("InvalidGitSettings", error.to_string()))?;
        let judged = self.outbound.check_repository(&address).await;
        judged.map_err(|error| StepError::failed("ForbiddenAddress", error.to_string()))?;
        Ok(address)
    }

    /// The client of a server; made anew when its Secret has changed.
    fn provider(
        &self,
        key: &str,
        secret: &SecretContent,
        remote: RemoteRepository,
        credential: ScmCredential,
    ) -> Result<Arc<dyn ScmProvider>, StepError> {
        let mut providers = self.providers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(KnownProvider { version, provider }) = providers.get(key)
            && *version == secret.version
        {
            return Ok(provider.clone());
        }
        let mut options = secret.connect_options(&self.options.scm);
        options.addresses = Some(self.outbound.policy().addresses.clone());
        let provider = self.scm.connect(remote, credential, &options)?;
        let known = KnownProvider { version: secret.version.clone(), provider: provider.clone() };
        providers.insert(key.to_owned(), known);
        Ok(provider)
    }
}

/// The kind of a server by its name in specs.
pub(super) fn provider_kind(name: ProviderName) -> ProviderKind {
    match name {
        ProviderName::GitHub => ProviderKind::GitHub,
        ProviderName::GitLab => ProviderKind::GitLab,
        ProviderName::Gitea | ProviderName::Forgejo => ProviderKind::Gitea,
        ProviderName::Bitbucket => ProviderKind::Bitbucket,
        ProviderName::AzureDevOps => ProviderKind::AzureDevOps,
        ProviderName::None => ProviderKind::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> SecretContent {
        let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        SecretContent { version: "1".to_owned(), data: data.collect() }
    }

    #[test]
    fn the_first_whole_credential_of_a_secret_counts() {
        let app = [("githubAppID", "1"), ("githubAppInstallationID", "2"), ("githubAppPrivateKey", "pem")];
        let token = ("token", "t\n");
        let login = [("username", "u"), ("password", "p")];
        let found = |pairs: &[(&str, &str)]| secret(pairs).scm_credential();
        assert!(matches!(found(&[app[0], app[1], app[2], token]), Some(ScmCredential::App(_))));
        assert!(matches!(found(&[app[0], token, login[0], login[1]]), Some(ScmCredential::Token(_))));
        assert!(matches!(found(&login), Some(ScmCredential::Login { .. })));
        assert!(found(&[("username", "u")]).is_none());
    }

    #[test]
    fn a_key_without_known_hosts_is_refused() {
        assert!(secret(&[("sshPrivateKey", "k")]).ssh_credential().is_err());
        let whole = secret(&[("sshPrivateKey", "k"), ("knownHosts", "h")]).ssh_credential();
        assert!(matches!(whole, Ok(Some(GitCredential::SshKey { .. }))));
    }
}
