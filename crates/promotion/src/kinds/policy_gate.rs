//! PolicyGate: a condition an environment must meet. Templates and the gates of a bundle share the kind.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::conditions::{Condition, conditions_schema};
use super::duration::GoDuration;
use super::labels;
use super::reference::{SecretRef, any_object_schema};
use super::resource::{KindSpec, Resource, is_false};

/// A condition an environment must meet.
pub type PolicyGate = Resource<PolicyGateSpec>;

impl KindSpec for PolicyGateSpec {
    type Status = PolicyGateStatus;
    const KIND: &'static str = "PolicyGate";
    const PLURAL: &'static str = "policygates";
    const SHORT_NAMES: &'static [&'static str] = &["pg"];
}

impl PolicyGate {
    /// A gate of a bundle, as opposed to a template.
    pub fn is_instance(&self) -> bool {
        self.metadata.label(labels::INSTANCE) == Some("true")
            || self.metadata.labels.contains_key(labels::BUNDLE)
            || self.metadata.controller().is_some_and(|owner| owner.kind == "Graph")
    }

    /// The namespace of the pipeline and bundle an instance belongs to.
    pub fn bundle_namespace(&self) -> &str {
        self.spec.bundle_namespace.as_deref().unwrap_or(&self.metadata.namespace)
    }

    /// The use of a template, by its label.
    pub fn gate_type(&self) -> GateType {
        match self.metadata.label(labels::GATE_TYPE) {
            Some("skip-permission") => GateType::SkipPermission,
            Some("freeze-bypass") => GateType::FreezeBypass,
            _ => GateType::Gate,
        }
    }
}

/// A gate a step needs, as `requiredGates` names it: `name`, or `namespace/name` where it stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateRef {
    pub namespace: String,
    pub name: String,
}

impl GateRef {
    /// Reads an entry of `requiredGates`; a bare name stands in the namespace of the step.
    pub fn parse(entry: &str, step_namespace: &str) -> Self {
        let (namespace, name) = entry.split_once('/').unwrap_or((step_namespace, entry));
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// The use of a gate template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateType {
    /// Holds promotions.
    Gate,
    /// Allows a bundle to leave an environment out.
    SkipPermission,
    /// Allows an emergency bundle through a freeze.
    FreezeBypass,
}

/// An expression that must be true before, or while, a bundle gets into an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyGateSpec {
    /// A CEL expression that gives a boolean; an external gate may leave it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub expression: String,
    /// Shown while the gate blocks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub message: String,
    /// The longest time between two evaluations.
    #[serde(default = "default_recheck")]
    pub recheck_interval: GoDuration,
    #[serde(default)]
    pub when: GateTiming,
    /// The environments a template applies to, with globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applies_to: Vec<String>,
    /// The labels of pipelines a template applies to.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object_schema")]
    pub selector: Map<String, Value>,
    /// Kept for older templates; grants nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_permission: bool,
    #[serde(default = "default_true")]
    pub overridable: bool,
    /// Entries are added, never changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub overrides: Vec<GateOverride>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalGate>,
    /// The metric checks under `metrics`; all in reach when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_refs: Vec<String>,
    /// Instances: the scope the template was trusted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<GateScope>,
    /// Instances: the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// Instances: the environment behind the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Instances: the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_ref: Option<String>,
    /// Instances: the namespace of the bundle, where it is not that of the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_namespace: Option<String>,
    /// Instances: the state of the one environment before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_environment: Option<String>,
    /// Instances: the states of the environments before, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream_environments: Vec<String>,
    /// Instances: the names of the environments before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream_names: Vec<String>,
    /// Instances: the approval of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<super::environment::ApprovalMode>,
    /// Instances: the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
}

fn default_recheck() -> GoDuration {
    GoDuration::from_mins(5)
}

fn default_true() -> bool {
    true
}

/// When a gate has to be open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateTiming {
    /// Before the step of the environment exists.
    #[default]
    PrePromotion,
    /// Before the step begins.
    PreDeploy,
    /// While health is checked, before the environment is verified.
    PostDeploy,
}

/// Whoever a gate binds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GateScope {
    /// Everybody; trusted only from the namespaces of the controller.
    Org,
    #[default]
    Team,
    System,
    /// The consumer of a contract.
    Contract,
    /// The members of a group.
    Group,
}

/// A decision to let promotions through although the gate says no.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateOverride {
    #[schemars(length(min = 1))]
    pub reason: String,
    /// The environment; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// A gate somebody else decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalGate {
    /// The address that is asked; none for answers that are pushed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    #[serde(default)]
    pub mode: ExternalMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExternalMode {
    #[default]
    Poll,
    Push,
}

/// The template an instance was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRef {
    pub namespace: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default)]
    pub generation: i64,
}

/// The last evaluation of a gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyGateStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<GatePhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_evaluation_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_blocked_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_at: Option<Timestamp>,
    /// The attributes that were read.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object_schema")]
    pub values: Map<String, Value>,
    /// The earliest moment the gate may open by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Timestamp>,
    /// Whatever the gate waits for until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_basis: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalGateStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum GatePhase {
    Pass,
    Block,
    Pending,
    Error,
    Overridden,
}

/// The last answer of an external gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalGateStatus {
    /// None until there is an answer that can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object_schema")]
    pub data: Map<String, Value>,
    /// Why the last question got no answer that can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
