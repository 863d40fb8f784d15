//! Freezes: gates that hold a whole pipeline while it is paused.

use std::collections::BTreeSet;

use jiff::Timestamp;
use slipway_cluster::{Cluster, ListOptions};

use super::context::GateContext;
use super::evaluate::GateEvaluator;
use super::overrides::is_freeze;
use crate::PromotionOptions;
use crate::kinds::{Bundle, GateType, KindError, PolicyGate, PolicyGateSpec, labels, list};

/// A pipeline that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveFreeze {
    /// The gate that holds it.
    pub gate: String,
    /// Who paused it and why, as far as the gate says.
    pub reason: String,
}

/// The name of the gate that holds a pipeline.
pub fn freeze_name(pipeline: &str) -> String {
    format!("freeze-{pipeline}")
}

/// Finds the freeze that holds a pipeline, among the gates of its namespace.
pub fn active_freeze(gates: &[PolicyGate], namespace: &str, pipeline: &str) -> Option<ActiveFreeze> {
    let holds = |gate: &&PolicyGate| {
        let named = match gate.metadata.label(labels::PIPELINE) {
            Some(name) => name == labels::label_value(pipeline),
            None => gate.name() == freeze_name(pipeline),
        };
        is_freeze(gate) && !gate.is_instance() && gate.namespace() == namespace && named
    };
    let gate = gates.iter().filter(|gate| !gate.metadata.is_being_deleted()).find(holds)?;
    let reason = match gate.spec.message.as_str() {
        "" => format!("pipeline {pipeline} is paused"),
        message => message.to_owned(),
    };
    Some(ActiveFreeze { gate: gate.name().to_owned(), reason })
}

/// Looks for the freeze that holds a bundle; none if the bundle may pass it.
pub async fn find_freeze(
    cluster: &Cluster,
    evaluator: &GateEvaluator,
    options: &PromotionOptions,
    bundle: &Bundle,
    environment: &str,
    now: Timestamp,
) -> Result<Option<ActiveFreeze>, KindError> {
    let Some(pipeline) = bundle.pipeline() else { return Ok(None) };
    let frozen = ListOptions::with_labels(format!("{}=true", labels::FREEZE));
    let gates = list::<PolicyGateSpec>(cluster, Some(bundle.namespace()), &frozen).await?;
    let Some(freeze) = active_freeze(&gates, bundle.namespace(), pipeline) else { return Ok(None) };
    if !bundle.is_emergency() {
        return Ok(Some(freeze));
    }
    if options.emergency_bypasses_freeze {
        return Ok(None);
    }
    let bypass = ListOptions::with_labels(format!("{}=freeze-bypass", labels::GATE_TYPE));
    let mut permissions = Vec::new();
    for namespace in &options.policy_namespaces {
        permissions.extend(list::<PolicyGateSpec>(cluster, Some(namespace), &bypass).await?);
    }
    let context = GateContext::for_bundle(bundle, environment, now);
    let allowed = allows_bypass(evaluator, &permissions, &options.policy_namespaces, &context);
    Ok((!allowed).then_some(freeze))
}

/// Returns true if a trusted gate lets an emergency bundle through a freeze.
pub fn allows_bypass(
    evaluator: &GateEvaluator,
    permissions: &[PolicyGate],
    policy_namespaces: &BTreeSet<String>,
    context: &GateContext,
) -> bool {
    permissions
        .iter()
        .filter(|gate| !gate.is_instance() && gate.gate_type() == GateType::FreezeBypass)
        .filter(|gate| policy_namespaces.contains(gate.namespace()))
        .filter(|gate| gate.metadata.label(labels::SCOPE) == Some("org"))
        .any(|gate| evaluator.evaluate_now(&gate.spec, context).ready)
}
