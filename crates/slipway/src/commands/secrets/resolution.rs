//! References to secrets in the values of a source: fetched for a run, or shown as what they stand for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use serde_json::{Map, Value};
use slipway_event::Redactor;
use slipway_problem::{Problem, Problems};
use slipway_secrets::{
    Automation, Interpolation, NodeContext, PolicyTarget, ProviderType, Purpose, ResolvedSecrets, Resolver,
    SecretReference, SecretsConfig, SecretsError, Sentinels, find_references, mentions_secret,
};
use slipway_source::{ResolveError, ResolvedValues, SecretResolver};
use tokio::runtime::Runtime;

use super::flags::ReferenceFlags;
use crate::config;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::report;

/// The treatment of references while a source is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceMode {
    /// Every reference becomes the value its backend holds; audit lines name the purpose.
    Fetch(Purpose),
    /// Every reference becomes a text that names it. No backend is asked.
    Show,
}

/// Resolves the references of values, for every source a command loads: what was read once is read no more. Where
/// there are no references, not even the configuration is read.
#[derive(Clone)]
pub struct ReferenceResolver {
    flags: ReferenceFlags,
    mode: ReferenceMode,
    command: &'static str,
    /// The directory whose repository's configuration counts.
    start: PathBuf,
    /// The user's own settings file.
    settings: Option<PathBuf>,
    /// The treatment of `${secret://…}`, where it is not the configuration's to say.
    interpolation: Option<Interpolation>,
    redactor: Redactor,
    summary: Summary,
    run: Arc<Mutex<Option<Arc<SecretRun>>>>,
}

/// The configuration of a command and, if it fetches, its resolver with the runtime that does the work.
struct SecretRun {
    config: SecretsConfig,
    fetching: Option<Fetching>,
}

struct Fetching {
    resolver: Resolver,
    runtime: Option<Runtime>,
    /// Everything that was resolved, for the summary at the end.
    resolved: Mutex<BTreeMap<SecretReference, ProviderType>>,
    summary: Summary,
}

/// The line at the end of a run that fetched secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Summary {
    Said,
    LeftOut,
}

impl Drop for Fetching {
    /// Gives back what the run was lent, whatever ended it.
    fn drop(&mut self) {
        match self.wait(self.resolver.finish()) {
            Ok(problems) => problems.iter().for_each(report::show),
            Err(error) => report::show(&Problem::warning(format!("{error:#}"))),
        }
        let resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        if self.summary == Summary::Said && !resolved.is_empty() {
            say!("secrets: {}", ResolvedSecrets::count_by_type(resolved.values().copied()));
        }
        drop(resolved);
        // A runtime may not be waited for inside of another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Fetching {
    /// Waits for work on the run's own runtime: whoever loads a source may be inside of another.
    fn wait<T: Send>(&self, work: impl Future<Output = T> + Send) -> anyhow::Result<T> {
        let runtime = self.runtime.as_ref().context("fetching secrets has ended")?;
        let waited = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join());
        waited.map_err(|_| anyhow::anyhow!("fetching secrets broke off"))
    }
}

impl std::fmt::Debug for ReferenceResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReferenceResolver").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl ReferenceResolver {
    pub fn new(
        flags: &ReferenceFlags,
        mode: ReferenceMode,
        command: &'static str,
        session: &Session,
    ) -> Self {
        Self {
            flags: flags.clone(),
            mode,
            command,
            start: PathBuf::from("."),
            settings: session.settings.file.clone(),
            interpolation: None,
            redactor: session.redactor().clone(),
            summary: if session.is_quiet() { Summary::LeftOut } else { Summary::Said },
            run: Arc::default(),
        }
    }

    /// The same for files of another repository than that of the working directory.
    #[must_use]
    pub fn at(self, start: PathBuf) -> Self {
        Self { start, ..self }
    }

    /// The same for files where `${secret://…}` inside of longer texts is always a reference.
    #[must_use]
    pub fn with_interpolation(self) -> Self {
        Self { interpolation: Some(Interpolation::On), ..self }
    }

    /// Returns true if values that were loaded hold references.
    pub fn has_references(&self) -> bool {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Ends the run: what it was lent is given back.
    pub fn finish(&self) {
        drop(self.run.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The run of the command, begun when the first reference is met.
    fn run(&self) -> anyhow::Result<Arc<SecretRun>> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = &*run {
            return Ok(Arc::clone(run));
        }
        let mut config = self.flags.config_beside(&self.start, self.settings.clone())?;
        if let Some(interpolation) = self.interpolation {
            config.interpolation = interpolation;
        }
        let fetching = match self.mode {
            ReferenceMode::Show => None,
            ReferenceMode::Fetch(purpose) => {
                // From here on there is something to give back, so a signal must not end the process at once.
                Interrupt::listen()?;
                crate::memory::keep_out_of_dumps();
                let redactor = self.redactor.clone();
                let resolver =
                    self.flags.resolver_of(config.clone(), &self.start, purpose, self.command, redactor);
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                let runtime = Some(runtime.worker_threads(1).enable_all().build()?);
                Some(Fetching { resolver, runtime, resolved: Mutex::default(), summary: self.summary })
            }
        };
        Ok(Arc::clone(run.insert(Arc::new(SecretRun { config, fetching }))))
    }

    fn resolve_all(&self, tree: &Value, node: &NodeContext) -> anyhow::Result<ResolvedValues> {
        let run = self.run()?;
        // A wrong reference is a mistake whether it is fetched or not.
        find_references(tree, run.config.interpolation).map_err(SecretsError::Invalid)?;
        let sentinels = Sentinels::new(&run.config);
        let substituted = |sentinels: &Sentinels| {
            let mut tree = tree.clone();
            sentinels.substitute(&mut tree);
            tree
        };
        let (masked, varied) = (substituted(&sentinels), substituted(&sentinels.varied()));
        let mut used = masked.clone();
        if let Some(fetching) = &run.fetching {
            used = tree.clone();
            let resolver = fetching.resolver.for_node(node.clone());
            let resolved = fetching.wait(resolver.resolve_values(&mut used))??;
            resolved.warnings().iter().for_each(report::show);
            let types = resolved.iter().map(|(reference, secret)| (reference.clone(), secret.provider_type));
            fetching.resolved.lock().unwrap_or_else(PoisonError::into_inner).extend(types);
        }
        let map = |tree: Value| match tree {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        Ok(ResolvedValues { used: map(used), masked: map(masked), varied: map(varied) })
    }
}

impl SecretResolver for ReferenceResolver {
    fn resolve(
        &self,
        values: &Map<String, Value>,
        node: &NodeContext,
    ) -> Result<Option<ResolvedValues>, ResolveError> {
        if !mentions_secret(values) {
            return Ok(None);
        }
        let tree = Value::Object(values.clone());
        if find_references(&tree, Interpolation::On).is_ok_and(|found| found.is_empty()) {
            return Ok(None);
        }
        let automation = if config::is_ci() { Automation::Ci } else { Automation::Interactive };
        let node = NodeContext {
            target: PolicyTarget { automation, ..node.target.clone() },
            node: node.node.clone(),
        };
        let resolved = self.resolve_all(&tree, &node);
        resolved.map(Some).map_err(|error| match error.downcast::<SecretsError>() {
            Ok(error) => ResolveError::Secrets(error),
            Err(error) => Problems::from(Problem::error(format!("{error:#}"))).into(),
        })
    }
}

/// The failure of a resolver as the user is told, with its exit code.
pub fn failure(error: ResolveError) -> anyhow::Error {
    match error {
        ResolveError::Secrets(error) => error.into(),
        ResolveError::Problems(problems) => problems.into(),
    }
}
