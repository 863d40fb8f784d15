//! References to secrets in the values of a source: fetched for a run, or shown as what they stand for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use slipway_event::Redactor;
use slipway_problem::{Problem, Problems};
use slipway_secrets::{Interpolation, Purpose, Resolver, SecretsError, Sentinels, find_references};
use slipway_source::{ResolveError, SecretResolver};

use super::flags::ReferenceFlags;
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

/// Resolves the references of values. Where there are none, not even the configuration is read.
#[derive(Clone)]
pub struct ReferenceResolver {
    flags: ReferenceFlags,
    mode: ReferenceMode,
    command: &'static str,
    /// The user's own settings file.
    settings: Option<PathBuf>,
    redactor: Redactor,
    has_references: Arc<AtomicBool>,
    run: Arc<Mutex<Option<Resolver>>>,
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
            settings: session.settings.file.clone(),
            redactor: session.redactor().clone(),
            has_references: Arc::default(),
            run: Arc::default(),
        }
    }

    /// Returns true if values that were loaded hold references.
    pub fn has_references(&self) -> bool {
        self.has_references.load(Ordering::Relaxed)
    }

    /// Ends the run: what it was lent is given back.
    pub async fn finish(&self) {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(resolver) = run {
            resolver.finish().await.iter().for_each(report::show);
        }
    }

    /// Fetches on a thread of its own: whoever loads a source may be inside of a runtime.
    fn fetch(&self, resolver: &Resolver, values: &mut Value) -> anyhow::Result<()> {
        let fetch = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(resolver.resolve_values(values))?)
        };
        let resolved = std::thread::scope(|scope| scope.spawn(fetch).join());
        let resolved = resolved.unwrap_or_else(|_| Err(anyhow::anyhow!("fetching secrets broke off")))?;
        resolved.warnings().iter().for_each(report::show);
        Ok(())
    }

    fn resolve_all(&self, values: &mut Value) -> anyhow::Result<()> {
        self.has_references.store(true, Ordering::Relaxed);
        let start = Path::new(".");
        let config = self.flags.config_beside(start, self.settings.clone())?;
        let ReferenceMode::Fetch(purpose) = self.mode else {
            // A wrong reference is a mistake whether it is fetched or not.
            find_references(values, config.interpolation).map_err(SecretsError::Invalid)?;
            Sentinels::new(&config).substitute(values);
            return Ok(());
        };
        let resolver = self.flags.resolver_of(config, start, purpose, self.command, self.redactor.clone());
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(resolver.clone());
        self.fetch(&resolver, values)
    }
}

impl SecretResolver for ReferenceResolver {
    fn resolve(&self, values: &mut Map<String, Value>) -> Result<(), ResolveError> {
        let mut tree = Value::Object(std::mem::take(values));
        let is_plain = find_references(&tree, Interpolation::On).is_ok_and(|found| found.is_empty());
        let resolved = if is_plain { Ok(()) } else { self.resolve_all(&mut tree) };
        if let Value::Object(tree) = tree {
            *values = tree;
        }
        resolved.map_err(|error| match error.downcast::<SecretsError>() {
            Ok(error) => ResolveError { problems: error.problems(), cause: Some(Box::new(error)) },
            Err(error) => Problems::from(Problem::error(format!("{error:#}"))).into(),
        })
    }
}

/// The failure of a resolver as the user is told, with its exit code.
pub fn failure(error: ResolveError) -> anyhow::Error {
    let ResolveError { problems, cause } = error;
    let Some(cause) = cause else { return problems.into() };
    match cause.downcast::<SecretsError>() {
        Ok(error) => anyhow::Error::from(*error),
        Err(_) => problems.into(),
    }
}
