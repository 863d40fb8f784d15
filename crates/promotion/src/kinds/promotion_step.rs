//! PromotionStep: a bundle on its way into one environment. Created by Graphs only.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{Condition, conditions_schema};
use super::duration::GoDuration;
use super::environment::{
    ApprovalMode, AutoRollbackSpec, BakeSpec, DeliveryDelegate, DeliverySpec, DeploymentLayout,
    HealthFailurePolicy, HealthSpec, StepSpec, UpdateSpec,
};
use super::evidence::Evidence;
use super::health_record::{HealthBaseline, HealthObservation};
use super::pipeline::{GitSpec, TextMap};
use super::resource::{KindSpec, Resource, is_false};

/// A bundle on its way into one environment.
pub type PromotionStep = Resource<PromotionStepSpec>;

impl KindSpec for PromotionStepSpec {
    type Status = PromotionStepStatus;
    const KIND: &'static str = "PromotionStep";
    const PLURAL: &'static str = "promotionsteps";
    const SHORT_NAMES: &'static [&'static str] = &["ps"];
}

impl PromotionStep {
    /// The state; a step nobody looked at yet is pending.
    pub fn state(&self) -> StepState {
        self.status.state.unwrap_or_default()
    }
}

/// Everything the step needs, as it was when the Graph was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionStepSpec {
    #[serde(alias = "pipelineName")]
    pub pipeline: String,
    pub environment: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(alias = "bundleName")]
    pub bundle_ref: String,
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub layout: DeploymentLayout,
    #[serde(default, skip_serializing_if = "is_false")]
    pub render_manifests: bool,
    #[serde(default)]
    pub git: GitSpec,
    #[serde(default)]
    pub update: UpdateSpec,
    #[serde(default)]
    pub approval: ApprovalMode,
    #[serde(default, skip_serializing_if = "is_false")]
    pub pr: bool,
    /// The steps to carry out, in order; the usual ones when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSpec>,
    #[serde(default)]
    pub health: HealthSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliverySpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bake: Option<BakeSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_health_failure: Option<HealthFailurePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_rollback: Option<AutoRollbackSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_merge_timeout: Option<GoDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub step_timeout_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The state of the one environment before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_verified: Option<String>,
    /// The states of the environments before this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream_states: Vec<String>,
    /// The names of the environments before this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream_environments: Vec<String>,
    /// The gates that must be open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_gates: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: TextMap,
}

/// The progress of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PromotionStepStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StepState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The name of the step that runs, for lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step_index: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepProgress>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: TextMap,
    /// Counts executions from the beginning; an older execution gives up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(rename = "prURL", skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr_repo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_branch: Option<String>,
    #[serde(rename = "headSHA", skip_serializing_if = "Option::is_none")]
    pub head_sha: Option<String>,
    #[serde(rename = "mergeSHA", skip_serializing_if = "Option::is_none")]
    pub merge_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_by: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The first push, or the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_expiry: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_merge_expiry: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_check_at: Option<Timestamp>,
    /// When the step was held; deadlines move by that time when it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since: Option<Timestamp>,
    /// The gates as the pull request shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_gates: Option<PublishedGates>,
    /// A rebuilt branch that is about to be pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<BranchRefresh>,
    /// What health looked like before anything was pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_baseline: Option<HealthBaseline>,
    /// The last look at health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthObservation>,
    #[serde(skip_serializing_if = "super::pipeline::is_zero")]
    pub consecutive_health_failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bake_started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bake_elapsed_minutes: Option<u32>,
    #[serde(skip_serializing_if = "super::pipeline::is_zero")]
    pub bake_resets: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated_to: Option<DeliveryDelegate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated_status: Option<String>,
    /// The share of traffic the new version has, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated_weight: Option<u32>,
    /// The step of the rollout, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated_step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// The gates as a pull request shows them; what is unchanged is not sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishedGates {
    /// The commit, state and text of the commit status.
    pub check: String,
    /// A hash of the table in the comment.
    pub table: String,
    /// When the comment was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A promotion branch rebuilt on a newer base, written down before it is pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchRefresh {
    pub head: String,
    pub base: String,
}

/// Where a promotion into an environment stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StepState {
    #[default]
    Pending,
    Promoting,
    WaitingForMerge,
    HealthChecking,
    Verified,
    Failed,
    AbortedByAlarm,
    RollingBack,
    Cancelled,
}

impl StepState {
    /// Nothing more is going to happen in this environment.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Verified | Self::Failed | Self::AbortedByAlarm | Self::Cancelled)
    }

    /// The environment did not take the version.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::AbortedByAlarm)
    }
}

/// The progress of one entry of `spec.steps`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    pub name: String,
    #[serde(default)]
    pub state: StepProgressState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "super::pipeline::is_zero")]
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StepProgressState {
    #[default]
    Pending,
    InProgress,
    Completed,
    Failed,
    Skipped,
}
