//! One environment of a pipeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::duration::GoDuration;
use super::pipeline::TextMap;
use super::reference::{ObjectName, SecretRef, any_object_schema};
use super::resource::is_false;

/// An environment: its files, its approval, and the proof that it is healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSpec {
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Labels that gates may read.
    #[serde(default, skip_serializing_if = "TextMap::is_empty")]
    pub labels: TextMap,
    /// The directory of the environment; `environments/<name>` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
    /// The environments to come after; the one before it when absent, none when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    /// Comes after every environment of the wave before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wave: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateSpec>,
    #[serde(default)]
    pub approval: ApprovalMode,
    /// Opens a pull request also where nobody has to approve, and merges it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pr: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_merge_timeout: Option<GoDuration>,
    /// The longest one call of a step may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub step_timeout_seconds: Option<u32>,
    /// The steps; those of `promotionTemplate` or the usual ones when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSpec>,
    #[serde(default, alias = "stepsRef", skip_serializing_if = "Option::is_none")]
    pub promotion_template: Option<ObjectName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliverySpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bake: Option<BakeSpec>,
    /// The answer to failed health; that of the pipeline when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_health_failure: Option<HealthFailurePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_rollback: Option<AutoRollbackSpec>,
    /// The agent that carries steps of this environment out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Regions the environment is promoted to side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub regions: Vec<String>,
    /// Overrides the layout of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<DeploymentLayout>,
    /// Renders manifests; also when the layout is `branch`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub render_manifests: bool,
}

/// The place of an environment in the repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeploymentLayout {
    /// A directory of the base branch.
    #[default]
    Directory,
    /// A branch of rendered manifests.
    Branch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// Promoted without a person.
    #[default]
    Auto,
    /// Promoted by merging a pull request.
    PrReview,
}

/// The way manifests get the new version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateSpec {
    pub strategy: UpdateStrategy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmUpdate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<ReplaceUpdate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argocd: Option<ArgoCdUpdate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigUpdate>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UpdateStrategy {
    #[default]
    Kustomize,
    Helm,
    Replace,
    ArgoCd,
    Oci,
}

/// The places of images in a values file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmUpdate {
    pub values_file: String,
    pub image_path_template: String,
    /// Adds a path that is missing instead of failing.
    #[serde(skip_serializing_if = "is_false")]
    pub create_if_missing: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<HelmImagePaths>,
}

impl Default for HelmUpdate {
    fn default() -> Self {
        Self {
            values_file: "values.yaml".to_owned(),
            image_path_template: ".image.tag".to_owned(),
            create_if_missing: false,
            images: Vec::new(),
        }
    }
}

/// The places of one image in a values file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmImagePaths {
    /// The repository or name of the image.
    pub repository: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_path: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplaceUpdate {
    pub rules: Vec<ReplaceRule>,
}

/// A regular expression whose first group is replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceRule {
    pub file: String,
    pub regex: String,
    /// `tag`, `digest` or `reference` of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ArgoCdUpdate {
    pub application: String,
    pub namespace: String,
    pub image_key: String,
}

impl Default for ArgoCdUpdate {
    fn default() -> Self {
        Self { application: String::new(), namespace: "argocd".to_owned(), image_key: "image.tag".to_owned() }
    }
}

/// The way a configuration commit gets into an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigUpdate {
    pub strategy: ConfigStrategy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_path: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigStrategy {
    #[default]
    CherryPick,
    Overlay,
}

/// One step of a promotion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepSpec {
    /// A built-in step, or a name of one's own with an address to call.
    #[schemars(length(min = 1, max = 63))]
    pub uses: String,
    /// The name of the step where one is used twice.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object_schema")]
    pub config: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookStep>,
    /// Left out unless this holds.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
}

impl StepSpec {
    /// A step without settings.
    pub fn named(uses: &str) -> Self {
        Self { uses: uses.to_owned(), ..Self::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStep {
    pub url: String,
    #[serde(default = "default_webhook_seconds")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

fn default_webhook_seconds() -> u32 {
    300
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrySpec {
    #[schemars(range(min = 1, max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<GoDuration>,
}

/// The proof that an environment is healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthSpec {
    /// Found out from what the cluster serves when absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub adapter: Option<HealthType>,
    /// 10 minutes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
    /// The Secret with the kubeconfig of another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceHealth>,
    /// All matching Deployments must be healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<TextMap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argocd: Option<ObjectName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux: Option<ObjectName>,
    #[serde(rename = "helmrelease", skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<ObjectName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_rollouts: Option<ObjectName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flagger: Option<ObjectName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HealthType {
    Resource,
    #[serde(rename = "argocd")]
    ArgoCd,
    Flux,
    #[serde(rename = "helmrelease")]
    HelmRelease,
    ArgoRollouts,
    Flagger,
    None,
}

/// A workload and the condition it must meet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceHealth {
    /// `Deployment` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `Available` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeliverySpec {
    pub delegate: DeliveryDelegate,
}

/// Whoever rolls a version out progressively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryDelegate {
    #[default]
    None,
    ArgoRollouts,
    Flagger,
}

/// A time an environment must stay healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BakeSpec {
    #[schemars(range(min = 1))]
    pub minutes: u32,
    #[serde(default)]
    pub policy: BakePolicy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BakePolicy {
    #[default]
    ResetOnAlarm,
    FailOnAlarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthFailurePolicy {
    Rollback,
    Abort,
    None,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoRollbackSpec {
    /// Failed checks in a row that count as a failure.
    #[serde(default = "default_failure_threshold")]
    #[schemars(range(min = 1))]
    pub failure_threshold: u32,
}

fn default_failure_threshold() -> u32 {
    3
}
