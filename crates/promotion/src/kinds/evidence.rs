//! Evidence: what was known when an environment was verified.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::GoDuration;
use super::policy_gate::GateScope;
use super::resource::is_false;

/// Measurements, approvals and gate results of a promotion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    /// The value of each metric check.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// The time from the first gate that blocked to the last that passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate_duration: Option<GoDuration>,
    pub approved_by: Vec<String>,
    pub policy_gates: Vec<GateEvidence>,
}

/// The result of one gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateEvidence {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<GateScope>,
    #[serde(default)]
    pub result: GateResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub overridden: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateResult {
    Pass,
    #[default]
    Fail,
    Override,
}
