//! Failures of resolving, sorted by what the caller does about them.

use slipway_problem::{Location, Problem, Problems};

use crate::audit::AuditError;
use crate::config::ProviderType;
use crate::place::{ReferencePlaces, ReferenceProblems};
use crate::provider::ProviderError;
use crate::reference::SecretReference;
use crate::select::SelectError;

/// The reason references did not become values.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// References or providers that cannot be used: wrong files.
    #[error("{0}")]
    Invalid(ReferenceProblems),
    /// Policy or trust forbids it. No backend was asked.
    #[error("{0}")]
    Refused(ReferenceProblems),
    /// A backend did not give a value.
    #[error("{}", problems_of(.0))]
    Unresolved(Vec<UnresolvedSecret>),
    /// An audit line could not be written, and the configuration says that nothing is used without one.
    #[error("no secret is used without an audit line")]
    Audit(#[from] AuditError),
    /// The user ended the run.
    #[error("stopped while secrets were fetched")]
    Interrupted,
}

impl SecretsError {
    /// Every problem, for reports.
    pub fn problems(&self) -> Problems {
        match self {
            Self::Invalid(problems) | Self::Refused(problems) => problems.problems(),
            Self::Unresolved(unresolved) => problems_of(unresolved),
            Self::Audit(error) => {
                let hint = match error {
                    AuditError::File { .. } => {
                        "make the file writable, or set `secrets.audit.failClosed: false`"
                    }
                    AuditError::Webhook { .. } => {
                        "look after the service behind `secrets.audit.webhook`, or set `secrets.audit.failClosed: false`"
                    }
                };
                Problem::error(format!("{self}: {}", error.with_cause())).hint(hint).into()
            }
            Self::Interrupted => Problem::error(self.to_string()).into(),
        }
    }

    /// The same with the places of the references it is about.
    #[must_use]
    pub fn located(mut self, places: &ReferencePlaces) -> Self {
        match &mut self {
            Self::Invalid(problems) | Self::Refused(problems) => problems.locate(places),
            Self::Unresolved(unresolved) => {
                for one in unresolved {
                    one.place = places.place_of_reference(&one.written).cloned();
                }
            }
            Self::Audit(_) | Self::Interrupted => {}
        }
        self
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
    /// The same as the values write it: without a default provider.
    pub written: SecretReference,
    /// The place it was written at, where that is known.
    pub place: Option<Location>,
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
        let problem = match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        };
        match &self.place {
            Some(place) => problem.at(place.clone()),
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
