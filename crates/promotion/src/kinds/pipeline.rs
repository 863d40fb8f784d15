//! Pipeline: the environments a version passes and where they are kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{Condition, conditions_schema};
use super::duration::GoDuration;
use super::environment::{DeploymentLayout, EnvironmentSpec};
use super::promotion_step::StepState;
use super::reference::SecretRef;
use super::resource::{KindSpec, Resource};

/// A pipeline of environments.
pub type Pipeline = Resource<PipelineSpec>;

impl KindSpec for PipelineSpec {
    type Status = PipelineStatus;
    const KIND: &'static str = "Pipeline";
    const PLURAL: &'static str = "pipelines";
    const SHORT_NAMES: &'static [&'static str] = &["pipe"];
}

/// The environments a version passes, in order, and the repository they are kept in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineSpec {
    pub git: GitSpec,
    /// The environments; each follows the one before it unless it says otherwise.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub environments: Vec<EnvironmentSpec>,
    /// Namespaces whose gates apply, in addition to those of the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_namespaces: Vec<String>,
    /// Mirrors whether the pipeline is held; the freeze gate decides.
    #[serde(default, skip_serializing_if = "super::resource::is_false")]
    pub paused: bool,
    /// Terminal bundles that are kept.
    #[serde(default = "default_history_limit")]
    #[schemars(range(min = 1))]
    pub history_limit: u32,
    /// Bundles that may be promoted at once; 0 is no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub max_concurrent_promotions: u32,
    /// The treatment of older bundles when a newer one starts.
    #[serde(default)]
    pub supersede: SupersedePolicy,
    #[serde(default)]
    pub rollback: RollbackSpec,
}

fn default_history_limit() -> u32 {
    20
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The repository a pipeline writes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSpec {
    /// The address of the GitOps repository.
    #[schemars(regex(pattern = r"^(https?://|ssh://|git@|file://).+"), length(max = 2048))]
    pub url: String,
    /// The base branch.
    #[serde(default = "default_branch")]
    pub branch: String,
    #[serde(default)]
    pub layout: DeploymentLayout,
    /// The branch of sources in the branch layout; the base branch when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_branch: Option<String>,
    /// The beginning of the names of rendered branches.
    #[serde(default = "default_branch_prefix")]
    pub branch_prefix: String,
    #[serde(default)]
    pub provider: ScmProvider,
    /// The API of a self-hosted provider; derived from `url` when absent.
    #[serde(default, rename = "apiURL", skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// The Secret with the credentials: its name, or `{name, namespace}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    #[serde(default)]
    pub webhook_mode: WebhookMode,
    /// The time between two looks at a pull request in polling mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<GoDuration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitSpec>,
}

fn default_branch() -> String {
    "main".to_owned()
}

fn default_branch_prefix() -> String {
    "env/".to_owned()
}

/// The author and signature of commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommitSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_secret_ref: Option<SecretRef>,
}

/// The software that serves pull requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScmProvider {
    #[default]
    GitHub,
    GitLab,
    Gitea,
    Forgejo,
    Bitbucket,
    AzureDevOps,
    None,
}

/// The way merges are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookMode {
    #[default]
    Webhook,
    Polling,
}

/// The treatment of older bundles when a newer one starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SupersedePolicy {
    #[default]
    Newer,
    Never,
    Queue,
}

/// The answer to a failed promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollbackSpec {
    pub on_failure: RollbackMode,
    pub scope: RollbackScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RollbackMode {
    #[default]
    Pr,
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RollbackScope {
    #[default]
    All,
    FailedOnly,
}

/// The state of a pipeline and of each environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PipelineStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PipelinePhase>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The newest bundle that is promoted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_bundle: Option<String>,
    /// Each environment with its version, for lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_summary: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub environments: Vec<PipelineEnvironmentStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_metrics: Option<DeploymentMetrics>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PipelinePhase {
    Ready,
    Degraded,
    Promoting,
    Paused,
    Unknown,
}

/// The version an environment runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineEnvironmentStatus {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_bundle: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StepState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The environment no longer runs what was promoted.
    #[serde(default, skip_serializing_if = "super::resource::is_false")]
    pub drift: bool,
    /// The ways in which it differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift_details: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_since: Option<Timestamp>,
}

/// Figures of the last thirty bundles that reached the last environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentMetrics {
    pub rollouts_last30_days: u32,
    pub p50_commit_to_prod_minutes: i64,
    pub p90_commit_to_prod_minutes: i64,
    pub auto_rollback_rate_millis: u32,
    pub operator_intervention_rate_millis: u32,
    /// -1 where nothing ever reached the last environment.
    pub stale_prod_days: i64,
    pub sample_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed_at: Option<Timestamp>,
}

/// Values by name.
pub type TextMap = BTreeMap<String, String>;
