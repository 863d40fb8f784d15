//! The resolver of a run: references in, values out. Policy first, then reads, then audit, then values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use slipway_event::{Clock, Redactor, SystemClock};
use slipway_http::NetworkOptions;
use slipway_problem::{Problem, Problems};
use tokio::time::Instant;

use crate::admit::{AdmissionContext, AdmittedReference, admit_references, implicit_type};
use crate::audit::{AuditError, AuditLine, AuditResult, AuditSink, CacheUse, NoAudit, RunIdentity};
use crate::config::{AuditFailure, ProviderConfig, ProviderSettings, ProviderType, SecretsConfig};
use crate::environment::Environment;
use crate::error::{SecretsError, UnresolvedCause};
use crate::fetch::{FetchCache, FetchKey, FetchOutcome};
use crate::material::{MaskingStrength, SecretJson, register};
use crate::place::ReferenceProblems;
use crate::policy::PolicyTarget;
use crate::provider::build::{BuildContext, build_provider};
use crate::provider::{
    ErrorCode, FetchedSecret, ListEntry, LoginInfo, LogoutOutcome, Provider, ProviderError,
};
use crate::reference::{FieldSelector, LeaseEnd, ProviderName, SecretReference};
use crate::resolved::{ResolvedSecret, ResolvedSecrets};
use crate::scan::{distinct, find_references};
use crate::select::select_value;
use crate::sentinel::SecretOrigin;
use crate::trust::{RepositoryTrust, trust_of};
use crate::webhook::AuditWebhook;

/// The surroundings of a resolver.
#[derive(Clone)]
pub struct ResolverOptions {
    pub environment: Environment,
    /// Learns every value before anybody else.
    pub redactor: Redactor,
    pub audit: Arc<dyn AuditSink>,
    pub identity: RunIdentity,
    pub network: NetworkOptions,
    /// The repository whose files are being worked with.
    pub repository: Option<PathBuf>,
    /// The user's word on it; the configuration may trust it as well.
    pub trust: RepositoryTrust,
    pub clock: Arc<dyn Clock>,
}

impl Default for ResolverOptions {
    fn default() -> Self {
        Self {
            environment: Environment::default(),
            redactor: Redactor::new(),
            audit: Arc::new(NoAudit),
            identity: RunIdentity::default(),
            network: NetworkOptions::default(),
            repository: None,
            trust: RepositoryTrust::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// The node values are resolved for: what policies are compared with and audit lines name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeContext {
    pub node: Option<String>,
    pub target: PolicyTarget,
}

/// Turns references into values. Cheap to clone; all clones share one run's reads, logins and cache.
#[derive(Clone)]
pub struct Resolver {
    run: Arc<RunState>,
    node: Arc<NodeContext>,
}

struct RunState {
    config: SecretsConfig,
    options: ResolverOptions,
    webhook: Option<AuditWebhook>,
    trust: RepositoryTrust,
    providers: Mutex<BTreeMap<ProviderName, BuiltProvider>>,
    cache: FetchCache,
    /// Leases that references want to outlive the run.
    kept_leases: Mutex<BTreeSet<String>>,
    /// References whose values the redactor knows, and how well it masks them.
    registered: Mutex<BTreeMap<SecretReference, MaskingStrength>>,
}

#[derive(Clone)]
struct BuiltProvider {
    provider: Arc<dyn Provider>,
    provider_type: ProviderType,
    default_key: Option<String>,
}

/// The time all backends together have for taking back what they lent.
const CLEANUP_LIMIT: Duration = Duration::from_secs(10);

impl Resolver {
    /// Prepares a run. No provider is touched before a reference needs it.
    pub fn new(config: SecretsConfig, options: ResolverOptions) -> Self {
        let listed = trust_of(options.repository.as_deref(), &config.trusted_repositories);
        let trust = if listed == RepositoryTrust::Trusted { listed } else { options.trust };
        let webhook = config.audit.as_ref().and_then(|audit| audit.webhook.clone());
        let run = RunState {
            cache: FetchCache::new(&config.limits),
            webhook: webhook.map(|settings| AuditWebhook::new(settings, build_context(&config, &options))),
            config,
            options,
            trust,
            providers: Mutex::default(),
            kept_leases: Mutex::default(),
            registered: Mutex::default(),
        };
        Self { run: Arc::new(run), node: Arc::default() }
    }

    /// The same run's resolver for another node.
    #[must_use]
    pub fn for_node(&self, node: NodeContext) -> Self {
        Self { run: Arc::clone(&self.run), node: Arc::new(node) }
    }

    /// Hands in a provider of one's own under a name, in place of a configured one.
    pub fn insert_provider(
        &self,
        name: ProviderName,
        provider_type: ProviderType,
        provider: Arc<dyn Provider>,
    ) {
        let built = BuiltProvider { provider, provider_type, default_key: None };
        self.run.providers.lock().unwrap_or_else(PoisonError::into_inner).insert(name, built);
    }

    pub fn config(&self) -> &SecretsConfig {
        &self.run.config
    }

    /// Checks references against trust and policy. Asks no backend.
    pub fn check(&self, references: &BTreeSet<SecretReference>) -> Result<(), SecretsError> {
        self.admit(references).map(|_| ())
    }

    /// Fetches what the references stand for: all of it, or an error that names everything that is missing.
    pub async fn resolve(
        &self,
        references: &BTreeSet<SecretReference>,
    ) -> Result<ResolvedSecrets, SecretsError> {
        let admitted = match self.admit(references) {
            Ok(admitted) => admitted,
            Err(error) => {
                // A refusal stands whether it is recorded or not.
                if let Err(lost) = self.deliver_audit().await {
                    tracing::warn!("{}", lost.with_cause());
                }
                return Err(error);
            }
        };
        let mut providers = BTreeMap::new();
        let mut failures: BTreeMap<ProviderName, ProviderError> = BTreeMap::new();
        let mut keys = BTreeSet::new();
        for reference in &admitted {
            match self.provider(&reference.provider) {
                Ok(built) => {
                    providers.insert(reference.provider.clone(), built);
                    keys.insert(fetch_key(reference));
                }
                Err(error) => drop(failures.insert(reference.provider.clone(), error)),
            }
        }
        let backends =
            providers.iter().map(|(name, built)| (name.clone(), Arc::clone(&built.provider))).collect();
        let deadline = Instant::now() + self.run.config.limits.phase;
        let stop = &self.run.options.network.stop;
        let fetched = stop.run_until_cancelled(self.run.cache.fetch(&keys, &backends, deadline)).await;
        let mut outcomes = fetched.filter(|_| !stop.is_cancelled()).ok_or(SecretsError::Interrupted)?;
        for reference in &admitted {
            if let Some(error) = failures.get(&reference.provider) {
                let outcome =
                    FetchOutcome { result: Err(error.clone()), cache: CacheUse::Miss, latency_ms: 0 };
                outcomes.insert(fetch_key(reference), outcome);
            }
        }
        let assembled = self.assemble(admitted, &outcomes, &providers);
        let delivered = self.deliver_audit().await;
        let mut resolved = assembled?;
        if let Err(error) = delivered {
            self.lose_audit(error, &mut resolved)?;
        }
        Ok(resolved)
    }

    /// Sends recorded lines to the webhook, if there is one.
    async fn deliver_audit(&self) -> Result<(), AuditError> {
        match &self.run.webhook {
            Some(webhook) => webhook.deliver().await,
            None => Ok(()),
        }
    }

    /// Decides what a lost audit line means: a warning, or no secrets.
    fn lose_audit(&self, error: AuditError, resolved: &mut ResolvedSecrets) -> Result<(), SecretsError> {
        match self.run.config.audit.as_ref().map(|audit| audit.on_failure) {
            Some(AuditFailure::Abort) => Err(SecretsError::Audit(error)),
            _ => {
                resolved.warn(Problem::warning(error.with_cause()));
                Ok(())
            }
        }
    }

    fn record_audit(&self, line: &AuditLine) -> Result<(), AuditError> {
        if let Some(webhook) = &self.run.webhook {
            webhook.record(line);
        }
        self.run.options.audit.record(line)
    }

    /// Resolves every reference of a values tree in place. Values without references cost a walk and nothing else.
    pub async fn resolve_values(&self, values: &mut Value) -> Result<ResolvedSecrets, SecretsError> {
        let found = find_references(values, self.run.config.interpolation).map_err(SecretsError::Invalid)?;
        let resolved = self.resolve(&distinct(&found)).await?;
        resolved.substitute(values);
        Ok(resolved)
    }

    /// Names what is below a path of a provider.
    pub async fn list(&self, name: &ProviderName, path: &str) -> Result<Vec<ListEntry>, SecretsError> {
        let reference = SecretReference::new(Some(name.clone()), if path.is_empty() { "/" } else { path });
        let (built, unresolved) = self.admitted_provider(&reference)?;
        let mut entries = built.provider.list(path).await.map_err(unresolved)?;
        entries.sort();
        Ok(entries)
    }

    /// Logs in to a provider and tells who we are.
    pub async fn login(&self, name: &ProviderName) -> Result<LoginInfo, SecretsError> {
        let reference = SecretReference::new(Some(name.clone()), "login");
        let (built, unresolved) = self.admitted_provider(&reference)?;
        built.provider.login().await.map_err(unresolved)
    }

    /// Gives the login back that the user keeps between runs.
    pub async fn logout(&self, name: &ProviderName) -> Result<LogoutOutcome, SecretsError> {
        let reference = SecretReference::new(Some(name.clone()), "logout");
        let (built, unresolved) = self.admitted_provider(&reference)?;
        built.provider.logout().await.map_err(unresolved)
    }

    /// Ends the run: gives back leases and tokens this run created, wipes values, makes the audit durable. It takes a
    /// bounded time, also after the user stopped the run. What could not be given back is reported; it expires by
    /// itself.
    pub async fn finish(&self) -> Problems {
        let leases = self.run.cache.close().await;
        let kept = std::mem::take(&mut *self.run.kept_leases.lock().unwrap_or_else(PoisonError::into_inner));
        let providers =
            std::mem::take(&mut *self.run.providers.lock().unwrap_or_else(PoisonError::into_inner));
        let finished = providers.into_iter().map(|(name, built)| {
            let own = leases.iter().filter(|(id, owner)| **owner == name && !kept.contains(*id));
            let own: Vec<String> = own.map(|(id, _)| id.clone()).collect();
            async move {
                let late = |_| ProviderError::new(ErrorCode::Timeout, "no answer in time");
                let finished = tokio::time::timeout(CLEANUP_LIMIT, built.provider.finish(&own)).await;
                (name, finished.map_err(late).flatten())
            }
        });
        let mut problems = Problems::new();
        for (name, finished) in futures::future::join_all(finished).await {
            if let Err(error) = finished {
                let problem =
                    Problem::warning(format!("provider `{name}` did not take everything back: {error}"));
                problems.push(
                    problem.hint("leases and tokens expire by themselves; revoke them by hand to be sure"),
                );
            }
        }
        let lost = [self.deliver_audit().await, self.run.options.audit.flush()];
        for error in lost.into_iter().filter_map(Result::err) {
            problems.push(Problem::warning(error.with_cause()));
        }
        problems
    }

    fn admitted_provider(
        &self,
        reference: &SecretReference,
    ) -> Result<(BuiltProvider, impl FnOnce(ProviderError) -> SecretsError + use<>), SecretsError> {
        let admitted = self.admit(&BTreeSet::from([reference.clone()]))?;
        let unresolved = |error: ProviderError, one: &AdmittedReference| {
            SecretsError::Unresolved(vec![one.unresolved(error.into())])
        };
        let Some(one) = admitted.into_iter().next() else {
            return Err(SecretsError::Invalid(ReferenceProblems::default()));
        };
        let built = self.provider(&one.provider).map_err(|error| unresolved(error, &one))?;
        Ok((built, move |error| unresolved(error, &one)))
    }

    fn admit(&self, references: &BTreeSet<SecretReference>) -> Result<Vec<AdmittedReference>, SecretsError> {
        let known = |name: &ProviderName| {
            let providers = self.run.providers.lock().unwrap_or_else(PoisonError::into_inner);
            providers.get(name).map(|built| built.provider_type)
        };
        let context = AdmissionContext {
            config: &self.run.config,
            repository: self.run.options.repository.as_deref(),
            trust: self.run.trust,
            target: &self.node.target,
            node: self.node.node.as_deref(),
            known: &known,
        };
        let admitted = admit_references(&context, references);
        if let Err(SecretsError::Refused(problems)) = &admitted {
            self.audit_refusal(references, &problems.problems());
        }
        admitted
    }

    /// The provider of a name, built when it is first needed.
    fn provider(&self, name: &ProviderName) -> Result<BuiltProvider, ProviderError> {
        let mut providers = self.run.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = providers.get(name) {
            return Ok(built.clone());
        }
        let implicit;
        let config = match self.run.config.providers.get(name) {
            Some(config) => config,
            None => {
                let unknown =
                    || ProviderError::new(ErrorCode::Config, format!("there is no provider `{name}`"));
                implicit = ProviderConfig::implicit(name.clone(), implicit_type(name).ok_or_else(unknown)?);
                &implicit
            }
        };
        let context = build_context(&self.run.config, &self.run.options);
        let default_key = match &config.settings {
            ProviderSettings::Vault(vault) => vault.key.clone(),
            _ => None,
        };
        let provider_type = config.settings.provider_type();
        let built = BuiltProvider { provider: build_provider(config, &context)?, provider_type, default_key };
        providers.insert(name.clone(), built.clone());
        Ok(built)
    }

    /// Selects values, registers them with the redactor, writes audit lines; only then are they given out.
    fn assemble(
        &self,
        admitted: Vec<AdmittedReference>,
        outcomes: &BTreeMap<FetchKey, FetchOutcome>,
        providers: &BTreeMap<ProviderName, BuiltProvider>,
    ) -> Result<ResolvedSecrets, SecretsError> {
        let mut resolved = ResolvedSecrets::empty(self.run.config.interpolation);
        let mut unresolved = Vec::new();
        let mut audited = Ok(());
        for reference in admitted {
            let Some(outcome) = outcomes.get(&fetch_key(&reference)) else { continue };
            let default_key =
                providers.get(&reference.provider).and_then(|built| built.default_key.as_deref());
            let selected = self.select(&reference, outcome, default_key);
            let line = self.audit_line(&reference, outcome, selected.as_ref().err());
            if let Err(error) = self.record_audit(&line) {
                audited = self.lose_audit(error, &mut resolved);
            }
            match selected {
                Ok(secret) => resolved.insert(&reference, secret),
                Err(cause) => unresolved.push(reference.unresolved(cause)),
            }
        }
        audited?;
        if unresolved.is_empty() { Ok(resolved) } else { Err(SecretsError::Unresolved(unresolved)) }
    }

    fn select(
        &self,
        reference: &AdmittedReference,
        outcome: &FetchOutcome,
        default_key: Option<&str>,
    ) -> Result<ResolvedSecret, UnresolvedCause> {
        let fetched = outcome.result.as_ref().map_err(Clone::clone)?;
        self.keep_lease(reference, fetched);
        let value = select_value(&fetched.content, &reference.bound, default_key)?;
        let strength = self.register(&reference.bound, &value);
        let provider_type = reference.provider_type;
        let origin =
            SecretOrigin { provider: reference.provider.to_string(), path: reference.bound.path_and_field() };
        Ok(ResolvedSecret { value, origin, provider_type, version: fetched.version.clone(), strength })
    }

    /// Makes a value known to the redactor, once a run: its forms take time to compute.
    fn register(&self, reference: &SecretReference, value: &SecretJson) -> MaskingStrength {
        let mut registered = self.run.registered.lock().unwrap_or_else(PoisonError::into_inner);
        match registered.get(reference) {
            Some(strength) => *strength,
            None => {
                let strength = register(value, &self.run.options.redactor);
                registered.insert(reference.clone(), strength);
                strength
            }
        }
    }

    fn keep_lease(&self, reference: &AdmittedReference, fetched: &FetchedSecret) {
        if let (Some(id), LeaseEnd::Keep) = (&fetched.lease, reference.bound.lease) {
            self.run.kept_leases.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        }
    }

    fn audit_line(
        &self,
        reference: &AdmittedReference,
        outcome: &FetchOutcome,
        failure: Option<&UnresolvedCause>,
    ) -> AuditLine {
        let mut line = self.blank_line(&reference.bound, reference.provider.as_str());
        line.provider_type = reference.provider_type.to_string();
        line.version = outcome.result.as_ref().ok().and_then(|fetched| fetched.version.clone());
        line.cache = outcome.cache;
        line.result = if failure.is_some() { AuditResult::Error } else { AuditResult::Ok };
        line.code = failure.map(UnresolvedCause::code);
        line.latency_ms = outcome.latency_ms;
        line
    }

    /// Records that references were refused. A refusal stands whether it is recorded or not.
    fn audit_refusal(&self, references: &BTreeSet<SecretReference>, problems: &Problems) {
        let first = problems.iter().next().map_or("", |problem| problem.message.as_str());
        for reference in references {
            let name = self.run.config.provider_of(reference);
            let mut line = self.blank_line(reference, name.as_ref().map_or("", ProviderName::as_str));
            line.result = AuditResult::Denied;
            line.policy = format!("deny: {first}");
            if let Err(error) = self.record_audit(&line) {
                tracing::warn!("{}", error.with_cause());
            }
        }
    }

    fn blank_line(&self, reference: &SecretReference, provider: &str) -> AuditLine {
        let identity = &self.run.options.identity;
        let key = match &reference.field {
            Some(FieldSelector::Key(key)) => Some(key.clone()),
            Some(FieldSelector::Pointer(segments)) => Some(format!("/{}", segments.join("/"))),
            None => None,
        };
        AuditLine {
            ts: self.run.options.clock.now(),
            event: "secret.resolve".to_owned(),
            run_id: identity.run_id.clone(),
            node_id: self.node.node.clone(),
            actor: identity.actor.clone(),
            host: identity.host.clone(),
            command: identity.command.clone(),
            reference: reference.to_string(),
            provider: provider.to_owned(),
            provider_type: String::new(),
            path: reference.locator.path.clone(),
            key,
            version: None,
            cache: CacheUse::Miss,
            result: AuditResult::Ok,
            code: None,
            latency_ms: 0,
            policy: "allow".to_owned(),
            purpose: identity.purpose,
        }
    }
}

fn build_context(config: &SecretsConfig, options: &ResolverOptions) -> BuildContext {
    BuildContext {
        environment: options.environment.clone(),
        redactor: options.redactor.clone(),
        limits: config.limits,
        network: options.network.clone(),
        clock: Arc::clone(&options.clock),
    }
}

fn fetch_key(reference: &AdmittedReference) -> FetchKey {
    FetchKey { provider: reference.provider.clone(), locator: reference.bound.locator.clone() }
}
