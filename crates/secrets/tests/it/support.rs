//! Resolvers for tests, made from configuration texts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use slipway_event::Redactor;
use slipway_secrets::{
    AuditError, AuditLine, AuditSink, ConfigLayer, ConfigOrigin, Environment, ResolveLimits, Resolver,
    ResolverOptions, SecretReference, SecretsConfig, SecretsError,
};

/// Keeps audit lines.
#[derive(Default)]
pub(crate) struct AuditMemory(pub(crate) Mutex<Vec<AuditLine>>);

impl AuditSink for AuditMemory {
    fn record(&self, line: &AuditLine) -> Result<(), AuditError> {
        self.0.lock().unwrap().push(line.clone());
        Ok(())
    }
}

/// A run under test.
pub(crate) struct TestRun {
    pub(crate) resolver: Resolver,
    pub(crate) audit: Arc<AuditMemory>,
    pub(crate) redactor: Redactor,
}

pub(crate) fn layer(text: &str, directory: &Path, origin: ConfigOrigin) -> ConfigLayer {
    ConfigLayer { path: directory.join("slipway.yaml"), text: text.to_owned(), origin }
}

pub(crate) fn config(text: &str) -> SecretsConfig {
    let mut config = SecretsConfig::load(&[layer(text, Path::new("/conf"), ConfigOrigin::User)]).unwrap();
    // Repetitions without waiting.
    config.limits = ResolveLimits { backoff: Duration::from_millis(1), ..config.limits };
    config
}

pub(crate) fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())), None)
}

pub(crate) fn run(text: &str, variables: &[(&str, &str)]) -> TestRun {
    run_with(config(text), variables)
}

pub(crate) fn run_with(config: SecretsConfig, variables: &[(&str, &str)]) -> TestRun {
    run_in(config, environment(variables))
}

/// A run of somebody with a home directory.
pub(crate) fn run_at_home(text: &str, variables: &[(&str, &str)], home: &Path) -> TestRun {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    run_in(config(text), Environment::new(variables, Some(home.to_owned())))
}

/// A program in a directory, for the PATH.
#[cfg(unix)]
pub(crate) fn write_program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn run_in(config: SecretsConfig, environment: Environment) -> TestRun {
    let audit = Arc::new(AuditMemory::default());
    let redactor = Redactor::new();
    let options = ResolverOptions {
        environment,
        redactor: redactor.clone(),
        audit: audit.clone(),
        ..ResolverOptions::default()
    };
    TestRun { resolver: Resolver::new(config, options), audit, redactor }
}

pub(crate) fn reference(text: &str) -> SecretReference {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn references(texts: &[&str]) -> BTreeSet<SecretReference> {
    texts.iter().map(|text| reference(text)).collect()
}

impl TestRun {
    /// The value of one reference.
    pub(crate) async fn value(&self, text: &str) -> Result<Value, SecretsError> {
        let resolved = self.resolver.resolve(&references(&[text])).await?;
        let mut value = Value::String(text.to_owned());
        resolved.substitute(&mut value);
        Ok(value)
    }

    /// The text of one reference's value.
    pub(crate) async fn text(&self, text: &str) -> String {
        let value = self.value(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        value.as_str().unwrap_or_else(|| panic!("{text} is {value}")).to_owned()
    }

    /// The message and hint of a reference that cannot be resolved.
    pub(crate) async fn failure(&self, text: &str) -> String {
        match self.value(text).await {
            Ok(_) => panic!("{text} has a value"),
            Err(error) => error.problems().to_string(),
        }
    }
}
