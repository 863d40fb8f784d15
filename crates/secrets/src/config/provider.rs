//! Providers as configured: one settings type a backend.

use std::path::PathBuf;
use std::time::Duration;

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{Fields, Node};
use url::Url;

use super::credential::{self, Credential};
use super::layer::{ConfigLayer, ConfigOrigin};
use super::{complain_hint, duration};
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

const TYPES: [(&str, ProviderType); 17] = [
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
}

/// HashiCorp Vault or OpenBao.
#[derive(Clone, Debug)]
pub(crate) struct VaultSettings {
    pub(crate) address: Option<Url>,
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

/// Reads one entry of `providers`.
pub(super) fn read(
    name: &Node,
    node: &Node,
    layer: &ConfigLayer,
    problems: &mut Problems,
) -> Option<ProviderConfig> {
    let text = name.key_text();
    let parsed = ProviderName::parse(&text);
    if parsed.is_none() {
        let problem = Problem::error(format!("`{text}` is no name of a provider")).at(name.location());
        problems.push(problem.hint(super::NAME_HINT));
    }
    let mut fields = Fields::of(node, problems);
    let word = fields.required_str("type");
    let kind = ProviderType::parse(word);
    if kind.is_none() && !word.is_empty() {
        let problem =
            Problem::error(format!("unknown type of provider `{word}`")).at(fields.place("type").location());
        let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        let problem = problem.did_you_mean(word, names.iter().copied());
        let problem = if problem.hint.is_none() {
            problem.hint(format!("one of {}", names.join(", ")))
        } else {
            problem
        };
        fields.problems().push(problem);
    }
    let settings = kind.and_then(|kind| read_settings(kind, &mut fields, layer));
    if kind.is_none() {
        // Without a type no key can be judged.
        fields.ignore_unknown();
    }
    fields.finish();
    Some(ProviderConfig {
        name: parsed?,
        settings: settings?,
        origin: layer.origin,
        directory: layer.directory().to_owned(),
        place: name.location(),
    })
}

fn read_settings(
    kind: ProviderType,
    fields: &mut Fields<'_, '_>,
    layer: &ConfigLayer,
) -> Option<ProviderSettings> {
    Some(match kind {
        ProviderType::File => ProviderSettings::File(read_file(fields, layer)),
        ProviderType::Env => {
            ProviderSettings::Env(EnvSettings { prefix: fields.string("prefix").unwrap_or_default() })
        }
        ProviderType::Exec => ProviderSettings::Exec(read_exec(fields)),
        ProviderType::Vault => ProviderSettings::Vault(Box::new(read_vault(fields, layer)?)),
        ProviderType::AwsSecretsManager => {
            ProviderSettings::AwsSecretsManager(Box::new(read_aws(kind, fields, layer)))
        }
        ProviderType::AwsParameters => {
            ProviderSettings::AwsParameters(Box::new(read_aws(kind, fields, layer)))
        }
        ProviderType::GcpSecretManager => ProviderSettings::GcpSecretManager(read_gcp(fields, layer)),
        ProviderType::AzureKeyVault => ProviderSettings::AzureKeyVault(Box::new(read_azure(fields, layer)?)),
    })
}

fn read_file(fields: &mut Fields<'_, '_>, layer: &ConfigLayer) -> FileSettings {
    let formats = [
        ("auto", FileFormat::Auto),
        ("env", FileFormat::Env),
        ("json", FileFormat::Json),
        ("yaml", FileFormat::Yaml),
    ];
    let key_separator = fields.string("keySeparator").unwrap_or_else(|| "/".to_owned());
    if key_separator.is_empty() {
        complain_hint(fields, "keySeparator", "`keySeparator` is empty", "leave it out for `/`");
    }
    FileSettings {
        path: layer.directory().join(fields.required_str("path")),
        format: fields.one_of("format", &formats).unwrap_or_default(),
        key_separator,
    }
}

fn read_exec(fields: &mut Fields<'_, '_>) -> ExecSettings {
    let command = fields.strings("command");
    if command.first().is_none_or(String::is_empty) {
        complain_hint(
            fields,
            "command",
            "`command` names no program",
            "write `command: [/path/to/program, argument]`",
        );
    }
    ExecSettings { command, env: fields.string_map("env"), timeout: duration(fields, "timeout") }
}

fn read_vault(fields: &mut Fields<'_, '_>, layer: &ConfigLayer) -> Option<VaultSettings> {
    let versions = [("1", KvVersion::One), ("2", KvVersion::Two), ("auto", KvVersion::Auto)];
    let kv_version = match fields.text("kvVersion") {
        None => KvVersion::Auto,
        Some(text) => {
            versions.iter().find(|(word, _)| *word == text).map(|(_, version)| *version).unwrap_or_else(
                || {
                    complain_hint(fields, "kvVersion", "`kvVersion` is unknown", "one of 1, 2, auto");
                    KvVersion::Auto
                },
            )
        }
    };
    let mount = fields.string("mount").unwrap_or_else(|| "secret".to_owned());
    if mount.trim_matches('/').is_empty() {
        complain_hint(fields, "mount", "`mount` is empty", "leave it out for `secret`");
    }
    let methods = ["token", "approle", "kubernetes", "aws", "jwt"].map(|method| (method, method));
    let method = fields.one_of("authMethod", &methods);
    Some(VaultSettings {
        address: address(fields, "address"),
        namespace: fields.string("namespace"),
        mount: mount.trim_matches('/').to_owned(),
        kv_version,
        key: fields.string("key"),
        ca_cert: fields.string("caCert").map(|path| layer.directory().join(path)),
        tls_skip_verify: fields.bool("tlsSkipVerify").unwrap_or_default(),
        auth_mount: fields.string("authMount").map(|mount| mount.trim_matches('/').to_owned()),
        auth: read_vault_auth(method.unwrap_or("token"), fields, layer)?,
    })
}

fn read_vault_auth(method: &str, fields: &mut Fields<'_, '_>, layer: &ConfigLayer) -> Option<VaultAuth> {
    let token = credential::read(fields, "token", layer);
    let role_id = credential::read(fields, "roleId", layer);
    let secret_id = credential::read(fields, "secretId", layer);
    let wrapped_secret_id = credential::read(fields, "secretIdWrapped", layer);
    let kubernetes_role = fields.string("kubernetesRole");
    let kubernetes_token = credential::read(fields, "kubernetesToken", layer);
    let token_path = fields.string("kubernetesTokenPath").map(|path| layer.directory().join(path));
    let aws_role = fields.string("awsRole");
    let region = region(fields, "awsRegion");
    let server_id = fields.string("awsHeaderValue");
    let sts_endpoint = address(fields, "stsEndpoint");
    let jwt = credential::read(fields, "jwt", layer);
    let jwt_role = fields.string("jwtRole");
    fields.exclusive(&["secretId", "secretIdWrapped"]);
    let mut missing = |key: &str| {
        let at = fields.node().location();
        let problem = Problem::error(format!("missing key `{key}`")).at(at);
        fields.problems().push(problem.hint(format!("`authMethod: {method}` needs it")));
    };
    match method {
        "approle" => match role_id {
            Some(role_id) => Some(VaultAuth::AppRole { role_id, secret_id, wrapped_secret_id }),
            None => {
                missing("roleId");
                None
            }
        },
        "kubernetes" => match kubernetes_role {
            Some(role) => Some(VaultAuth::Kubernetes { role, token: kubernetes_token, token_path }),
            None => {
                missing("kubernetesRole");
                None
            }
        },
        "aws" => Some(VaultAuth::Aws { role: aws_role, region, server_id, sts_endpoint }),
        "jwt" => match jwt {
            Some(jwt) => Some(VaultAuth::Jwt { role: jwt_role, jwt }),
            None => {
                missing("jwt");
                None
            }
        },
        _ => Some(VaultAuth::Token(token)),
    }
}

fn read_aws(kind: ProviderType, fields: &mut Fields<'_, '_>, layer: &ConfigLayer) -> AwsSettings {
    let mut settings = AwsSettings {
        region: region(fields, "region"),
        profile: fields.string("profile"),
        role_arn: fields.string("roleArn"),
        external_id: fields.string("externalId"),
        session_name: fields.string("sessionName"),
        web_identity_token_file: fields
            .string("webIdentityTokenFile")
            .map(|path| layer.directory().join(path)),
        endpoint: address(fields, "endpoint"),
        sts_endpoint: address(fields, "stsEndpoint"),
        prefix: fields.string("prefix").unwrap_or_default(),
        access_key_id: credential::read(fields, "accessKeyId", layer),
        secret_access_key: credential::read(fields, "secretAccessKey", layer),
        session_token: credential::read(fields, "sessionToken", layer),
        ..AwsSettings::default()
    };
    if settings.access_key_id.is_some() != settings.secret_access_key.is_some() {
        let at = if settings.access_key_id.is_some() { "accessKeyId" } else { "secretAccessKey" };
        complain_hint(
            fields,
            at,
            "`accessKeyId` and `secretAccessKey` belong together",
            "give both, or neither",
        );
    }
    if kind == ProviderType::AwsParameters {
        settings.without_decryption = fields.bool("withDecryption") == Some(false);
    } else {
        settings.single_reads = fields.bool("batch") == Some(false);
    }
    settings
}

fn read_gcp(fields: &mut Fields<'_, '_>, layer: &ConfigLayer) -> GcpSettings {
    GcpSettings {
        project: host_word(fields, "project"),
        location: host_word(fields, "location"),
        endpoint: address(fields, "endpoint"),
        credentials_file: fields.string("credentialsFile").map(|path| layer.directory().join(path)),
        impersonate: fields.string("impersonate"),
        quota_project: host_word(fields, "quotaProject"),
    }
}

fn read_azure(fields: &mut Fields<'_, '_>, layer: &ConfigLayer) -> Option<AzureSettings> {
    let clouds =
        [("public", AzureCloud::Public), ("usgov", AzureCloud::UsGovernment), ("china", AzureCloud::China)];
    let cloud = fields.one_of("cloud", &clouds).unwrap_or_default();
    let name = host_word(fields, "vault");
    let custom = address(fields, "vaultUrl");
    fields.exclusive(&["vault", "vaultUrl"]);
    let is_custom_address = custom.is_some();
    let settings = AzureSettings {
        vault_url: Url::parse("https://vault.invalid").ok()?,
        tenant_id: fields.string("tenantId"),
        client_id: fields.string("clientId"),
        client_secret: credential::read(fields, "clientSecret", layer),
        federated_token_file: fields.string("federatedTokenFile").map(|path| layer.directory().join(path)),
        managed_identity: fields.bool("useManagedIdentity").unwrap_or_default(),
        cloud,
        api_version: fields.string("apiVersion").unwrap_or_else(|| "7.4".to_owned()),
        endpoint: address(fields, "endpoint"),
        is_custom_address,
    };
    let named =
        || name.and_then(|name| Url::parse(&format!("https://{name}.{}/", cloud.vault_domain())).ok());
    let Some(vault_url) = custom.or_else(named) else {
        if !fields.has("vault") && !fields.has("vaultUrl") {
            let at = fields.node().location();
            let problem = Problem::error("missing key `vault`").at(at);
            fields.problems().push(problem.hint("give the vault's name, or its address as `vaultUrl`"));
        }
        return None;
    };
    Some(AzureSettings { vault_url, ..settings })
}

/// An address of a service: HTTP or HTTPS, without credentials in it.
fn address(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Url> {
    let text = fields.str(key)?;
    let wrong = match Url::parse(text) {
        Err(_) => "is no address",
        Ok(url) if !matches!(url.scheme(), "http" | "https") => "is neither http:// nor https://",
        Ok(url) if !url.username().is_empty() || url.password().is_some() => "has credentials in it",
        Ok(url) if url.query().is_some() || url.fragment().is_some() => "has a query or fragment",
        Ok(url) => return Some(url),
    };
    complain_hint(fields, key, format!("`{key}` {wrong}"), "write `https://host:port`");
    None
}

/// A word that becomes a part of a host's name, so it may hold nothing that ends one.
fn host_word(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<String> {
    let text = fields.string(key)?;
    if is_host_word(&text) {
        return Some(text);
    }
    complain_hint(
        fields,
        key,
        format!("`{key}` has characters it cannot have"),
        "letters, digits and dashes only",
    );
    None
}

fn region(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<String> {
    host_word(fields, key)
}

/// Tells whether a word can stand in a host's name.
pub(crate) fn is_host_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
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
                address: None,
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
