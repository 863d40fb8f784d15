//! Flags of everything that uses secrets, and the resolver they make.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipway_event::{Redactor, RunId, SystemClock};
use slipway_problem::Problem;
use slipway_secrets::{
    AuditFile, AuditSink, ConfigPlaces, Environment, NoAudit, ProviderName, Purpose, RepositoryTrust,
    Resolver, ResolverOptions, RunIdentity, SecretsConfig, SecretsError, find_layers, repository_root,
};

use super::resolution::ReferenceMode;
use crate::config;
use crate::exit::UsageError;
use crate::helm;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::report;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Secrets")]
pub struct ReferenceFlags {
    /// Secrets configuration to use instead of the user's and the repository's
    #[arg(long, value_name = "FILE", env = "SLIPWAY_SECRET_CONFIG")]
    pub secret_config: Option<PathBuf>,

    /// Provider of references that name none (`secret:///path`)
    #[arg(long, value_name = "NAME", env = "SLIPWAY_SECRET_PROVIDER")]
    pub secret_provider: Option<String>,

    /// Let the repository's configuration run programs and receive your credentials
    #[arg(long)]
    pub trust_repo: bool,
}

/// The way references are shown where a source is only rendered.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Secrets")]
pub struct RevealFlag {
    /// Fetch the secrets that values refer to and show them; only on a terminal
    #[arg(long, conflicts_with = "output_dir")]
    reveal: bool,
}

impl RevealFlag {
    pub fn mode(self) -> anyhow::Result<ReferenceMode> {
        if !self.reveal {
            return Ok(ReferenceMode::Show);
        }
        if !std::io::stdout().is_terminal() {
            let problem = Problem::error("--reveal shows secrets, and standard output is no terminal");
            return Err(
                UsageError(problem.hint("leave it out: secrets are named in their place").into()).into()
            );
        }
        Ok(ReferenceMode::Fetch(Purpose::Reveal))
    }

    /// Prints what was rendered.
    pub fn print(self, text: &str) -> anyhow::Result<()> {
        if self.reveal {
            crate::term::output::print_revealed(text);
            return Ok(());
        }
        crate::term::show::print(text)
    }
}

impl ReferenceFlags {
    /// The configuration in force for files at `start`.
    pub fn config(&self, start: &Path, session: &Session) -> anyhow::Result<SecretsConfig> {
        self.config_beside(start, session.settings.file.clone())
    }

    /// The configuration in force for files at `start`, the user's own being at `user`.
    pub fn config_beside(&self, start: &Path, user: Option<PathBuf>) -> anyhow::Result<SecretsConfig> {
        let places = ConfigPlaces { user, start: start.to_owned(), only: self.secret_config.clone() };
        let layers = find_layers(&places).map_err(|problems| SecretsError::Invalid(problems.into()))?;
        let mut config =
            SecretsConfig::load(&layers).map_err(|problems| SecretsError::Invalid(problems.into()))?;
        config.warnings.iter().for_each(report::show);
        if let Some(name) = &self.secret_provider {
            config.default_provider = Some(provider_name(name)?);
        }
        Ok(config)
    }

    /// The resolver of a run.
    pub fn resolver(&self, start: &Path, purpose: Purpose, session: &Session) -> anyhow::Result<Resolver> {
        let config = self.config(start, session)?;
        Ok(self.resolver_of(config, start, purpose, "secrets", session.redactor().clone()))
    }

    /// The resolver of a run of `command`, with a configuration that is known.
    pub fn resolver_of(
        &self,
        config: SecretsConfig,
        start: &Path,
        purpose: Purpose,
        command: &str,
        redactor: Redactor,
    ) -> Resolver {
        let file = config.audit.as_ref().and_then(|audit| audit.file.clone());
        let audit: Arc<dyn AuditSink> = match file {
            Some(file) => Arc::new(AuditFile::new(file)),
            None => Arc::new(NoAudit),
        };
        let identity = RunIdentity {
            run_id: RunId::generate(&SystemClock).to_string(),
            actor: config::user_name(),
            host: config::machine_name(),
            command: command.to_owned(),
            purpose,
        };
        let options = ResolverOptions {
            environment: Environment::new(config::environment(), config::user_home()),
            redactor,
            audit,
            identity,
            network: helm::network(),
            repository: repository_root(start),
            trust: if self.trust_repo { RepositoryTrust::Trusted } else { RepositoryTrust::Untrusted },
            clock: Arc::new(SystemClock),
        };
        Resolver::new(config, options)
    }
}

/// A provider's name as a flag gives it.
pub fn provider_name(text: &str) -> anyhow::Result<ProviderName> {
    let wrong = || {
        let problem = Problem::error(format!("`{text}` is no name of a provider"));
        UsageError(problem.hint("letters, digits and dashes, at most 63").into())
    };
    Ok(ProviderName::parse(text).ok_or_else(wrong)?)
}

/// Runs work with a resolver and gives back what it created, whatever the outcome.
pub fn with_resolver<T>(
    session: &Session,
    resolver: &Resolver,
    work: impl Future<Output = Result<T, SecretsError>>,
) -> anyhow::Result<T> {
    // A signal ends the work, and what was lent is given back.
    Interrupt::listen()?;
    crate::memory::keep_out_of_dumps();
    session.block_on(async {
        let result = work.await;
        resolver.finish().await.iter().for_each(report::show);
        Ok(result?)
    })
}
