//! Trying the credentials of a pipeline out, without doing anything with them.

use slipway_scm::{AccessReport, ProviderKind};

use crate::kinds::{GitSpec, Metadata, PromotionStep, PromotionStepSpec};

use super::access::provider_kind;
use super::outcome::{Dependency, StepError};
use super::reconciler::StepReconciler;

/// Why a repository cannot be used. No text holds credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryFault {
    /// The Secret is missing, or does not hold what is needed.
    #[error("{message}")]
    Credentials { message: String },
    /// The server or the repository cannot be reached with them.
    #[error("{message}")]
    Unreachable { message: String },
    /// No secret is known that webhooks are signed with.
    #[error("no `webhookSecret` in the Secret: deliveries of webhooks are refused")]
    NoWebhookSecret,
}

/// What was found out about a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryReport {
    pub access: AccessReport,
    pub faults: Vec<RepositoryFault>,
}

impl StepReconciler {
    /// Looks whether the repository of a pipeline can be read and written.
    pub async fn diagnose_repository(&self, namespace: &str, git: &GitSpec) -> RepositoryReport {
        let spec = PromotionStepSpec { git: git.clone(), ..PromotionStepSpec::default() };
        let step = PromotionStep::new(Metadata::named(namespace, "doctor"), spec);
        let mut report = RepositoryReport::default();
        if let Some(reference) = &git.secret_ref {
            match self.shared.read_secret(namespace, reference, Dependency::Scm).await {
                Ok(secret)
                    if secret.webhook_secret().is_none()
                        && self.shared.options.webhook_secret.is_none()
                        && provider_kind(git.provider) != ProviderKind::None =>
                {
                    report.faults.push(RepositoryFault::NoWebhookSecret);
                }
                Ok(_) => {}
                Err(error) => {
                    report.faults.push(RepositoryFault::Credentials { message: error.to_string() });
                    return report;
                }
            }
        }
        let reached = async {
            let access = self.shared.connect(&step).await?;
            if provider_kind(git.provider) == ProviderKind::None {
                return Ok(AccessReport::default());
            }
            access.scm()?.check_access().await.map_err(StepError::from)
        };
        match reached.await {
            Ok(access) => report.access = access,
            Err(error @ StepError::Trouble(_)) if is_about_credentials(&error) => {
                report.faults.push(RepositoryFault::Credentials { message: error.to_string() });
            }
            Err(error) => report.faults.push(RepositoryFault::Unreachable { message: error.to_string() }),
        }
        report
    }
}

fn is_about_credentials(error: &StepError) -> bool {
    matches!(error, StepError::Trouble(trouble) if trouble.reason == "CredentialsMissing")
}
