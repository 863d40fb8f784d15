//! Failures of resolving, sorted by what the caller does about them.

use slipway_problem::{Problem, Problems};

use crate::audit::AuditError;
use crate::config::ProviderType;
use crate::provider::ProviderError;
use crate::reference::SecretReference;
use crate::select::SelectError;

/// The reason references did not become values.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// References or providers that cannot be used: wrong files.
    #[error("{0}")]
    Invalid(Problems),
    /// Policy or trust forbids it. No backend was asked.
    #[error("{0}")]
    Refused(Problems),
    /// A backend did not give a value.
    #[error("{}", problems_of(.0))]
    Unresolved(Vec<UnresolvedSecret>),
    /// An audit line could not be written, and the configuration says that nothing is used without one.
    #[error("no secret is used without an audit line")]
    Audit(#[from] AuditError),
}

impl SecretsError {
    /// Every problem, for reports.
    pub fn problems(&self) -> Problems {
        match self {
            Self::Invalid(problems) | Self::Refused(problems) => problems.clone(),
            Self::Unresolved(unresolved) => problems_of(unresolved),
            Self::Audit(error) => Problem::error(format!("{self}: {error}: {}", error.source))
                .hint("make the file writable, or set `secrets.audit.failClosed: false`")
                .into(),
        }
    }
}

fn problems_of(unresolved: &[UnresolvedSecret]) -> Problems {
    unresolved.iter().map(UnresolvedSecret::problem).collect()
}

/// A reference that did not become a value.
#[derive(Clone, Debug, thiserror::Error)]
#[error("secret {reference}: {provider_type} {cause}")]
pub struct UnresolvedSecret {
    pub reference: SecretReference,
    pub provider_type: ProviderType,
    #[source]
    pub cause: UnresolvedCause,
}

/// The step at which a reference got no value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UnresolvedCause {
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Select(#[from] SelectError),
}

impl UnresolvedSecret {
    /// The problem with its hint.
    pub fn problem(&self) -> Problem {
        let problem = Problem::error(self.to_string());
        let hint = match &self.cause {
            UnresolvedCause::Provider(error) => error.hint.clone(),
            UnresolvedCause::Select(error) => Some(error.hint().to_owned()),
        };
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl UnresolvedCause {
    /// The code of the failure, for audit lines.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Provider(error) => error.code.to_string(),
            Self::Select(_) => "invalid".to_owned(),
        }
    }
}
