//! Keeps the status of gates true: templates are checked, the gates of bundles are evaluated, as seldom written as possible.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Map;
use slipway_cluster::{Cluster, ListOptions};
use slipway_event::Clock;
use slipway_manifest::ObjectRef;

use super::context::GateContext;
use super::evaluate::{GateEvaluator, expression_text};
use super::external;
use super::freeze::find_freeze;
use super::gather::{GateSubject, add_answer, gather};
use super::outcome::{GateFault, GateOutcome};
use super::overrides::{OverrideSubject, find_override, override_reason};
use crate::audit::{AuditFact, AuditTrail};
use crate::kinds::{
    AuditAction, AuditOutcome, Bundle, BundleSpec, ConditionStatus, ExternalGateStatus, GateOverride,
    GatePhase, GateTiming, KindError, NewCondition, PolicyGate, PolicyGateSpec, PolicyGateStatus,
    PromotionStep, PromotionStepSpec, StepState, get, labels, list, patch_status, set_condition,
};
use crate::{OutboundClients, PromotionOptions, Requeue};

/// The shortest time between two evaluations.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);
/// The shortest interval that is honoured.
const SHORTEST_RECHECK: std::time::Duration = std::time::Duration::from_secs(10);

/// Evaluates gates and writes their status.
pub struct GateReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    evaluator: Arc<GateEvaluator>,
    outbound: OutboundClients,
    options: PromotionOptions,
    audit: AuditTrail,
}

impl GateReconciler {
    pub fn new(
        cluster: Cluster,
        clock: Arc<dyn Clock>,
        evaluator: Arc<GateEvaluator>,
        outbound: OutboundClients,
        options: PromotionOptions,
    ) -> Self {
        let audit = AuditTrail::new(cluster.clone());
        Self { cluster, clock, evaluator, outbound, options, audit }
    }

    /// Brings the status of a gate up to date.
    pub async fn reconcile(&self, at: &ObjectRef) -> Result<Requeue, KindError> {
        let namespace = at.namespace.as_deref().unwrap_or_default();
        let Some(gate) = get::<PolicyGateSpec>(&self.cluster, namespace, &at.name).await? else {
            return Ok(Requeue::Done);
        };
        if gate.metadata.is_being_deleted() {
            return Ok(Requeue::Done);
        }
        if gate.is_instance() { self.instance(&gate).await } else { self.template(&gate).await }
    }

    /// Compiles the expression of a template; a template is never ready.
    async fn template(&self, gate: &PolicyGate) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        let mut status = gate.status.clone();
        let generation = gate.metadata.generation;
        status.observed_generation = Some(generation);
        status.ready = false;
        let checked = self.evaluator.check(&gate.spec);
        let (truth, reason, message) = match &checked {
            Ok(()) => (ConditionStatus::True, "Compiled", String::new()),
            Err(error) => (ConditionStatus::False, "CompileError", error_with_hints(error)),
        };
        let compiled = NewCondition {
            kind: "Compiled",
            status: truth,
            reason,
            message,
            observed_generation: generation,
        };
        set_condition(&mut status.conditions, compiled, now);
        let applies = has_environments(gate);
        let usable = NewCondition {
            kind: "Ready",
            status: if applies && checked.is_ok() { ConditionStatus::True } else { ConditionStatus::False },
            reason: match (applies, &checked) {
                (false, _) => "InvalidAppliesTo",
                (true, Err(_)) => "CompileError",
                (true, Ok(())) => "Usable",
            },
            message: if applies {
                String::new()
            } else {
                "name environments in spec.appliesTo, or in the label or annotation kardinal.io/applies-to"
                    .to_owned()
            },
            observed_generation: generation,
        };
        set_condition(&mut status.conditions, usable, now);
        patch_status(&self.cluster, gate, &status).await?;
        Ok(Requeue::Done)
    }

    async fn instance(&self, gate: &PolicyGate) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        let namespace = gate.spec.bundle_namespace.as_deref().unwrap_or(gate.namespace());
        let name = gate
            .spec
            .bundle_ref
            .as_deref()
            .or_else(|| gate.metadata.label(labels::BUNDLE))
            .unwrap_or_default();
        let Some(bundle) = get::<BundleSpec>(&self.cluster, namespace, name).await? else {
            let outcome = GateOutcome::closed(GateFault::BundleMissing(name.to_owned()));
            return self.write(gate, &outcome, None, now).await;
        };
        let steps = self.steps(&bundle).await?;
        let pipeline =
            gate.spec.pipeline.as_deref().or_else(|| bundle.pipeline()).unwrap_or_default().to_owned();
        let environment =
            gate.spec.environment.as_deref().or_else(|| gate.metadata.label(labels::ENVIRONMENT));
        let environment = environment.unwrap_or_default();
        let subject = GateSubject { gate, bundle: &bundle, pipeline: &pipeline, environment, steps: &steps };
        if is_settled(&subject) {
            return Ok(Requeue::Done);
        }
        let template = self.template_of(gate).await?;
        let decided = self.decide(&subject, template.as_ref(), now).await?;
        if let Some(one) = decided.applied {
            self.record_override(&subject, one, now).await?;
        }
        self.write(gate, &decided.outcome, decided.external, now).await
    }

    /// The outcome, by the first rule that applies.
    async fn decide<'t>(
        &self,
        subject: &GateSubject<'t>,
        template: Option<&'t PolicyGate>,
        now: Timestamp,
    ) -> Result<Decision<'t>, KindError> {
        let waiting = unverified_upstreams(subject);
        if !waiting.is_empty() {
            return Ok(GateOutcome::closed(GateFault::UpstreamNotVerified(waiting)).into());
        }
        let frozen = find_freeze(
            &self.cluster,
            &self.evaluator,
            &self.options,
            subject.bundle,
            subject.environment,
            now,
        );
        if let Some(freeze) = frozen.await? {
            return Ok(GateOutcome::closed(GateFault::PipelinePaused(freeze.reason)).into());
        }
        let gates: Vec<&PolicyGate> = std::iter::once(subject.gate).chain(template).collect();
        let who = OverrideSubject {
            pipeline: subject.pipeline,
            environment: subject.environment,
            bundle: subject.bundle.name(),
        };
        if let Some(one) = find_override(&gates, who, now) {
            let outcome = GateOutcome::overridden(override_reason(one), one.expires_at);
            return Ok(Decision { outcome, external: None, applied: Some(one) });
        }
        let compiled = self.evaluator.compile(expression_text(&subject.gate.spec));
        let Ok(expression) = &*compiled else {
            let context = GateContext::for_bundle(subject.bundle, subject.environment, now);
            return Ok(self.evaluator.evaluate(&subject.gate.spec, &context).into());
        };
        let mut context = gather(&self.cluster, subject, expression, now).await;
        let external = self.ask_again(subject.gate, &context).await;
        if let Some(answer) = &external {
            let mut answered = subject.gate.clone();
            answered.status.external = Some(answer.clone());
            for name in
                ["self"].into_iter().chain(answered.spec.template_ref.as_ref().map(|one| one.name.as_str()))
            {
                context.approvals.remove(name);
                context.approval_errors.remove(name);
                add_answer(&mut context, name, &answered);
            }
        }
        let mut outcome = self.evaluator.evaluate(&subject.gate.spec, &context);
        if let Some(external_gate) = &subject.gate.spec.external {
            let mut polled = subject.gate.clone();
            polled.status.external = external.clone().or(polled.status.external);
            outcome.next = outcome.next.into_iter().chain(external::next_poll(&polled, external_gate)).min();
        }
        Ok(Decision { outcome, external, applied: None })
    }

    /// Asks an external system when it is time to.
    async fn ask_again(&self, gate: &PolicyGate, context: &GateContext) -> Option<ExternalGateStatus> {
        let external_gate = gate.spec.external.as_ref()?;
        let due = external::next_poll(gate, external_gate)?;
        if context.now < due {
            return None;
        }
        Some(external::poll(&self.cluster, &self.outbound, gate, external_gate, context).await)
    }

    async fn steps(&self, bundle: &Bundle) -> Result<Vec<PromotionStep>, KindError> {
        let selector = format!("{}={}", labels::BUNDLE, labels::label_value(bundle.name()));
        let options = ListOptions::with_labels(selector);
        let all = list::<PromotionStepSpec>(&self.cluster, Some(bundle.namespace()), &options).await?;
        Ok(all.into_iter().filter(|step| step.spec.bundle_ref == bundle.name()).collect())
    }

    /// The template of an instance, for its overrides.
    async fn template_of(&self, gate: &PolicyGate) -> Result<Option<PolicyGate>, KindError> {
        let Some(template) = &gate.spec.template_ref else { return Ok(None) };
        let found = get::<PolicyGateSpec>(&self.cluster, &template.namespace, &template.name).await?;
        Ok(found.filter(|found| template.uid.is_empty() || found.metadata.uid == template.uid))
    }

    /// Leaves a trace of an override that opened a gate; once for each override and gate.
    async fn record_override(
        &self,
        subject: &GateSubject<'_>,
        one: &GateOverride,
        now: Timestamp,
    ) -> Result<(), KindError> {
        if subject.gate.status.phase == Some(GatePhase::Overridden) {
            return Ok(());
        }
        let identity = format!(
            "{}/{}/{:?}/{:?}/{}",
            subject.gate.metadata.uid,
            one.reason,
            one.created_at,
            one.expires_at,
            one.created_by.as_deref().unwrap_or_default()
        );
        let image = subject.bundle.spec.artifacts.images.first();
        let fact = AuditFact {
            key: format!("override/{}", labels::short_hash(&identity, 32)),
            at: now,
            action: AuditAction::OverrideApplied,
            outcome: AuditOutcome::Success,
            pipeline: subject.pipeline.to_owned(),
            bundle: subject.bundle.name().to_owned(),
            environment: subject.environment.to_owned(),
            actor: one.created_by.clone().unwrap_or_default(),
            message: format!("gate {}: {}", gate_name(subject.gate), override_reason(one)),
            image: image.map(|image| image.reference.clone()).unwrap_or_default(),
        };
        self.audit.record(subject.bundle.namespace(), &fact).await
    }

    /// Writes an outcome if it says something new, or if the last one was open and gets old.
    async fn write(
        &self,
        gate: &PolicyGate,
        outcome: &GateOutcome,
        external: Option<ExternalGateStatus>,
        now: Timestamp,
    ) -> Result<Requeue, KindError> {
        let recheck = gate.spec.recheck_interval.0.max(SHORTEST_RECHECK);
        let mut status = next_status(gate, outcome, external, now);
        let soonest = now.saturating_add(SHORTEST).unwrap_or(Timestamp::MAX);
        let next = outcome.next.map(|at| at.max(soonest));
        let due = |from: Timestamp| from.saturating_add(recheck).unwrap_or(Timestamp::MAX);
        let last = gate.status.last_evaluated_at.filter(|last| *last <= now && now < due(*last));
        if let Some(last) = last
            && !says_something_new(&gate.status, &status)
        {
            let at = due(last);
            return Ok(Requeue::At(next.map_or(at, |next| next.min(at))));
        }
        let at = due(now);
        let at = next.map_or(at, |next| next.min(at));
        // Only an open gate is trusted for a while: the age of a refusal matters to nobody.
        if gate.status.last_evaluated_at.is_some()
            && !outcome.ready
            && !says_something_new(&gate.status, &status)
        {
            return Ok(Requeue::At(at));
        }
        status.last_evaluated_at = Some(now);
        status.next_evaluation_at = Some(at);
        patch_status(&self.cluster, gate, &status).await?;
        Ok(Requeue::At(at))
    }
}

/// The outcome of a gate with what came about on the way.
struct Decision<'a> {
    outcome: GateOutcome,
    /// A new answer of the external system.
    external: Option<ExternalGateStatus>,
    /// The override that opened the gate.
    applied: Option<&'a GateOverride>,
}

impl From<GateOutcome> for Decision<'_> {
    fn from(outcome: GateOutcome) -> Self {
        Self { outcome, external: None, applied: None }
    }
}

/// The name people know a gate by: that of its template.
pub(crate) fn gate_name(gate: &PolicyGate) -> &str {
    gate.spec.template_ref.as_ref().map_or(gate.name(), |template| template.name.as_str())
}

/// Nothing depends on the gate any more: the bundle is done, or the step behind it has begun.
fn is_settled(subject: &GateSubject<'_>) -> bool {
    if subject.bundle.phase().is_terminal() || subject.bundle.metadata.is_being_deleted() {
        return true;
    }
    let mut behind =
        subject.steps.iter().filter(|step| step.spec.environment == subject.environment).peekable();
    if behind.peek().is_none() {
        return false;
    }
    behind.all(|step| match subject.gate.spec.when {
        GateTiming::PostDeploy => step.state().is_terminal(),
        GateTiming::PrePromotion | GateTiming::PreDeploy => step.state() != StepState::Pending,
    })
}

/// The environments before that are not verified: by their steps, and by the states the Graph wrote.
fn unverified_upstreams(subject: &GateSubject<'_>) -> Vec<String> {
    let spec = &subject.gate.spec;
    let verified = |name: &&String| {
        let mut steps = subject.steps.iter().filter(|step| step.spec.environment == **name).peekable();
        steps.peek().is_some() && steps.all(|step| step.state() == StepState::Verified)
    };
    let mut waiting: Vec<String> =
        spec.upstream_names.iter().filter(|name| !verified(name)).cloned().collect();
    let states = spec.upstream_environment.iter().chain(&spec.upstream_environments);
    if waiting.is_empty() {
        waiting.extend(
            states
                .filter(|state| *state != "Verified")
                .map(|state| format!("an environment that is {state}")),
        );
    }
    waiting
}

/// Returns true if a template names environments in any of the ways there are.
fn has_environments(gate: &PolicyGate) -> bool {
    let named =
        |text: Option<&str>| text.is_some_and(|text| text.split(',').any(|name| !name.trim().is_empty()));
    gate.spec.applies_to.iter().any(|name| !name.trim().is_empty())
        || named(gate.metadata.label(labels::APPLIES_TO))
        || named(gate.metadata.annotation(labels::APPLIES_TO))
}

fn error_with_hints(error: &super::expression::ExpressionError) -> String {
    let hints: Vec<&str> = error.hints().collect();
    if hints.is_empty() { error.to_string() } else { format!("{error} (hint: {})", hints.join("; ")) }
}

/// The status after an evaluation, without its moments.
fn next_status(
    gate: &PolicyGate,
    outcome: &GateOutcome,
    external: Option<ExternalGateStatus>,
    now: Timestamp,
) -> PolicyGateStatus {
    let before = &gate.status;
    let mut status = before.clone();
    let generation = gate.metadata.generation;
    status.observed_generation = Some(generation);
    status.ready = outcome.ready;
    status.phase = Some(outcome.phase);
    status.reason = Some(outcome.reason.clone());
    status.values = if outcome.values.is_empty() { Map::new() } else { outcome.value_map() };
    status.eta = outcome.eta.as_ref().map(|eta| eta.at);
    status.eta_basis = outcome.eta.as_ref().map(|eta| eta.basis.to_string());
    status.external = external.or(status.external);
    if outcome.ready {
        status.passed_at = before.passed_at.or(Some(now));
    } else {
        status.passed_at = None;
        status.first_blocked_at = before.first_blocked_at.or(Some(now));
    }
    let broken = match &outcome.fault {
        Some(GateFault::Compile(error)) => Some(error_with_hints(error)),
        _ => None,
    };
    let compiled = NewCondition {
        kind: "Compiled",
        status: if broken.is_some() { ConditionStatus::False } else { ConditionStatus::True },
        reason: if broken.is_some() { "CompileError" } else { "Compiled" },
        message: broken.unwrap_or_default(),
        observed_generation: generation,
    };
    set_condition(&mut status.conditions, compiled, now);
    let evaluated = NewCondition {
        kind: "Evaluated",
        status: if outcome.phase == GatePhase::Error {
            ConditionStatus::False
        } else {
            ConditionStatus::True
        },
        reason: match outcome.phase {
            GatePhase::Pass => "Pass",
            GatePhase::Block => "Block",
            GatePhase::Pending => "Pending",
            GatePhase::Error => "Error",
            GatePhase::Overridden => "Overridden",
        },
        message: String::new(),
        observed_generation: generation,
    };
    set_condition(&mut status.conditions, evaluated, now);
    status
}

/// Values and the texts made of them change all the time; they are written when the result is written anyway.
fn says_something_new(before: &PolicyGateStatus, after: &PolicyGateStatus) -> bool {
    let comparable = |status: &PolicyGateStatus| PolicyGateStatus {
        reason: None,
        values: Map::new(),
        last_evaluated_at: None,
        next_evaluation_at: None,
        ..status.clone()
    };
    comparable(before) != comparable(after)
}
