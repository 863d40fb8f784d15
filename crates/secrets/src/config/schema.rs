//! The JSON Schema of the `secrets` section, for editors.

use serde_json::{Map, Value, json};

use super::settings::{ProviderType, TYPES};

/// Go's notation of durations; zero is refused beside it.
const DURATION: &str = "^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9-]{0,62}$";
/// A part of a host's name.
const HOST_WORD: &str = "^[A-Za-z0-9-]{1,63}$";

/// The schema of the section. What it cannot say: addresses are looked at more closely, patterns must be valid globs, ids of
/// rules differ, and a repository may not do what only the user's own file may.
pub fn config_schema() -> Value {
    let flag = || json!({"type": "boolean"});
    let limits = object(vec![
        ("concurrency", whole(1, 256, "Calls at the same time, of all providers together")),
        ("timeout", duration("Time limit of one call")),
        ("phase", duration("Time limit of everything one release or step asks for")),
        ("maxBytes", whole(1, 16 * 1024 * 1024, "Size of one secret")),
        ("retries", whole(0, 10, "Attempts after the first")),
    ]);
    let mut audit = object(vec![
        ("file", text("File that audit lines are appended to")),
        ("webhook", address("Address that audit lines are sent to")),
        ("webhookToken", credential()),
        ("failClosed", flag()),
    ]);
    audit["anyOf"] = json!([{"required": ["file"]}, {"required": ["webhook"]}]);
    object(vec![
        (
            "defaultProvider",
            json!({"type": "string", "pattern": NAME, "description": "Provider of references that name none"}),
        ),
        (
            "interpolate",
            json!({"type": "boolean", "description": "References within longer texts are resolved as well"}),
        ),
        ("limits", limits),
        ("audit", audit),
        (
            "standins",
            json!({
                "type": "object",
                "propertyNames": {"pattern": "^secret://"},
                "additionalProperties": {"type": ["string", "number", "boolean"]},
                "description": "Values that stand for secrets where none is fetched, by patterns of references",
            }),
        ),
        (
            "trustedRepos",
            json!({"type": "array", "items": {"type": "string"}, "description": "Repositories whose files may do what only the user's own may"}),
        ),
        (
            "providers",
            json!({
                "type": "object", "propertyNames": {"pattern": NAME}, "additionalProperties": provider(),
                "description": "Backends by name",
            }),
        ),
        ("policy", policy()),
    ])
}

/// An entry of `providers`: its type says which keys it has.
fn provider() -> Value {
    let types: Vec<Value> = [
        ProviderType::File,
        ProviderType::Env,
        ProviderType::Exec,
        ProviderType::Vault,
        ProviderType::AwsSecretsManager,
        ProviderType::AwsParameters,
        ProviderType::GcpSecretManager,
        ProviderType::AzureKeyVault,
    ]
    .into_iter()
    .map(|kind| {
        let mut keys = keys_of(kind);
        keys.push(("type", json!({"enum": names(Some(kind))})));
        let mut settings = object(keys);
        let required: &[&str] = match kind {
            ProviderType::File => &["path"],
            _ => &[],
        };
        settings["required"] = required.into();
        if let Some(rules) = rules_of(kind) {
            settings["allOf"] = rules;
        }
        json!({"if": {"properties": {"type": {"enum": names(Some(kind))}}}, "then": settings})
    })
    .collect();
    json!({
        "type": "object", "required": ["type"],
        "properties": {"type": {"enum": names(None), "description": "Backend"}},
        "allOf": types,
    })
}

/// The names of one type, or of all.
fn names(kind: Option<ProviderType>) -> Vec<&'static str> {
    let wanted = TYPES.iter().filter(|(_, known)| kind.is_none_or(|kind| kind == *known));
    wanted.map(|(name, _)| *name).collect()
}

fn keys_of(kind: ProviderType) -> Vec<(&'static str, Value)> {
    let flag = || json!({"type": "boolean"});
    let plain = || json!({"type": "string"});
    let host_word = || json!({"type": "string", "pattern": HOST_WORD});
    let aws = || {
        vec![
            ("region", host_word()),
            ("profile", plain()),
            ("roleArn", plain()),
            ("externalId", plain()),
            ("sessionName", plain()),
            ("webIdentityTokenFile", plain()),
            ("endpoint", address("Address of the service instead of the region's")),
            ("stsEndpoint", address("Address of the token service")),
            ("prefix", text("Beginning of every path")),
            ("accessKeyId", credential()),
            ("secretAccessKey", credential()),
            ("sessionToken", credential()),
        ]
    };
    match kind {
        ProviderType::File => vec![
            ("path", text("The `.env`, JSON or YAML file")),
            ("format", json!({"enum": ["auto", "env", "json", "yaml"]})),
            ("keySeparator", json!({"type": "string", "minLength": 1})),
        ],
        ProviderType::Env => vec![("prefix", text("Beginning of the variables' names"))],
        ProviderType::Exec => vec![
            (
                "command",
                json!({
                    "type": "array", "minItems": 1, "items": {"type": "string"}, "description": "Program and arguments",
                }),
            ),
            ("env", json!({"type": "object", "additionalProperties": {"type": "string"}})),
            ("timeout", duration("Time limit of one call")),
            ("persistent", flag()),
        ],
        ProviderType::Vault => vec![
            (
                "address",
                json!({"anyOf": [address("Address of the server"), {"type": "array", "items": address("One of its addresses")}]}),
            ),
            ("namespace", plain()),
            ("mount", json!({"type": "string", "pattern": "[^/]"})),
            ("kvVersion", json!({"enum": [1, 2, "1", "2", "auto"]})),
            ("key", plain()),
            ("caCert", plain()),
            ("tlsSkipVerify", flag()),
            ("authMount", plain()),
            ("authMethod", json!({"enum": ["token", "approle", "kubernetes", "aws", "jwt"]})),
            ("token", credential()),
            ("roleId", credential()),
            ("secretId", credential()),
            ("secretIdWrapped", credential()),
            ("kubernetesRole", plain()),
            ("kubernetesToken", credential()),
            ("kubernetesTokenPath", plain()),
            ("awsRole", plain()),
            ("awsRegion", host_word()),
            ("awsHeaderValue", plain()),
            ("stsEndpoint", address("Address of the token service")),
            ("jwt", credential()),
            ("jwtRole", plain()),
        ],
        ProviderType::AwsSecretsManager => [aws(), vec![("batch", flag())]].concat(),
        ProviderType::AwsParameters => [aws(), vec![("withDecryption", flag())]].concat(),
        ProviderType::GcpSecretManager => vec![
            ("project", host_word()),
            ("location", host_word()),
            ("endpoint", address("Address of the service")),
            ("credentialsFile", plain()),
            ("impersonate", plain()),
            ("quotaProject", host_word()),
        ],
        ProviderType::AzureKeyVault => vec![
            ("vault", host_word()),
            ("vaultUrl", address("Address of the vault instead of its name")),
            ("tenantId", plain()),
            ("clientId", plain()),
            ("clientSecret", credential()),
            ("clientCertificate", plain()),
            ("federatedTokenFile", plain()),
            ("useManagedIdentity", flag()),
            ("cloud", json!({"enum": ["public", "usgov", "china"]})),
            ("apiVersion", plain()),
            ("endpoint", address("Address of the service")),
        ],
    }
}

/// Which keys go together.
fn rules_of(kind: ProviderType) -> Option<Value> {
    let not_both = |one: &str, other: &str| json!({"not": {"required": [one, other]}});
    let with_method = |method: &str, key: &str| {
        json!({
            "if": {"properties": {"authMethod": {"const": method}}, "required": ["authMethod"]},
            "then": {"required": [key]},
        })
    };
    match kind {
        ProviderType::Exec => Some(json!([{
            "required": ["command"],
            "properties": {"command": {"items": [{"minLength": 1}]}},
        }])),
        ProviderType::Vault => Some(json!([
            not_both("secretId", "secretIdWrapped"),
            with_method("approle", "roleId"),
            with_method("kubernetes", "kubernetesRole"),
            with_method("jwt", "jwt"),
        ])),
        ProviderType::AwsSecretsManager | ProviderType::AwsParameters => Some(json!([{
            "dependencies": {"accessKeyId": ["secretAccessKey"], "secretAccessKey": ["accessKeyId"]},
        }])),
        ProviderType::AzureKeyVault => Some(json!([
            {"anyOf": [{"required": ["vault"]}, {"required": ["vaultUrl"]}]},
            not_both("vault", "vaultUrl"),
            not_both("clientSecret", "clientCertificate"),
        ])),
        ProviderType::File | ProviderType::Env | ProviderType::GcpSecretManager => None,
    }
}

fn policy() -> Value {
    let flag = || json!({"type": "boolean"});
    let patterns = || json!({"type": "array", "items": {"type": "string"}, "description": "Patterns; `*` stands for anything"});
    let types = || json!({"type": "array", "items": {"enum": names(None)}});
    let references = || {
        let mut references =
            object(vec![("providers", patterns()), ("paths", patterns()), ("types", types())]);
        references["minProperties"] = 1.into();
        references
    };
    let when = object(vec![
        ("cluster", patterns()),
        ("namespace", patterns()),
        ("profile", patterns()),
        ("ci", flag()),
    ]);
    let mut rule = object(vec![
        ("id", text("Name of the rule in refusals")),
        ("when", when),
        ("allow", references()),
        ("deny", references()),
        ("require", object(vec![("version", flag())])),
    ]);
    rule["required"] = json!(["id"]);
    rule["anyOf"] = json!([{"required": ["allow"]}, {"required": ["deny"]}, {"required": ["require"]}]);
    object(vec![
        ("implicitProviders", flag()),
        ("forbidLiteralCredentials", flag()),
        ("allowChartDefaults", flag()),
        ("approvedProviders", json!({"type": "array", "items": {"type": "string", "pattern": NAME}})),
        ("approvedTypes", types()),
        ("rules", json!({"type": "array", "items": rule})),
    ])
}

fn object(properties: Vec<(&'static str, Value)>) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn whole(least: u64, most: u64, about: &str) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most, "description": about})
}

fn duration(about: &str) -> Value {
    json!({"type": "string", "pattern": DURATION, "not": {"pattern": "^[^1-9]*$"}, "description": about})
}

fn address(about: &str) -> Value {
    json!({"type": "string", "pattern": "^https?://[^/?#@]+[^?#@]*$", "description": about})
}

fn credential() -> Value {
    json!({
        "type": "string",
        "anyOf": [
            {"pattern": "^env:[A-Za-z0-9_]+$"},
            {"pattern": "^file:(/$|/?[^/]|//.)"},
            {"pattern": "^cmd:.+"},
            {"not": {"pattern": "^(env|file|cmd):|^$"}},
        ],
        "description": "Better `env:NAME`, `file:PATH` or `cmd:[program, argument]` than the credential itself",
    })
}
