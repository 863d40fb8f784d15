//! Gates in one line each.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::kinds::{ConditionStatus, GateScope, GateType, PolicyGate, find_condition, labels};
use crate::translate::{applied_environments, applying, trusted_scope};

/// A gate template: whom it binds, where, and whether it can be used.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateOverview {
    pub name: String,
    pub namespace: String,
    pub scope: GateScope,
    /// `gate`, `skip-permission`, `freeze-bypass` or `freeze`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub applies_to: Vec<String>,
    pub recheck_interval: String,
    /// None before a controller has looked at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiled: Option<bool>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    pub expression: String,
    pub message: String,
    /// Overrides that are in force.
    pub overrides: usize,
}

impl GateOverview {
    pub fn new(gate: &PolicyGate, policy_namespaces: &BTreeSet<String>, now: Timestamp) -> Self {
        let compiled = find_condition(&gate.status.conditions, "Compiled");
        let is_freeze = gate.metadata.label(labels::FREEZE) == Some("true");
        let kind = match gate.gate_type() {
            GateType::Gate if is_freeze => "freeze",
            GateType::Gate => "gate",
            GateType::SkipPermission => "skip-permission",
            GateType::FreezeBypass => "freeze-bypass",
        };
        let in_force = gate.spec.overrides.iter().filter(|one| one.expires_at.is_none_or(|end| now < end));
        Self {
            name: gate.name().to_owned(),
            namespace: gate.namespace().to_owned(),
            scope: trusted_scope(gate, policy_namespaces),
            kind,
            applies_to: applied_environments(gate).into_iter().map(str::to_owned).collect(),
            recheck_interval: gate.spec.recheck_interval.to_string(),
            compiled: compiled.map(|compiled| compiled.status == ConditionStatus::True),
            problem: compiled
                .filter(|compiled| compiled.status == ConditionStatus::False)
                .map(|compiled| compiled.message.clone()),
            expression: gate.spec.expression.clone(),
            message: gate.spec.message.clone(),
            overrides: in_force.count(),
        }
    }
}

/// The gate templates that hold promotions into an environment, with the scope they are trusted with; org gates first.
pub fn applying_gates<'g>(
    templates: &'g [PolicyGate],
    environment: &str,
    pipeline_labels: &BTreeMap<String, String>,
    policy_namespaces: &BTreeSet<String>,
) -> Vec<(GateScope, &'g PolicyGate)> {
    applying(templates, environment, pipeline_labels, policy_namespaces)
}
