//! Finds the gates that apply to an environment.

use std::collections::{BTreeMap, BTreeSet};

use globset::Glob;
use serde_json::Value;
use slipway_manifest::selector::LabelSelector;

use crate::kinds::{GateScope, GateType, PolicyGate, labels};

/// The gates that hold promotions into an environment, with the scope they are trusted with; org gates first.
pub(crate) fn applying<'g>(
    gates: &'g [PolicyGate],
    environment: &str,
    pipeline_labels: &BTreeMap<String, String>,
    policy_namespaces: &BTreeSet<String>,
) -> Vec<(GateScope, &'g PolicyGate)> {
    let mut found: Vec<(GateScope, &PolicyGate)> = gates
        .iter()
        .filter(|gate| !gate.is_instance() && gate.gate_type() == GateType::Gate)
        // A freeze is looked up live: an instance of it would outlive the pause.
        .filter(|gate| gate.metadata.label(labels::FREEZE) != Some("true"))
        .filter(|gate| gate_applies(gate, environment, pipeline_labels))
        .map(|gate| (trusted_scope(gate, policy_namespaces), gate))
        .collect();
    found.sort_by_key(|(scope, gate)| (*scope, gate.namespace(), gate.name()));
    found.dedup_by_key(|(_, gate)| (gate.namespace(), gate.name()));
    found
}

/// The gates of a type that apply to an environment and are trusted with the scope `org`.
pub(crate) fn org_gates<'g>(
    gates: &'g [PolicyGate],
    gate_type: GateType,
    environment: &str,
    pipeline_labels: &BTreeMap<String, String>,
    policy_namespaces: &BTreeSet<String>,
) -> Vec<&'g PolicyGate> {
    gates
        .iter()
        .filter(|gate| !gate.is_instance() && gate.gate_type() == gate_type)
        .filter(|gate| trusted_scope(gate, policy_namespaces) == GateScope::Org)
        .filter(|gate| gate_applies(gate, environment, pipeline_labels))
        .collect()
}

/// The scope a template is trusted with: `org` only in the namespaces of the controller.
pub fn trusted_scope(gate: &PolicyGate, policy_namespaces: &BTreeSet<String>) -> GateScope {
    match gate.metadata.label(labels::SCOPE) {
        Some("org") if policy_namespaces.contains(gate.namespace()) => GateScope::Org,
        Some("system") => GateScope::System,
        Some("contract") => GateScope::Contract,
        Some("group") => GateScope::Group,
        _ => GateScope::Team,
    }
}

/// The environments a template names, with globs: by its label, its annotation and its spec.
pub fn applied_environments(gate: &PolicyGate) -> Vec<&str> {
    let label = gate.metadata.label(labels::APPLIES_TO).into_iter();
    let annotation =
        gate.metadata.annotation(labels::APPLIES_TO).into_iter().flat_map(|list| list.split(','));
    let spec = gate.spec.applies_to.iter().map(String::as_str);
    label.chain(annotation).chain(spec).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Returns true if a template applies to an environment of a pipeline with these labels.
pub fn gate_applies(
    gate: &PolicyGate,
    environment: &str,
    pipeline_labels: &BTreeMap<String, String>,
) -> bool {
    let names = |pattern: &&str| *pattern == environment || matches_glob(pattern, environment);
    applied_environments(gate).iter().any(names) && selects(gate, pipeline_labels)
}

/// Compares a name with a pattern. Most patterns are a name or a beginning, for which no expression is compiled.
fn matches_glob(pattern: &str, name: &str) -> bool {
    let is_plain = |text: &str| !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
    match pattern.strip_suffix('*') {
        _ if is_plain(pattern) => false,
        Some(start) if is_plain(start) => name.starts_with(start),
        _ => Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name)),
    }
}

/// A selector that cannot be read selects every pipeline: a broken gate must not let anything through.
fn selects(gate: &PolicyGate, pipeline_labels: &BTreeMap<String, String>) -> bool {
    if gate.spec.selector.is_empty() {
        return true;
    }
    match LabelSelector::from_object(&Value::Object(gate.spec.selector.clone())) {
        Ok(Some(selector)) => selector.matches(|key| pipeline_labels.get(key).map(String::as_str)),
        Ok(None) | Err(_) => true,
    }
}
