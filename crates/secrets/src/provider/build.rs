//! From configuration to providers, and from credential settings to credentials.

use std::path::Path;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use slipway_event::{Clock, Redactor};
use slipway_http::NetworkOptions;

use super::aws::parameters::ParameterStore;
use super::aws::secrets_manager::SecretsManager;
use super::azure::KeyVault;
use super::env::EnvProvider;
use super::exec::ExecProvider;
use super::file::FileProvider;
use super::gcp::SecretManager;
use super::program::{NotesUse, PluginCommand};
use super::vault::VaultProvider;
use super::{ErrorCode, Provider, ProviderError};
use crate::config::{Credential, CredentialSource, ProviderConfig, ProviderSettings, ResolveLimits};
use crate::environment::Environment;

/// Everything providers are built with.
#[derive(Clone)]
pub(crate) struct BuildContext {
    pub(crate) environment: Environment,
    pub(crate) redactor: Redactor,
    pub(crate) limits: ResolveLimits,
    pub(crate) network: NetworkOptions,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Makes a provider. Nothing is contacted yet.
pub(crate) fn build_provider(
    config: &ProviderConfig,
    context: &BuildContext,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let context = context.clone();
    Ok(match config.settings.clone() {
        ProviderSettings::File(settings) => Arc::new(FileProvider::new(settings)),
        ProviderSettings::Env(settings) => {
            Arc::new(EnvProvider { settings, environment: context.environment })
        }
        ProviderSettings::Exec(settings) => Arc::new(ExecProvider::new(settings, context)),
        ProviderSettings::Vault(settings) => Arc::new(VaultProvider::new(*settings, context)?),
        ProviderSettings::AwsSecretsManager(settings) => Arc::new(SecretsManager::new(*settings, context)?),
        ProviderSettings::AwsParameters(settings) => Arc::new(ParameterStore::new(*settings, context)?),
        ProviderSettings::GcpSecretManager(settings) => Arc::new(SecretManager::new(settings, context)?),
        ProviderSettings::AzureKeyVault(settings) => Arc::new(KeyVault::new(*settings, context)?),
    })
}

impl BuildContext {
    /// The value of a credential, known to the redactor before anybody has it.
    pub(crate) async fn credential(&self, credential: &Credential) -> Result<SecretString, ProviderError> {
        let value = match &credential.source {
            CredentialSource::Literal(value) => value.clone(),
            CredentialSource::Variable(name) => self.environment.secret(name).cloned().ok_or_else(|| {
                let reason = format!("the variable `{name}` of {} is not set", credential.place);
                ProviderError::new(ErrorCode::Config, reason).hint("export it first")
            })?,
            CredentialSource::File(path) => self.secret_file(path)?,
            CredentialSource::Command(words) => self.command_output(words).await?,
        };
        self.redactor.register(value.expose_secret());
        Ok(value)
    }

    /// The text a program prints, without its final line break.
    pub(crate) async fn command_output(&self, words: &[String]) -> Result<SecretString, ProviderError> {
        let command = PluginCommand { words, variables: &[], context: self, limit: self.limits.timeout };
        let learn = |output: &[u8]| {
            self.redactor.register(output.trim_ascii_end());
            NotesUse::Log
        };
        let output = command.run(Vec::new(), learn).await?;
        let text = std::str::from_utf8(output.expose_secret())
            .map_err(|_| ProviderError::new(ErrorCode::Invalid, "the program's output is not text"))?;
        Ok(text.trim_end().to_owned().into())
    }

    /// The content of a file with a credential, without its final line break.
    pub(crate) fn secret_file(&self, path: &Path) -> Result<SecretString, ProviderError> {
        let text = slipway_problem::read_text_file(path).map_err(|error| {
            let reason = format!("cannot read {}: {error}", path.display());
            ProviderError::new(ErrorCode::Config, reason).hint(slipway_problem::read_hint(&error))
        })?;
        let value = SecretString::from(text.trim_end().to_owned());
        self.redactor.register(value.expose_secret());
        Ok(value)
    }

    /// Makes a value known to the redactor.
    pub(crate) fn hide(&self, text: &str) -> SecretString {
        self.redactor.register(text);
        text.to_owned().into()
    }
}
