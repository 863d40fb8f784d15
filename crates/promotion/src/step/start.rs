//! The conditions under which a step begins.

use std::collections::BTreeMap;

use crate::gate::is_open;
use crate::kinds::{
    self, Bundle, BundleSpec, GateRef, GateScope, GateTiming, GateType, PipelineSpec, PolicyGate,
    PolicyGateSpec, PromotionStep, PromotionStepSpec, StepState, labels,
};
use crate::translate::{check_definition, gate_applies, trusted_scope};

use super::outcome::StepError;
use super::queue::{BUSY, find_blocker};
use super::reconciler::StepShared;

/// The decision whether a step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartDecision {
    Start,
    /// Looked at again later.
    Wait {
        reason: &'static str,
        message: String,
    },
}

fn wait(reason: &'static str, message: impl Into<String>) -> StartDecision {
    StartDecision::Wait { reason, message: message.into() }
}

/// Decides whether a step may begin.
pub(super) async fn decide(
    shared: &StepShared,
    step: &PromotionStep,
    bundle: &Bundle,
    pause: Option<&str>,
) -> Result<StartDecision, StepError> {
    let spec = &step.spec;
    let mut upstreams = spec.upstream_states.iter().chain(&spec.upstream_verified);
    if let Some(state) = upstreams.find(|state| state.as_str() != "Verified") {
        return Ok(wait("UpstreamNotVerified", format!("an environment before this one is {state}")));
    }
    let selector = format!("{}={}", labels::PIPELINE, labels::label_value(&spec.pipeline));
    let options = slipway_cluster::ListOptions::with_labels(selector);
    let mut others =
        kinds::list::<PromotionStepSpec>(&shared.cluster, Some(step.namespace()), &options).await?;
    if let Some(name) = find_unverified_upstream(step, &others) {
        return Ok(wait("UpstreamNotVerified", format!("`{name}` is not verified")));
    }
    let mut gates = Vec::new();
    for name in &spec.required_gates {
        let at = GateRef::parse(name, step.namespace());
        let Some(gate) = kinds::get::<PolicyGateSpec>(&shared.cluster, &at.namespace, &at.name).await? else {
            return Ok(wait("AwaitingGate", format!("the gate `{name}` does not exist")));
        };
        gates.push(gate);
    }
    let now = shared.clock.now();
    let before = gates.iter().filter(|gate| gate.spec.when != GateTiming::PostDeploy);
    if let Some(closed) = before.clone().find(|gate| !is_open(gate, now)) {
        let reason = closed.status.reason.as_deref().unwrap_or("not evaluated yet");
        return Ok(wait("AwaitingGate", format!("the gate `{}` is closed: {reason}", closed.name())));
    }
    if let Some(missing) = find_missing_org_gate(shared, step, bundle, &gates).await? {
        let message = format!("the gate `{missing}` binds every pipeline and is not part of this promotion");
        return Ok(wait("MissingOrgGate", message));
    }
    if let Some(reason) = pause {
        return Ok(wait("Paused", reason));
    }
    while let Some(blocker) = find_blocker(step, &others) {
        // One that is none of its bundle's is never carried out: nobody waits for it.
        let (name, bundle_ref) = (blocker.name().to_owned(), &blocker.spec.bundle_ref);
        let bundle = kinds::get::<BundleSpec>(&shared.cluster, step.namespace(), bundle_ref).await?;
        if bundle.is_some_and(|bundle| check_definition(&bundle, blocker).is_ok()) {
            return Ok(wait(BUSY, format!("`{name}` is at work in this environment")));
        }
        others.retain(|other| other.name() != name);
    }
    Ok(StartDecision::Start)
}

/// Finds an environment before this one that the bundle has not passed, whatever the step's spec says.
fn find_unverified_upstream<'s>(step: &'s PromotionStep, others: &[PromotionStep]) -> Option<&'s str> {
    let is_verified = |name: &String| {
        let mut own = others
            .iter()
            .filter(|other| other.spec.bundle_ref == step.spec.bundle_ref && other.spec.environment == *name)
            .peekable();
        own.peek().is_some() && own.all(|other| other.state() == StepState::Verified)
    };
    step.spec.upstream_environments.iter().find(|name| !is_verified(name)).map(String::as_str)
}

/// Finds an org gate that applies and that the step does not name: somebody made the Graph or the step by hand.
async fn find_missing_org_gate(
    shared: &StepShared,
    step: &PromotionStep,
    bundle: &Bundle,
    gates: &[PolicyGate],
) -> Result<Option<String>, StepError> {
    let spec = &step.spec;
    let namespaces = &shared.options.promotion.policy_namespaces;
    let pipeline = kinds::get::<PipelineSpec>(&shared.cluster, step.namespace(), &spec.pipeline).await?;
    for namespace in namespaces {
        let options = slipway_cluster::ListOptions::default();
        let templates = kinds::list::<PolicyGateSpec>(&shared.cluster, Some(namespace), &options).await?;
        let binding = templates.iter().filter(|template| {
            !template.is_instance()
                && template.gate_type() == GateType::Gate
                && trusted_scope(template, namespaces) == GateScope::Org
                // Gates that came later bind later bundles.
                && template.metadata.created() <= bundle.metadata.created()
                && match &pipeline {
                    Some(pipeline) => gate_applies(template, &spec.environment, &pipeline.metadata.labels),
                    // Nobody knows what its selector would have said.
                    None => gate_applies(&any_pipeline(template), &spec.environment, &BTreeMap::new()),
                }
        });
        for template in binding {
            // Only gates that stand where teams cannot write them count.
            let is_named = gates.iter().any(|gate| {
                namespaces.contains(gate.namespace())
                    && gate.spec.environment.as_deref().is_none_or(|known| known == spec.environment)
                    && gate.spec.bundle_ref.as_deref().is_none_or(|known| known == bundle.name())
                    && gate.spec.template_ref.as_ref().is_some_and(|made_from| {
                        made_from.namespace == template.namespace() && made_from.name == template.name()
                    })
            });
            if !is_named {
                return Ok(Some(format!("{namespace}/{}", template.name())));
            }
        }
    }
    Ok(None)
}

/// A gate that does not ask which pipeline it is.
fn any_pipeline(gate: &PolicyGate) -> PolicyGate {
    let mut gate = gate.clone();
    gate.spec.selector.clear();
    gate
}
