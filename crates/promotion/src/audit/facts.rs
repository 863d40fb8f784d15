//! What has happened to an object, read from the object alone.

use jiff::Timestamp;

use crate::kinds::{
    AuditAction, AuditOutcome, Bundle, BundlePhase, Pipeline, PolicyGate, PromotionStep, StepState,
    find_condition,
};

/// Something that has happened, with a key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFact {
    /// Tells facts apart; the same fact has the same key whenever it is read.
    pub key: String,
    pub at: Timestamp,
    pub action: AuditAction,
    pub outcome: AuditOutcome,
    pub pipeline: String,
    /// Empty for what concerns a whole pipeline.
    pub bundle: String,
    pub environment: String,
    pub actor: String,
    pub message: String,
    pub image: String,
}

/// The name of whoever acts without a person.
const CONTROLLER: &str = "controller";

/// The facts of a bundle.
pub fn bundle_facts(bundle: &Bundle) -> Vec<AuditFact> {
    let Some(pipeline) = bundle.pipeline() else { return Vec::new() };
    let changed = |kind: &str| {
        let time = find_condition(&bundle.status.conditions, kind)?.last_transition_time.parse().ok();
        time.filter(|time: &Timestamp| *time >= bundle.metadata.created())
    };
    let ended = changed("Ready").unwrap_or_else(|| bundle.metadata.created());
    let author = bundle.spec.provenance.as_ref().and_then(|provenance| provenance.author.clone());
    let fact = |action, outcome, at, environment: &str, message: String| AuditFact {
        key: format!("{}/{action:?}/{environment}", bundle.metadata.uid),
        at,
        action,
        outcome,
        pipeline: pipeline.to_owned(),
        bundle: bundle.name().to_owned(),
        environment: environment.to_owned(),
        actor: author.clone().unwrap_or_else(|| CONTROLLER.to_owned()),
        message,
        image: first_image(bundle),
    };
    let mut facts = Vec::new();
    for (name, environment) in
        bundle.status.environments.iter().filter(|(_, environment)| environment.skipped)
    {
        let reason = environment.reason.clone().unwrap_or_default();
        facts.push(fact(AuditAction::SkipAllowed, AuditOutcome::Success, ended, name, reason));
    }
    if bundle.is_rollback() {
        let of = bundle.spec.provenance.as_ref().and_then(|provenance| provenance.rollback_of.clone());
        let message = format!("takes back {}", of.unwrap_or_else(|| "an earlier bundle".to_owned()));
        let at = bundle.metadata.created();
        facts.push(fact(AuditAction::RollbackStarted, AuditOutcome::Pending, at, "", message.clone()));
        if bundle.phase() == BundlePhase::Verified {
            facts.push(fact(AuditAction::RollbackSucceeded, AuditOutcome::Success, ended, "", message));
        }
    }
    match bundle.phase() {
        BundlePhase::SkipDenied => {
            let told = bundle.status.conditions.iter().find(|one| one.reason == "SkipDenied");
            let message = told.map(|one| one.message.clone()).unwrap_or_default();
            facts.push(fact(AuditAction::SkipDenied, AuditOutcome::Failure, ended, "", message));
        }
        BundlePhase::Superseded => {
            let newer = bundle.status.superseded_by.clone().unwrap_or_default();
            let message = format!("superseded by {newer}");
            facts.push(fact(AuditAction::PromotionSuperseded, AuditOutcome::Success, ended, "", message));
        }
        _ => {}
    }
    facts
}

/// The facts of a step: each attempt has its own.
pub fn step_facts(step: &PromotionStep) -> Vec<AuditFact> {
    let (spec, status) = (&step.spec, &step.status);
    let attempt = status.attempt.unwrap_or(1);
    let place = match &spec.region {
        Some(region) => format!("{}/{region}", spec.environment),
        None => spec.environment.clone(),
    };
    let mut facts = Vec::new();
    let mut add =
        |at: Option<Timestamp>, action: AuditAction, outcome, actor: Option<String>, message: String| {
            let Some(at) = at else { return };
            facts.push(AuditFact {
                key: format!("{}/{action:?}/{attempt}", step.metadata.uid),
                at,
                action,
                outcome,
                pipeline: spec.pipeline.clone(),
                bundle: spec.bundle_ref.clone(),
                environment: place.clone(),
                actor: actor.unwrap_or_else(|| CONTROLLER.to_owned()),
                message,
                image: String::new(),
            });
        };
    add(status.started_at, AuditAction::PromotionStarted, AuditOutcome::Pending, None, String::new());
    let link = status.pr_url.clone().unwrap_or_default();
    add(
        status.merged_at,
        AuditAction::PrMerged,
        AuditOutcome::Success,
        status.merged_by.clone(),
        link.clone(),
    );
    let commit = status.merge_sha.clone().or_else(|| status.outputs.get("commitSHA").cloned());
    let commit = commit.map(|commit| format!("commit {commit}")).unwrap_or_default();
    add(status.verified_at, AuditAction::PromotionSucceeded, AuditOutcome::Success, None, commit);
    let is_over = step.state().is_failure() || step.state() == StepState::RollingBack;
    if let Some(failed) = status.failed_at.filter(|_| is_over) {
        let reason = status.reason.clone().unwrap_or_default();
        let told = status.message.clone().unwrap_or_default();
        let message = if told.is_empty() { reason.clone() } else { format!("{reason}: {told}") };
        if reason == "PRClosed" {
            add(Some(failed), AuditAction::PrClosed, AuditOutcome::Failure, None, link);
        }
        if reason.starts_with("Health") {
            let health = status.health.as_ref().map(|health| health.message.clone()).unwrap_or_default();
            add(Some(failed), AuditAction::HealthCheckFailed, AuditOutcome::Failure, None, health);
        }
        add(Some(failed), AuditAction::PromotionFailed, AuditOutcome::Failure, None, message);
    }
    facts
}

/// The facts of a gate of a bundle: that it held the bundle, and that it let it through.
pub fn gate_facts(gate: &PolicyGate) -> Vec<AuditFact> {
    let (Some(pipeline), Some(bundle)) = (&gate.spec.pipeline, &gate.spec.bundle_ref) else {
        return Vec::new();
    };
    if !gate.is_instance() {
        return Vec::new();
    }
    let name = gate.spec.template_ref.as_ref().map_or(gate.name(), |template| template.name.as_str());
    let fact = |action, outcome, at: Option<Timestamp>| {
        let reason = gate.status.reason.clone().unwrap_or_default();
        Some(AuditFact {
            key: format!("{}/{action:?}", gate.metadata.uid),
            at: at?,
            action,
            outcome,
            pipeline: pipeline.clone(),
            bundle: bundle.clone(),
            environment: gate.spec.environment.clone().unwrap_or_default(),
            actor: CONTROLLER.to_owned(),
            message: format!("gate {name}: {reason}"),
            image: String::new(),
        })
    };
    let blocked = fact(AuditAction::GateBlocked, AuditOutcome::Pending, gate.status.first_blocked_at);
    let passed = fact(AuditAction::GateEvaluated, AuditOutcome::Success, gate.status.passed_at);
    [blocked, passed].into_iter().flatten().collect()
}

/// That a pipeline is held; whether it was held before is for the trail to say.
pub fn pipeline_facts(pipeline: &Pipeline, now: Timestamp) -> AuditFact {
    let action =
        if pipeline.spec.paused { AuditAction::PipelinePaused } else { AuditAction::PipelineResumed };
    AuditFact {
        key: format!("{}/{action:?}/{}", pipeline.metadata.uid, pipeline.metadata.generation),
        at: now,
        action,
        outcome: AuditOutcome::Success,
        pipeline: pipeline.name().to_owned(),
        bundle: String::new(),
        environment: String::new(),
        actor: CONTROLLER.to_owned(),
        message: String::new(),
        image: String::new(),
    }
}

fn first_image(bundle: &Bundle) -> String {
    bundle.spec.artifacts.images.first().map(|image| image.reference.clone()).unwrap_or_default()
}
