//! The part of a step's status that remembers health: the state before the push, and the last look.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::{DeliveryDelegate, HealthType};

/// The state of the observed objects before anything was pushed. Health counts only with a proof that it is newer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthBaseline {
    pub adapter: HealthType,
    pub taken_at: Timestamp,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectBaseline>,
}

impl HealthBaseline {
    /// The state of an object, by its printed reference; `None` when it did not exist or was not looked at.
    pub fn find(&self, object: &str) -> Option<&ObjectBaseline> {
        self.objects.iter().find(|known| known.object == object)
    }
}

/// The state of one object before the push.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectBaseline {
    /// `Kind namespace/name`.
    pub object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The revision the tool had applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// A hash of the pod template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Changes whenever the tool starts or ends a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transition: Option<String>,
}

/// The last look at the health of an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthObservation {
    /// The adapter that looked: `argocd`, or `resource(fallback)`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub adapter: String,
    pub level: HealthLevel,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When level and reason became what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The revision the tool reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_revision: Option<String>,
    /// When the environment was first healthy with the new version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Timestamp>,
    /// Since when the observed object is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_since: Option<Timestamp>,
    /// Since when the cluster has not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<DelegationStatus>,
}

/// The health of an environment.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum HealthLevel {
    /// Runs the new version and is well.
    Healthy,
    /// The cluster did not answer; says nothing about health.
    #[default]
    Unknown,
    /// On its way.
    Progressing,
    /// Not well, which may pass.
    Degraded,
    /// Not well, and will not become well by itself.
    Failed,
}

/// The progress of a rollout that another controller carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DelegationStatus {
    pub delegate: DeliveryDelegate,
    /// The controller's own word: `Paused`, `WaitingPromotion`.
    pub status: String,
    /// The share of traffic the new version gets, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// The step of the rollout, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
}
