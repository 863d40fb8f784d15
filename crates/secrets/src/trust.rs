//! Trust: a checkout is untrusted input, since build services plan pull requests.
//!
//! A provider that a repository's own file defines must neither run programs, nor receive credentials that are
//! not the file's own, nor switch off the checks of certificates, nor read files outside of the repository,
//! unless the user trusts that repository.

use std::path::{Path, PathBuf};

use slipway_problem::Problem;

use crate::config::{
    AwsSettings, ConfigOrigin, Credential, CredentialSource, ProviderConfig, ProviderSettings, VaultAuth,
    VaultSettings,
};

/// The user's word on the repository a run works in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepositoryTrust {
    #[default]
    Untrusted,
    Trusted,
}

/// Tells whether the user's configuration lists the repository.
pub(crate) fn trust_of(repository: Option<&Path>, trusted: &[PathBuf]) -> RepositoryTrust {
    let Some(root) = repository.map(real_path) else { return RepositoryTrust::Untrusted };
    if trusted.iter().any(|path| real_path(path) == root) {
        RepositoryTrust::Trusted
    } else {
        RepositoryTrust::Untrusted
    }
}

/// Reports what a provider of an untrusted repository must not do; nothing for every other provider.
pub(crate) fn check_trust(
    provider: &ProviderConfig,
    repository: Option<&Path>,
    trust: RepositoryTrust,
) -> Vec<Problem> {
    if provider.origin == ConfigOrigin::User || trust == RepositoryTrust::Trusted {
        return Vec::new();
    }
    let check = TrustCheck { root: real_path(repository.unwrap_or(&provider.directory)), found: Vec::new() };
    let hint =
        "list the repository under `secrets.trustedRepos` of your own configuration, or give --trust-repo";
    let report = |offence: String| {
        let message = format!("untrusted repo config: provider `{}` {offence}", provider.name);
        Problem::error(message).at(provider.place.clone()).hint(hint)
    };
    check.offences(&provider.settings).into_iter().map(report).collect()
}

struct TrustCheck {
    root: PathBuf,
    found: Vec<String>,
}

impl TrustCheck {
    fn offences(mut self, settings: &ProviderSettings) -> Vec<String> {
        match settings {
            ProviderSettings::Env(_) => {}
            ProviderSettings::Exec(_) => self.found.push("runs a program".to_owned()),
            ProviderSettings::File(file) => self.file("path", Some(&file.path)),
            ProviderSettings::Vault(vault) => self.vault(vault),
            ProviderSettings::AwsSecretsManager(aws) | ProviderSettings::AwsParameters(aws) => self.aws(aws),
            // Google credentials that are not the file's own go to Google's addresses only.
            ProviderSettings::GcpSecretManager(gcp) => {
                self.file("credentialsFile", gcp.credentials_file.as_deref());
                if gcp.credentials_file.as_deref().is_some_and(takes_tokens_from_elsewhere) {
                    self.found.push("takes tokens from elsewhere (credentialsFile)".to_owned());
                }
            }
            ProviderSettings::AzureKeyVault(azure) => {
                self.credential("clientSecret", azure.client_secret.as_ref());
                self.file("federatedTokenFile", azure.federated_token_file.as_deref());
                let certificate = azure.client_certificate.as_deref();
                self.file("clientCertificate", certificate);
                let is_own = certificate.is_some_and(|path| self.is_inside(path))
                    || self.is_own(azure.client_secret.as_ref());
                if !is_own {
                    self.sends_ambient("vaultUrl", azure.is_custom_address);
                    self.sends_ambient("endpoint", azure.endpoint.is_some());
                }
            }
        }
        self.found
    }

    fn vault(&mut self, vault: &VaultSettings) {
        if vault.tls_skip_verify {
            self.found.push("sets tlsSkipVerify".to_owned());
        }
        let is_own = match &vault.auth {
            VaultAuth::Token(token) => {
                self.credential("token", token.as_ref());
                self.is_own(token.as_ref())
            }
            VaultAuth::AppRole { role_id, secret_id, wrapped_secret_id } => {
                let all = [
                    ("roleId", Some(role_id)),
                    ("secretId", secret_id.as_ref()),
                    ("secretIdWrapped", wrapped_secret_id.as_ref()),
                ];
                for (key, credential) in all {
                    self.credential(key, credential);
                }
                all.into_iter().all(|(_, credential)| credential.is_none() || self.is_own(credential))
            }
            VaultAuth::Kubernetes { token, token_path, .. } => {
                self.credential("kubernetesToken", token.as_ref());
                self.file("kubernetesTokenPath", token_path.as_deref());
                self.is_own(token.as_ref())
            }
            VaultAuth::Aws { sts_endpoint, .. } => {
                self.sends_ambient("stsEndpoint", sts_endpoint.is_some());
                false
            }
            VaultAuth::Jwt { jwt, .. } => {
                self.credential("jwt", Some(jwt));
                self.is_own(Some(jwt))
            }
        };
        if !is_own {
            self.sends_ambient("address", !vault.addresses.is_empty());
            self.sends_ambient("caCert", vault.ca_cert.is_some());
        }
    }

    fn aws(&mut self, aws: &AwsSettings) {
        let keys = [
            ("accessKeyId", aws.access_key_id.as_ref()),
            ("secretAccessKey", aws.secret_access_key.as_ref()),
            ("sessionToken", aws.session_token.as_ref()),
        ];
        for (key, credential) in keys {
            self.credential(key, credential);
        }
        self.file("webIdentityTokenFile", aws.web_identity_token_file.as_deref());
        if !(self.is_own(aws.access_key_id.as_ref()) && self.is_own(aws.secret_access_key.as_ref())) {
            self.sends_ambient("endpoint", aws.endpoint.is_some());
            self.sends_ambient("stsEndpoint", aws.sts_endpoint.is_some());
        }
    }

    fn sends_ambient(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.found.push(format!("sets {key}, where credentials of the user would be sent"));
        }
    }

    /// A credential the repository gives itself: it may go where the repository says.
    fn is_own(&self, credential: Option<&Credential>) -> bool {
        match credential.map(|credential| &credential.source) {
            Some(CredentialSource::Literal(_)) => true,
            Some(CredentialSource::File(path)) => self.is_inside(path),
            Some(CredentialSource::Variable(_) | CredentialSource::Command(_)) | None => false,
        }
    }

    fn credential(&mut self, key: &str, credential: Option<&Credential>) {
        match credential.map(|credential| &credential.source) {
            Some(CredentialSource::Command(_)) => self.found.push(format!("runs a program for {key}")),
            Some(CredentialSource::File(path)) => self.file(key, Some(path)),
            Some(CredentialSource::Literal(_) | CredentialSource::Variable(_)) | None => {}
        }
    }

    fn file(&mut self, key: &str, path: Option<&Path>) {
        if path.is_some_and(|path| !self.is_inside(path)) {
            self.found.push(format!("reads a file outside of the repository ({key})"));
        }
    }

    fn is_inside(&self, path: &Path) -> bool {
        real_path(path).starts_with(&self.root)
    }
}

/// Tells that a file of Google credentials names other files, addresses or programs to get a token from, and the address to
/// trade it at.
fn takes_tokens_from_elsewhere(path: &Path) -> bool {
    let text = slipway_problem::read_text_file(path).unwrap_or_default();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let is_plain = |file: &serde_json::Value| {
        file.get("type").is_none_or(|name| name == "service_account" || name == "authorized_user")
    };
    !is_plain(&file)
}

/// Tells whether a path stays below a directory, links followed.
pub(crate) fn is_inside(path: &Path, directory: &Path) -> bool {
    real_path(path).starts_with(real_path(directory))
}

/// The path without links and `..`, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            // What does not exist cannot be followed; `..` in it may lead anywhere.
            let leads_up = rest.components().any(|part| matches!(part, std::path::Component::ParentDir));
            return if leads_up { PathBuf::from("/") } else { real.join(rest) };
        }
    }
    path
}
