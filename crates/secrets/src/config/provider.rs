//! Reads the entries of `providers`, each by the rules of its type.

use slipway_problem::{Problem, Problems};
use slipway_yaml::{FieldReader, YamlNode};
use url::Url;

use super::credential;
use super::layer::ConfigLayer;
use super::settings::{
    AwsSettings, AzureCloud, AzureSettings, EnvSettings, ExecLifetime, ExecSettings, FileFormat,
    FileSettings, GcpSettings, KvVersion, ProviderConfig, ProviderSettings, ProviderType, TYPES, VaultAuth,
    VaultSettings,
};
use super::{complain_hint, duration};
use crate::reference::ProviderName;

/// Reads one entry of `providers`. Problems without a hint of their own show an entry of the type as it should be.
pub(super) fn read(
    name: &YamlNode,
    node: &YamlNode,
    layer: &ConfigLayer,
    problems: &mut Problems,
) -> Option<ProviderConfig> {
    let mut own = Problems::new();
    let provider = read_entry(name, node, layer, &mut own);
    let kind = node.get("type").and_then(YamlNode::as_str).and_then(ProviderType::parse);
    let example = format!("for example `{}`", kind.unwrap_or(ProviderType::Vault).example());
    problems.extend(own.into_iter().map(|problem| super::hinted(problem, &example)));
    provider
}

fn read_entry(
    name: &YamlNode,
    node: &YamlNode,
    layer: &ConfigLayer,
    problems: &mut Problems,
) -> Option<ProviderConfig> {
    let text = name.key_text();
    let parsed = ProviderName::parse(&text);
    if parsed.is_none() {
        let problem = Problem::error(format!("`{text}` is no name of a provider")).at(name.location());
        problems.push(problem.hint(super::NAME_HINT));
    }
    let mut fields = FieldReader::new(node, problems);
    let word = fields.required_str("type");
    let kind = ProviderType::parse(word);
    // One that is missing or no text is told of already.
    if kind.is_none() && fields.node_of("type").as_str().is_some() {
        let problem = Problem::error(format!("unknown type of provider `{word}`"))
            .at(fields.node_of("type").location());
        fields.problems().push(problem_of_type(problem, word));
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

/// The problem of a word that is no type, with the nearest type or all of them as its hint.
pub(crate) fn problem_of_type(problem: Problem, word: &str) -> Problem {
    let mut names: Vec<&str> = TYPES.iter().map(|(_, kind)| kind.name()).collect();
    names.dedup();
    let problem = problem.did_you_mean(word, TYPES.iter().map(|(name, _)| *name));
    super::hinted(problem, &format!("one of {}", names.join(", ")))
}

/// Reports that two keys are set, of which one is enough.
fn check_exclusive(fields: &mut FieldReader<'_, '_>, keys: [&'static str; 2]) {
    let before = std::mem::take(fields.problems());
    fields.check_exclusive(&keys);
    let own = std::mem::replace(fields.problems(), before);
    fields.problems().extend(own.into_iter().map(|problem| problem.hint("leave one of them out")));
}

fn read_settings(
    kind: ProviderType,
    fields: &mut FieldReader<'_, '_>,
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

fn read_file(fields: &mut FieldReader<'_, '_>, layer: &ConfigLayer) -> FileSettings {
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

fn read_exec(fields: &mut FieldReader<'_, '_>) -> ExecSettings {
    let command = fields.strings("command");
    let is_list = fields.node_of("command").as_seq().is_some() || !fields.has_key("command");
    if is_list && command.first().is_none_or(String::is_empty) {
        complain_hint(
            fields,
            "command",
            "`command` names no program",
            "write `command: [/path/to/program, argument]`",
        );
    }
    let lifetime = match fields.bool("persistent") {
        Some(true) => ExecLifetime::Run,
        _ => ExecLifetime::Request,
    };
    ExecSettings { command, env: fields.string_map("env"), timeout: duration(fields, "timeout"), lifetime }
}

fn read_vault(fields: &mut FieldReader<'_, '_>, layer: &ConfigLayer) -> Option<VaultSettings> {
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
        addresses: addresses(fields, "address"),
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

fn read_vault_auth(method: &str, fields: &mut FieldReader<'_, '_>, layer: &ConfigLayer) -> Option<VaultAuth> {
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
    check_exclusive(fields, ["secretId", "secretIdWrapped"]);
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

fn read_aws(kind: ProviderType, fields: &mut FieldReader<'_, '_>, layer: &ConfigLayer) -> AwsSettings {
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

fn read_gcp(fields: &mut FieldReader<'_, '_>, layer: &ConfigLayer) -> GcpSettings {
    GcpSettings {
        project: host_word(fields, "project"),
        location: host_word(fields, "location"),
        endpoint: address(fields, "endpoint"),
        credentials_file: fields.string("credentialsFile").map(|path| layer.directory().join(path)),
        impersonate: fields.string("impersonate"),
        quota_project: host_word(fields, "quotaProject"),
    }
}

fn read_azure(fields: &mut FieldReader<'_, '_>, layer: &ConfigLayer) -> Option<AzureSettings> {
    let clouds =
        [("public", AzureCloud::Public), ("usgov", AzureCloud::UsGovernment), ("china", AzureCloud::China)];
    let cloud = fields.one_of("cloud", &clouds).unwrap_or_default();
    let name = host_word(fields, "vault");
    let custom = address(fields, "vaultUrl");
    check_exclusive(fields, ["vault", "vaultUrl"]);
    check_exclusive(fields, ["clientSecret", "clientCertificate"]);
    let is_custom_address = custom.is_some();
    let settings = AzureSettings {
        vault_url: Url::parse("https://vault.invalid").ok()?,
        tenant_id: fields.string("tenantId"),
        client_id: fields.string("clientId"),
        client_secret: credential::read(fields, "clientSecret", layer),
        client_certificate: fields.string("clientCertificate").map(|path| layer.directory().join(path)),
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
        if !fields.has_key("vault") && !fields.has_key("vaultUrl") {
            let at = fields.node().location();
            let problem = Problem::error("missing key `vault`").at(at);
            fields.problems().push(problem.hint("give the vault's name, or its address as `vaultUrl`"));
        }
        return None;
    };
    Some(AzureSettings { vault_url, ..settings })
}

impl ProviderType {
    /// An entry of this type as it should be.
    fn example(self) -> &'static str {
        match self {
            Self::File => "{type: file, path: dev.env, format: auto}",
            Self::Env => "{type: env, prefix: APP_}",
            Self::Exec => {
                "{type: exec, command: [/usr/local/bin/provider, argument], timeout: 20s, persistent: true}"
            }
            Self::Vault => {
                "{type: vault, address: 'https://vault:8200', kvVersion: 2, authMethod: token, token: 'env:TOKEN'}"
            }
            Self::AwsSecretsManager => {
                "{type: aws-secrets-manager, region: eu-west-1, prefix: prod/, batch: true}"
            }
            Self::AwsParameters => "{type: aws-ssm, region: eu-west-1, withDecryption: true}",
            Self::GcpSecretManager => "{type: gcp-secret-manager, project: my-project}",
            Self::AzureKeyVault => "{type: azure-key-vault, vault: my-vault, cloud: public}",
        }
    }
}

/// An address of a service.
pub(super) fn address(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Option<Url> {
    let text = fields.str(key)?;
    parse_address(text)
        .map_err(|wrong| {
            complain_hint(fields, key, format!("`{key}` {wrong}"), "write `https://host:port`");
        })
        .ok()
}

/// One address, or a list of them.
fn addresses(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Vec<Url> {
    if fields.node_of(key).as_seq().is_none() {
        return address(fields, key).into_iter().collect();
    }
    fields.seq(key, |node, problems| {
        let parsed = node.as_str().ok_or("is no text").and_then(parse_address);
        parsed
            .map_err(|wrong| {
                let problem = Problem::error(format!("an address of `{key}` {wrong}")).at(node.location());
                problems.push(problem.hint("write `https://host:port`"));
            })
            .ok()
    })
}

/// Reads an address: HTTP or HTTPS, without credentials in it. The error says what is wrong with it.
fn parse_address(text: &str) -> Result<Url, &'static str> {
    match Url::parse(text) {
        Err(_) => Err("is no address"),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("is neither http:// nor https://"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("has credentials in it, which have settings of their own")
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => Err("has a query or fragment"),
        Ok(url) => Ok(url),
    }
}

/// A word that becomes a part of a host's name, so it may hold nothing that ends one.
fn host_word(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Option<String> {
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

fn region(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Option<String> {
    host_word(fields, key)
}

/// Tells whether a word can stand in a host's name.
pub(crate) fn is_host_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
