//! The `secrets` section of `slipway.yaml`: providers, limits, audit, stand-ins and policy.
//!
//! Files are layers, lowest first: the user's own, the repository's `slipway.yaml`, its `secrets.yaml`. A file
//! named on the command line replaces them all. A provider defined again is replaced as a whole, never
//! merged: mixing the credentials of two files is a trap. Policies of all layers hold together.

mod credential;
mod layer;
mod provider;
mod schema;
mod settings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{FieldReader, YamlNode};
use url::Url;

pub(crate) use credential::{Credential, CredentialSource};
pub use layer::{ConfigLayer, ConfigOrigin, ConfigPlaces, find_layers, repository_root};
pub(crate) use provider::{is_host_word, problem_of_type};
pub use schema::config_schema;
pub use settings::ProviderType;
pub(crate) use settings::{
    AwsSettings, AzureSettings, EnvSettings, ExecLifetime, ExecSettings, FileFormat, FileSettings,
    GcpSettings, KvVersion, ProviderConfig, ProviderSettings, VaultAuth, VaultSettings,
};

use crate::policy::Policy;
use crate::reference::{ProviderName, SecretReference};
use crate::scan::Interpolation;
use crate::sentinel::StandIn;
use crate::trust::is_inside;

/// Everything the configuration files say about secrets.
#[derive(Clone, Debug, Default)]
pub struct SecretsConfig {
    pub default_provider: Option<ProviderName>,
    pub interpolation: Interpolation,
    pub limits: ResolveLimits,
    pub audit: Option<AuditSettings>,
    pub(crate) stand_ins: Vec<StandIn>,
    pub(crate) providers: BTreeMap<ProviderName, ProviderConfig>,
    pub(crate) policies: Vec<Policy>,
    /// Repositories whose files may do what only the user's own may.
    pub trusted_repositories: Vec<PathBuf>,
    /// Findings that do not stop the work: literal credentials.
    pub warnings: Problems,
}

/// Bounds of fetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveLimits {
    /// Calls at the same time, of all providers together.
    pub concurrency: usize,
    /// Of one call.
    pub timeout: Duration,
    /// Of everything one node asks for.
    pub phase: Duration,
    /// Size of one secret.
    pub max_bytes: usize,
    /// Attempts after the first, of a call that may be repeated.
    pub retries: u32,
    /// The pause before the first repetition; it doubles with each.
    pub backoff: Duration,
}

impl Default for ResolveLimits {
    fn default() -> Self {
        Self {
            concurrency: 8,
            timeout: Duration::from_secs(10),
            phase: Duration::from_secs(60),
            max_bytes: 65536,
            retries: 3,
            backoff: Duration::from_millis(200),
        }
    }
}

/// The places audit lines go to: a file, a webhook, or both.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    pub file: Option<PathBuf>,
    pub(crate) webhook: Option<WebhookSettings>,
    pub on_failure: AuditFailure,
}

/// An address audit lines are sent to.
#[derive(Clone, Debug)]
pub(crate) struct WebhookSettings {
    pub(crate) url: Url,
    pub(crate) token: Option<Credential>,
}

/// The consequence of an audit line that cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditFailure {
    /// A warning.
    #[default]
    Continue,
    /// No secret is used.
    Abort,
}

impl SecretsConfig {
    /// Reads the layers, lowest first; reports every problem of every file.
    pub fn load(layers: &[ConfigLayer]) -> Result<Self, Problems> {
        let mut config = Self::default();
        let mut problems = Problems::new();
        for layer in layers {
            config.read_layer(layer, &mut problems);
        }
        // A line of the file may hold a credential, so none is quoted.
        let mut problems: Problems = problems.into_iter().map(without_excerpt).collect();
        problems.sort_by_location();
        config.warnings = problems
            .iter()
            .filter(|problem| problem.severity != slipway_problem::ProblemSeverity::Error)
            .cloned()
            .collect();
        problems.into_result(config)
    }

    fn read_layer(&mut self, layer: &ConfigLayer, problems: &mut Problems) {
        let name = layer.path.display().to_string();
        let Some(root) = slipway_yaml::YamlReader::new().gather_one(&layer.text, &name, problems) else {
            return;
        };
        let section = match root.get("secrets") {
            Some(section) => section,
            None if is_section(&root) => &root,
            None => return,
        };
        let mut fields = FieldReader::new(section, problems);
        self.read_section(layer, &mut fields);
        fields.finish();
    }

    fn read_section(&mut self, layer: &ConfigLayer, fields: &mut FieldReader<'_, '_>) {
        if let Some(name) = fields.str("defaultProvider") {
            let parsed = ProviderName::parse(name);
            if parsed.is_none() {
                complain_hint(
                    fields,
                    "defaultProvider",
                    "`defaultProvider` is no provider's name",
                    NAME_HINT,
                );
            }
            self.default_provider = parsed.or(self.default_provider.take());
        }
        if let Some(interpolate) = fields.bool("interpolate") {
            self.interpolation = if interpolate { Interpolation::On } else { Interpolation::Off };
        }
        with_example(fields, LIMITS_EXAMPLE, |fields| {
            fields.fields("limits", |limits| self.read_limits(limits));
        });
        let audit = with_example(fields, AUDIT_EXAMPLE, |fields| {
            fields.fields("audit", |audit| read_audit_settings(layer, audit)).flatten()
        });
        // An audit that must not fail cannot be softened by a file of another layer.
        let is_strict = self.audit.as_ref().is_some_and(|audit| audit.on_failure == AuditFailure::Abort);
        if !(is_strict && layer.origin == ConfigOrigin::Repository) {
            self.audit = audit.or(self.audit.take());
        }
        let stand_ins =
            with_example(fields, STAND_IN_EXAMPLE, |fields| fields.entries("standins", read_stand_in));
        self.stand_ins.extend(stand_ins);
        self.trust(layer, fields);
        let providers = with_example(fields, PROVIDERS_EXAMPLE, |fields| {
            fields.entries("providers", |name, node, problems| provider::read(name, node, layer, problems))
        });
        for provider in providers {
            self.providers.insert(provider.name.clone(), provider);
        }
        let policy = with_example(fields, POLICY_EXAMPLE, |fields| fields.fields("policy", Policy::read));
        self.policies.extend(policy);
    }

    fn read_limits(&mut self, fields: &mut FieldReader<'_, '_>) {
        let limits = &mut self.limits;
        if let Some(concurrency) = whole(fields, "concurrency", 1..=256) {
            limits.concurrency = concurrency as usize;
        }
        if let Some(bytes) = whole(fields, "maxBytes", 1..=16 * 1024 * 1024) {
            limits.max_bytes = bytes as usize;
        }
        if let Some(retries) = whole(fields, "retries", 0..=10) {
            limits.retries = retries as u32;
        }
        limits.timeout = duration(fields, "timeout").unwrap_or(limits.timeout);
        limits.phase = duration(fields, "phase").unwrap_or(limits.phase);
    }

    fn trust(&mut self, layer: &ConfigLayer, fields: &mut FieldReader<'_, '_>) {
        let trusted = with_example(fields, TRUST_EXAMPLE, |fields| fields.strings("trustedRepos"));
        if !trusted.is_empty() && layer.origin == ConfigOrigin::Repository {
            let at = fields.node_of("trustedRepos").location();
            let problem = Problem::error("a repository cannot say that it is trusted").at(at);
            fields.problems().push(problem.hint("`trustedRepos` belongs into the user's own configuration"));
            return;
        }
        self.trusted_repositories.extend(trusted.into_iter().map(|path| layer.directory().join(path)));
    }
}

/// The audit settings. A repository's audit stays a file of its own: lines are appended, and whoever writes the file could
/// choose one of the user's. A webhook is the user's to name, since lines say which secrets there are.
fn read_audit_settings(layer: &ConfigLayer, fields: &mut FieldReader<'_, '_>) -> Option<AuditSettings> {
    let file = fields.string("file").map(|path| layer.directory().join(path));
    let webhook = provider::address(fields, "webhook");
    let token = credential::read(fields, "webhookToken", layer);
    let on_failure = match fields.bool("failClosed") {
        Some(true) => AuditFailure::Abort,
        _ => AuditFailure::Continue,
    };
    if !fields.has_key("file") && !fields.has_key("webhook") {
        let at = fields.node().location();
        let problem = Problem::error("`audit` names no place for its lines").at(at);
        fields.problems().push(problem.hint("write `file: .slipway/secrets-audit.jsonl`, or `webhook:`"));
        return None;
    }
    let is_own = |file: &PathBuf| {
        is_inside(file, layer.directory()) && file.extension().is_some_and(|end| end == "jsonl")
    };
    if layer.origin == ConfigOrigin::Repository {
        if !file.as_ref().is_none_or(is_own) {
            let message = "the audit file of a repository is a `.jsonl` file inside of it";
            complain_hint(fields, "file", message, "write `file: .slipway/secrets-audit.jsonl`");
            return None;
        }
        if webhook.is_some() {
            let message = "a repository cannot say where audit lines are sent";
            complain_hint(fields, "webhook", message, "`webhook` belongs into the user's own configuration");
            return None;
        }
    }
    Some(AuditSettings { file, webhook: webhook.map(|url| WebhookSettings { url, token }), on_failure })
}

const NAME_HINT: &str = "lower-case letters, digits and dashes, at most 63";

/// Tells a file of providers from values files that carry the same name (helm-secrets, SOPS).
fn is_section(root: &YamlNode) -> bool {
    ["providers", "defaultProvider"].iter().any(|key| root.get(key).is_some())
}

fn read_stand_in(pattern: &YamlNode, value: &YamlNode, problems: &mut Problems) -> Option<StandIn> {
    let text = pattern.key_text();
    let matcher = globset::GlobBuilder::new(&text).literal_separator(false).build();
    let Some(value) = value.scalar_text() else {
        problems.push(Problem::error("a stand-in must be a string").at(value.location()));
        return None;
    };
    match matcher {
        Ok(glob) if text.starts_with(crate::reference::SCHEME) => {
            Some(StandIn { pattern: glob.compile_matcher(), value: value.into_owned() })
        }
        _ => {
            let problem =
                Problem::error(format!("`{text}` is no pattern of references")).at(pattern.location());
            problems.push(problem.hint("write `secret://provider/path*#key`"));
            None
        }
    }
}

const LIMITS_EXAMPLE: &str =
    "for example `limits: {concurrency: 8, timeout: 10s, phase: 60s, maxBytes: 65536, retries: 3}`";
const AUDIT_EXAMPLE: &str = "for example `audit: {file: .slipway/secrets-audit.jsonl, failClosed: true}`";
const STAND_IN_EXAMPLE: &str = "for example `standins: {'secret://vault/app/*#config': '{}'}`";
const PROVIDERS_EXAMPLE: &str =
    "for example `providers: {vault: {type: vault, address: 'https://vault:8200'}}`";
const POLICY_EXAMPLE: &str =
    "for example `policy: {rules: [{id: no-files-in-ci, when: {ci: true}, deny: {types: [file]}}]}`";
const TRUST_EXAMPLE: &str = "for example `trustedRepos: [/home/me/src/platform]`";

/// Reads something; problems that come without a hint show how it is written.
fn with_example<'n, T>(
    fields: &mut FieldReader<'n, '_>,
    example: &str,
    read: impl FnOnce(&mut FieldReader<'n, '_>) -> T,
) -> T {
    let before = std::mem::take(fields.problems());
    let value = read(fields);
    let own = std::mem::replace(fields.problems(), before);
    fields.problems().extend(own.into_iter().map(|problem| hinted(problem, example)));
    value
}

/// The problem with a hint: its own, or this one.
fn hinted(problem: Problem, hint: &str) -> Problem {
    if problem.hint.is_some() { problem } else { problem.hint(hint) }
}

/// A problem at a key's value, with what to do.
fn complain_hint(
    fields: &mut FieldReader<'_, '_>,
    key: &str,
    message: impl Into<String>,
    hint: impl Into<String>,
) {
    let at = fields.node_of(key).location();
    fields.problems().push(Problem::error(message).at(at).hint(hint));
}

fn whole(
    fields: &mut FieldReader<'_, '_>,
    key: &'static str,
    range: std::ops::RangeInclusive<u64>,
) -> Option<u64> {
    let number = fields.u64(key)?;
    if range.contains(&number) {
        return Some(number);
    }
    let (low, high) = (range.start(), range.end());
    complain_hint(
        fields,
        key,
        format!("`{key}` must be from {low} to {high}"),
        "leave it out for the default",
    );
    None
}

/// A positive duration in Go's grammar.
fn duration(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Option<Duration> {
    let text = fields.text(key)?;
    let parsed = slipway_go::time::Duration::parse_unsigned(&text).filter(|duration| !duration.is_zero());
    if parsed.is_none() {
        complain_hint(
            fields,
            key,
            format!("`{key}` is no duration"),
            "write a number with its unit: `10s`, `500ms`, `1m30s`",
        );
    }
    parsed
}

fn without_excerpt(mut problem: Problem) -> Problem {
    problem.excerpt = None;
    problem
}

/// The place a setting without a place of its own is reported at.
pub(crate) fn implicit_place() -> Location {
    Location::file("built-in defaults")
}

impl SecretsConfig {
    /// The configured providers with their types.
    pub fn providers(&self) -> impl Iterator<Item = (&ProviderName, ProviderType)> {
        self.providers.iter().map(|(name, provider)| (name, provider.settings.provider_type()))
    }

    /// Tells whether defaults of charts may hold references.
    pub fn allows_chart_defaults(&self) -> bool {
        self.policies.iter().any(|policy| policy.allow_chart_defaults)
    }

    /// The provider a reference means: its own, or the default.
    pub fn provider_of(&self, reference: &SecretReference) -> Option<ProviderName> {
        reference.provider.clone().or_else(|| self.default_provider.clone())
    }
}
