//! Checks of what teams write: pipelines with their credentials, and gates.

use std::sync::Arc;

use slipway_cluster::ListOptions;
use slipway_manifest::Gvk;
use slipway_promotion::gate::{FindingSeverity, GateEvaluator, check_gate};
use slipway_promotion::health::HealthCheck;
use slipway_promotion::kinds::{
    self, HealthType, Pipeline, PipelineSpec, PolicyGateSpec, WebhookMode, labels,
};
use slipway_promotion::step::{RepositoryFault, StepReconciler, StepServices};
use slipway_promotion::{OutboundClients, validate_pipeline};
use tokio_util::sync::CancellationToken;

use super::{DoctorServices, Fault, Finding, FindingLevel};

/// Looks at every pipeline.
pub(super) async fn pipelines(services: &DoctorServices, findings: &mut Vec<Finding>) {
    let all = kinds::list::<PipelineSpec>(&services.cluster, None, &ListOptions::default()).await;
    let Ok(all) = all else { return };
    let outbound = OutboundClients::new(services.steps.outbound.clone(), CancellationToken::new());
    let health =
        HealthCheck::new(services.cluster.clone(), services.clock.clone(), services.redactor.clone())
            .with_outbound(outbound);
    let parts = StepServices {
        cluster: services.cluster.clone(),
        clock: services.clock.clone(),
        cache: services.repositories.clone(),
        health: Arc::new(health),
        redactor: services.redactor.clone(),
        stop: CancellationToken::new(),
    };
    let steps = StepReconciler::new(parts, services.steps.clone());
    for pipeline in &all {
        let before = findings.len();
        let subject = format!("Pipeline {}/{}", pipeline.namespace(), pipeline.name());
        for problem in validate_pipeline(&pipeline.spec) {
            findings.push(Finding::fault(
                FindingLevel::Broken,
                Fault::PipelineInvalid,
                &subject,
                problem.to_string(),
                "`slipway pipeline validate` checks files before they are applied",
            ));
        }
        repository(&steps, pipeline, &subject, findings).await;
        health_kinds(services, pipeline, &subject, findings).await;
        if findings.len() == before {
            findings.push(Finding::good(subject, "can be promoted"));
        }
    }
}

async fn repository(steps: &StepReconciler, pipeline: &Pipeline, subject: &str, findings: &mut Vec<Finding>) {
    let git = &pipeline.spec.git;
    let report = steps.diagnose_repository(pipeline.namespace(), git).await;
    for fault in &report.faults {
        let (level, kind, hint) = match fault {
            RepositoryFault::Credentials { .. } => (
                FindingLevel::Broken,
                Fault::CredentialsMissing,
                "`git.secretRef` names a Secret of the pipeline's namespace with `token`",
            ),
            RepositoryFault::Unreachable { .. } => (
                FindingLevel::Broken,
                Fault::RepositoryUnreachable,
                "check `git.url`, `git.provider` and `git.apiURL`, and whether the token is still valid",
            ),
            RepositoryFault::NoWebhookSecret if git.webhook_mode == WebhookMode::Polling => continue,
            RepositoryFault::NoWebhookSecret => (
                FindingLevel::Warning,
                Fault::WebhookSecretMissing,
                "put `webhookSecret` into the Secret and into the settings of the repository",
            ),
        };
        findings.push(Finding::fault(level, kind, subject, fault.to_string(), hint));
    }
    let scopes = &report.access.missing_scopes;
    if !scopes.is_empty() || report.access.can_push == Some(false) {
        let message = if scopes.is_empty() {
            "the token may not push to the repository".to_owned()
        } else {
            format!("the token lacks {}", scopes.join(", "))
        };
        let hint = "give the token the right to write contents and pull requests";
        findings.push(Finding::fault(FindingLevel::Broken, Fault::TokenScope, subject, message, hint));
    }
}

async fn health_kinds(
    services: &DoctorServices,
    pipeline: &Pipeline,
    subject: &str,
    findings: &mut Vec<Finding>,
) {
    for environment in &pipeline.spec.environments {
        let health = environment.health.clone().unwrap_or_default();
        if health.cluster.is_some() {
            continue;
        }
        let gvk = match health.adapter {
            Some(HealthType::ArgoCd) => Gvk::new("argoproj.io", "v1alpha1", "Application"),
            Some(HealthType::Flux) => Gvk::new("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
            Some(HealthType::HelmRelease) => Gvk::new("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
            _ => continue,
        };
        let served = services.cluster.served_kinds().await;
        if served.is_ok_and(|served| served.find_preferred(&gvk.group, &gvk.kind).is_some()) {
            continue;
        }
        findings.push(Finding::fault(
            FindingLevel::Broken,
            Fault::HealthKindMissing,
            subject,
            format!(
                "environment {} asks {} for its health, which the cluster does not serve",
                environment.name, gvk.kind
            ),
            "install it, name its cluster in `health.cluster`, or choose another `health.type`",
        ));
    }
}

/// Looks at every gate template.
pub(super) async fn gates(services: &DoctorServices, findings: &mut Vec<Finding>) {
    let all = kinds::list::<PolicyGateSpec>(&services.cluster, None, &ListOptions::default()).await;
    let Ok(all) = all else { return };
    let evaluator = GateEvaluator::new();
    for gate in all.iter().filter(|gate| !gate.is_instance()) {
        let subject = format!("PolicyGate {}/{}", gate.namespace(), gate.name());
        for found in
            check_gate(&evaluator, gate).into_iter().filter(|found| found.severity == FindingSeverity::Error)
        {
            findings.push(Finding::fault(
                FindingLevel::Broken,
                Fault::GateInvalid,
                &subject,
                format!("is closed for everybody: {}", found.message),
                "`slipway gate test` checks a gate before it is applied",
            ));
        }
        let is_org = gate.metadata.label(labels::SCOPE) == Some("org");
        if is_org && !services.steps.promotion.policy_namespaces.contains(gate.namespace()) {
            findings.push(Finding::fault(
                FindingLevel::Warning,
                Fault::GateScopeIgnored,
                &subject,
                "says `scope: org` outside of the policy namespaces: it binds its own namespace only",
                "move it into a policy namespace",
            ));
        }
    }
}
