//! Providers as configured: one settings type a backend.

use std::path::PathBuf;
use std::time::Duration;

use slipway_problem::Location;
use url::Url;

use super::credential::Credential;
use super::layer::ConfigOrigin;
use crate::reference::ProviderName;

/// A configured provider.
#[derive(Clone, Debug)]
pub(crate) struct ProviderConfig {
    pub(crate) name: ProviderName,
    pub(crate) settings: ProviderSettings,
    pub(crate) origin: ConfigOrigin,
    /// The directory of the file it is defined in.
    pub(crate) directory: PathBuf,
    pub(crate) place: Location,
}

/// The kind of backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderType {
    File,
    Env,
    Exec,
    Vault,
    AwsSecretsManager,
    AwsParameters,
    GcpSecretManager,
    AzureKeyVault,
}

pub(super) const TYPES: [(&str, ProviderType); 17] = [
    ("file", ProviderType::File),
    ("local", ProviderType::File),
    ("env", ProviderType::Env),
    ("exec", ProviderType::Exec),
    ("vault", ProviderType::Vault),
    ("openbao", ProviderType::Vault),
    ("aws-secrets-manager", ProviderType::AwsSecretsManager),
    ("aws-sm", ProviderType::AwsSecretsManager),
    ("awssecrets", ProviderType::AwsSecretsManager),
    ("aws-ssm", ProviderType::AwsParameters),
    ("aws-parameter-store", ProviderType::AwsParameters),
    ("awsssm", ProviderType::AwsParameters),
    ("gcp-secret-manager", ProviderType::GcpSecretManager),
    ("gcp-sm", ProviderType::GcpSecretManager),
    ("azure-key-vault", ProviderType::AzureKeyVault),
    ("azure-kv", ProviderType::AzureKeyVault),
    ("azurekeyvault", ProviderType::AzureKeyVault),
];

impl ProviderType {
    /// Its name in configuration files, policies and audit lines.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(_, known)| *known == self).map_or("unknown", |(name, _)| name)
    }

    /// Reads a name or one of its aliases.
    pub fn parse(text: &str) -> Option<Self> {
        TYPES.iter().find(|(name, _)| *name == text).map(|(_, known)| *known)
    }
}

impl std::fmt::Display for ProviderType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The settings of a provider, by its type.
#[derive(Clone, Debug)]
pub(crate) enum ProviderSettings {
    File(FileSettings),
    Env(EnvSettings),
    Exec(ExecSettings),
    Vault(Box<VaultSettings>),
    AwsSecretsManager(Box<AwsSettings>),
    AwsParameters(Box<AwsSettings>),
    GcpSecretManager(GcpSettings),
    AzureKeyVault(Box<AzureSettings>),
}

impl ProviderSettings {
    pub(crate) fn provider_type(&self) -> ProviderType {
        match self {
            Self::File(_) => ProviderType::File,
            Self::Env(_) => ProviderType::Env,
            Self::Exec(_) => ProviderType::Exec,
            Self::Vault(_) => ProviderType::Vault,
            Self::AwsSecretsManager(_) => ProviderType::AwsSecretsManager,
            Self::AwsParameters(_) => ProviderType::AwsParameters,
            Self::GcpSecretManager(_) => ProviderType::GcpSecretManager,
            Self::AzureKeyVault(_) => ProviderType::AzureKeyVault,
        }
    }
}

/// A `.env`, JSON or YAML file.
#[derive(Clone, Debug)]
pub(crate) struct FileSettings {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
    /// Separates the parts of a path inside of the file.
    pub(crate) key_separator: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// By the file's name.
    #[default]
    Auto,
    Env,
    Json,
    Yaml,
}

/// Variables of the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvSettings {
    pub(crate) prefix: String,
}

/// A program that speaks the exec protocol.
#[derive(Clone, Debug)]
pub(crate) struct ExecSettings {
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) lifetime: ExecLifetime,
}

/// The time a program runs for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExecLifetime {
    /// It answers one request and ends.
    #[default]
    Request,
    /// It answers every request of a run (`persistent: true`).
    Run,
}

/// HashiCorp Vault or OpenBao.
#[derive(Clone, Debug)]
pub(crate) struct VaultSettings {
    /// The servers of one cluster, the preferred first.
    pub(crate) addresses: Vec<Url>,
    pub(crate) namespace: Option<String>,
    pub(crate) mount: String,
    pub(crate) kv_version: KvVersion,
    /// The key of references without one.
    pub(crate) key: Option<String>,
    pub(crate) ca_cert: Option<PathBuf>,
    pub(crate) tls_skip_verify: bool,
    pub(crate) auth: VaultAuth,
    pub(crate) auth_mount: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KvVersion {
    One,
    Two,
    #[default]
    Auto,
}

/// The way Vault is logged in to.
#[derive(Clone, Debug)]
pub(crate) enum VaultAuth {
    /// A token; none stands for the user's own.
    Token(Option<Credential>),
    AppRole {
        role_id: Credential,
        secret_id: Option<Credential>,
        wrapped_secret_id: Option<Credential>,
    },
    Kubernetes {
        role: String,
        token: Option<Credential>,
        token_path: Option<PathBuf>,
    },
    Aws {
        role: Option<String>,
        region: Option<String>,
        server_id: Option<String>,
        sts_endpoint: Option<Url>,
    },
    Jwt {
        role: Option<String>,
        jwt: Credential,
    },
}

/// AWS Secrets Manager or Systems Manager Parameter Store.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwsSettings {
    pub(crate) region: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) role_arn: Option<String>,
    pub(crate) external_id: Option<String>,
    pub(crate) session_name: Option<String>,
    pub(crate) web_identity_token_file: Option<PathBuf>,
    pub(crate) endpoint: Option<Url>,
    pub(crate) sts_endpoint: Option<Url>,
    /// Put before every path.
    pub(crate) prefix: String,
    pub(crate) access_key_id: Option<Credential>,
    pub(crate) secret_access_key: Option<Credential>,
    pub(crate) session_token: Option<Credential>,
    pub(crate) single_reads: bool,
    pub(crate) without_decryption: bool,
}

/// Google Cloud Secret Manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct GcpSettings {
    pub(crate) project: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) endpoint: Option<Url>,
    pub(crate) credentials_file: Option<PathBuf>,
    /// A service account to act as.
    pub(crate) impersonate: Option<String>,
    pub(crate) quota_project: Option<String>,
}

/// Azure Key Vault.
#[derive(Clone, Debug)]
pub(crate) struct AzureSettings {
    pub(crate) vault_url: Url,
    pub(crate) tenant_id: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<Credential>,
    /// A PEM file with the certificate and its key.
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) federated_token_file: Option<PathBuf>,
    pub(crate) managed_identity: bool,
    pub(crate) cloud: AzureCloud,
    pub(crate) api_version: String,
    /// The service that gives out tokens, in place of the cloud's own.
    pub(crate) endpoint: Option<Url>,
    /// Set when the address itself was given, not the name of a vault.
    pub(crate) is_custom_address: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AzureCloud {
    #[default]
    Public,
    UsGovernment,
    China,
}

impl AzureCloud {
    pub(crate) fn vault_domain(self) -> &'static str {
        match self {
            Self::Public => "vault.azure.net",
            Self::UsGovernment => "vault.usgovcloudapi.net",
            Self::China => "vault.azure.cn",
        }
    }

    pub(crate) fn authority(self) -> &'static str {
        match self {
            Self::Public => "https://login.microsoftonline.com/",
            Self::UsGovernment => "https://login.microsoftonline.us/",
            Self::China => "https://login.chinacloudapi.cn/",
        }
    }
}

impl ProviderSettings {
    /// Every credential the settings name.
    pub(crate) fn credentials(&self) -> Vec<&Credential> {
        let all: Vec<Option<&Credential>> = match self {
            Self::File(_) | Self::Env(_) | Self::Exec(_) | Self::GcpSecretManager(_) => Vec::new(),
            Self::Vault(vault) => match &vault.auth {
                VaultAuth::Token(token) => vec![token.as_ref()],
                VaultAuth::AppRole { role_id, secret_id, wrapped_secret_id } => {
                    vec![Some(role_id), secret_id.as_ref(), wrapped_secret_id.as_ref()]
                }
                VaultAuth::Kubernetes { token, .. } => vec![token.as_ref()],
                VaultAuth::Aws { .. } => Vec::new(),
                VaultAuth::Jwt { jwt, .. } => vec![Some(jwt)],
            },
            Self::AwsSecretsManager(aws) | Self::AwsParameters(aws) => {
                vec![aws.access_key_id.as_ref(), aws.secret_access_key.as_ref(), aws.session_token.as_ref()]
            }
            Self::AzureKeyVault(azure) => vec![azure.client_secret.as_ref()],
        };
        all.into_iter().flatten().collect()
    }
}

impl ProviderConfig {
    /// A provider nobody configured: defaults and ambient credentials.
    pub(crate) fn implicit(name: ProviderName, provider_type: ProviderType) -> Self {
        let settings = match provider_type {
            ProviderType::AwsSecretsManager => ProviderSettings::AwsSecretsManager(Box::default()),
            ProviderType::AwsParameters => ProviderSettings::AwsParameters(Box::default()),
            ProviderType::GcpSecretManager => ProviderSettings::GcpSecretManager(GcpSettings::default()),
            _ => ProviderSettings::Vault(Box::new(VaultSettings {
                addresses: Vec::new(),
                namespace: None,
                mount: "secret".to_owned(),
                kv_version: KvVersion::Auto,
                key: None,
                ca_cert: None,
                tls_skip_verify: false,
                auth: VaultAuth::Token(None),
                auth_mount: None,
            })),
        };
        Self {
            name,
            settings,
            origin: ConfigOrigin::User,
            directory: PathBuf::new(),
            place: super::implicit_place(),
        }
    }
}
