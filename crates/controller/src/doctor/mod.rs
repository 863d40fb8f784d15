//! `doctor`: looks at everything promotion needs and says what is wrong, and what to do about it.
//!
//! Nothing is written. Each check is a function of `checks` or `pipelines`; a fault has a name of its own (`Fault`), so that
//! programs can tell it.

mod checks;
mod pipelines;

use std::sync::Arc;

use serde::Serialize;
use slipway_cluster::Cluster;
use slipway_event::{Clock, Redactor};
use slipway_git::RepositoryCache;
use slipway_http::HttpClient;
use slipway_promotion::step::StepOptions;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// As it should be.
    Good,
    /// Works, but not as somebody may expect.
    Warning,
    /// Keeps promotions from working.
    Broken,
}

/// Something that can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    ClusterUnreachable,
    DefinitionMissing,
    DefinitionOutdated,
    GraphsMissing,
    ControllerNotRunning,
    PolicyNamespaceMissing,
    ApiTokensMissing,
    AdmissionPoliciesMissing,
    WebhookUnreachable,
    AgentOffline,
    PipelineInvalid,
    CredentialsMissing,
    RepositoryUnreachable,
    TokenScope,
    WebhookSecretMissing,
    HealthKindMissing,
    GateInvalid,
    GateScopeIgnored,
    AuditChainBroken,
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    pub level: FindingLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What was looked at.
    pub subject: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    pub(crate) fn good(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            level: FindingLevel::Good,
            fault: None,
            subject: subject.into(),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn fault(
        level: FindingLevel,
        fault: Fault,
        subject: impl Into<String>,
        message: impl Into<String>,
        hint: &str,
    ) -> Self {
        Self {
            level,
            fault: Some(fault),
            subject: subject.into(),
            message: message.into(),
            hint: Some(hint.to_owned()),
        }
    }
}

/// Everything the checks work with.
pub struct DoctorServices {
    pub cluster: Cluster,
    pub clock: Arc<dyn Clock>,
    pub http: HttpClient,
    pub redactor: Redactor,
    pub repositories: RepositoryCache,
    pub steps: StepOptions,
    /// The namespace of the controller.
    pub namespace: String,
    /// The address of the API as servers of pull requests reach it; not looked at when absent.
    pub api_url: Option<String>,
}

/// Looks at everything; the worst first.
pub async fn diagnose(services: &DoctorServices) -> Vec<Finding> {
    let mut findings = Vec::new();
    if checks::cluster(services, &mut findings).await {
        let has_kinds = checks::definitions(services, &mut findings).await;
        checks::installation(services, &mut findings).await;
        if has_kinds {
            checks::agents(services, &mut findings).await;
            checks::audit(services, &mut findings).await;
            pipelines::pipelines(services, &mut findings).await;
            pipelines::gates(services, &mut findings).await;
        }
    }
    checks::webhook(services, &mut findings).await;
    findings.sort_by(|one, other| other.level.cmp(&one.level).then_with(|| one.subject.cmp(&other.subject)));
    findings
}
