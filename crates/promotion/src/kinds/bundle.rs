//! Bundle: a version to promote. Its spec never changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{Condition, conditions_schema};
use super::evidence::Evidence;
use super::labels;
use super::pipeline_group::{GroupMemberStatus, GroupVersion};
use super::promotion_step::StepState;
use super::reference::SecretRef;
use super::resource::{KindSpec, Resource, is_false};

/// A version to promote.
pub type Bundle = Resource<BundleSpec>;

impl KindSpec for BundleSpec {
    type Status = BundleStatus;
    const KIND: &'static str = "Bundle";
    const PLURAL: &'static str = "bundles";
    const SHORT_NAMES: &'static [&'static str] = &["bnd"];
}

impl Bundle {
    /// The pipeline the bundle belongs to: by its spec, or by its label.
    pub fn pipeline(&self) -> Option<&str> {
        let named = self.spec.pipeline.as_deref().or_else(|| self.metadata.label(labels::PIPELINE));
        named.filter(|name| !name.is_empty())
    }

    pub fn is_pinned(&self) -> bool {
        self.metadata.annotation(labels::PIN) == Some("true")
    }

    pub fn is_rollback(&self) -> bool {
        self.metadata.label(labels::ROLLBACK) == Some("true")
    }

    pub fn is_emergency(&self) -> bool {
        self.metadata.label(labels::EMERGENCY) == Some("true")
    }

    /// The phase; a bundle nobody looked at yet is available.
    pub fn phase(&self) -> BundlePhase {
        self.status.phase.unwrap_or_default()
    }
}

/// The artifacts of a version, where they come from, and where they are meant to go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", from = "BundleSpecForm")]
pub struct BundleSpec {
    #[serde(rename = "type")]
    pub kind: BundleType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(skip_serializing_if = "Artifacts::is_empty")]
    pub artifacts: Artifacts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The PipelineGroup of a bundle of the type `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The versions of its members, by alias.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, GroupVersion>,
}

impl BundleSpec {
    /// The version: the tag of the first image, the chart's version, or the first eight characters of the commit.
    pub fn version(&self) -> String {
        let image = self.artifacts.images.first().map(|image| image.version().to_owned());
        let chart = || self.artifacts.helm_chart.as_ref().and_then(|chart| chart.version.clone());
        let commit = || self.artifacts.git_commit.as_ref().map(|commit| commit.sha.chars().take(8).collect());
        image.or_else(chart).or_else(commit).unwrap_or_default()
    }

    /// The intent, empty when none is written.
    pub fn intent(&self) -> Intent {
        self.intent.clone().unwrap_or_default()
    }
}

/// A spec as it is written, with the older names of fields.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct BundleSpecForm {
    /// The artifacts a bundle has.
    #[serde(rename = "type")]
    kind: BundleType,
    /// The pipeline; the label `kardinal.io/pipeline` when absent.
    pipeline: Option<String>,
    artifacts: Artifacts,
    provenance: Option<Provenance>,
    intent: Option<Intent>,
    /// The PipelineGroup of a bundle of the type `group`.
    group: Option<String>,
    /// The versions of its members, by alias.
    members: BTreeMap<String, GroupVersion>,
    /// Older form of `artifacts.images`.
    images: Vec<OlderImage>,
    /// Older form of `artifacts.gitCommit`.
    config_ref: Option<OlderConfig>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OlderImage {
    repository: String,
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    digest: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OlderConfig {
    git_repo: String,
    #[serde(rename = "commitSHA")]
    commit_sha: String,
}

impl From<BundleSpecForm> for BundleSpec {
    fn from(form: BundleSpecForm) -> Self {
        let mut artifacts = form.artifacts;
        artifacts.images.extend(form.images.into_iter().map(|image| {
            let tag = image.tag.filter(|tag| !tag.is_empty());
            ImageArtifact {
                reference: tag
                    .map_or_else(|| image.repository.clone(), |tag| format!("{}:{tag}", image.repository)),
                name: image.repository,
                digest: image.digest,
            }
        }));
        if let (None, Some(config)) = (&artifacts.git_commit, form.config_ref) {
            let commit =
                GitCommit { repository: config.git_repo, sha: config.commit_sha, ..GitCommit::default() };
            artifacts.git_commit = Some(commit);
        }
        Self {
            kind: form.kind,
            pipeline: form.pipeline,
            artifacts,
            provenance: form.provenance,
            intent: form.intent,
            group: form.group,
            members: form.members,
        }
    }
}

/// The artifacts a bundle has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BundleType {
    #[default]
    Image,
    Config,
    Mixed,
    /// Versions of the members of a group, promoted by bundles of their own.
    Group,
}

impl BundleType {
    pub fn has_images(self) -> bool {
        matches!(self, Self::Image | Self::Mixed)
    }

    pub fn has_config(self) -> bool {
        matches!(self, Self::Config | Self::Mixed)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifacts {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub images: Vec<ImageArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<GitCommit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_chart: Option<HelmChart>,
}

impl Artifacts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A container image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageArtifact {
    /// The name manifests use for the image.
    pub name: String,
    /// The repository, with a tag.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[a-f0-9]{64}$"))]
    pub digest: Option<String>,
}

impl ImageArtifact {
    /// The reference without tag and digest; the name when there is no reference.
    pub fn repository(&self) -> &str {
        let reference = if self.reference.is_empty() { &self.name } else { &self.reference };
        let reference = reference.split_once('@').map_or(reference.as_str(), |(before, _)| before);
        self.tag().map_or(reference, |tag| &reference[..reference.len() - tag.len() - 1])
    }

    /// The tag of the reference.
    pub fn tag(&self) -> Option<&str> {
        let reference = self.reference.split_once('@').map_or(self.reference.as_str(), |(before, _)| before);
        // A colon before the last slash belongs to the port of the registry.
        let (_, tag) = reference.rsplit_once(':')?;
        (!tag.is_empty() && !tag.contains('/')).then_some(tag)
    }

    /// The tag, or the digest where there is none.
    pub fn version(&self) -> &str {
        self.tag().or(self.digest.as_deref()).unwrap_or_default()
    }
}

/// A commit of a configuration repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitCommit {
    pub repository: String,
    #[schemars(regex(pattern = "^[0-9a-f]{7,64}$"))]
    pub sha: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChart {
    #[serde(rename = "repoURL", skip_serializing_if = "Option::is_none")]
    pub repo_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The origin of a version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Provenance {
    #[serde(rename = "commitSHA", skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<String>,
    #[serde(rename = "ciRunURL", skip_serializing_if = "Option::is_none")]
    pub ci_run_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(alias = "timestamp", skip_serializing_if = "Option::is_none")]
    pub build_timestamp: Option<Timestamp>,
    /// The bundle this one takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<String>,
    /// The bundle whose artifacts these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<String>,
    /// The configuration commits a rollback takes back, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub reverted_commits: Vec<GitCommit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sbom_ref: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attestations: Vec<String>,
}

/// The environments a bundle is meant for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Intent {
    /// The last environment; all when absent.
    #[serde(alias = "targetEnvironment", skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Environments that are left out, where policy allows it.
    #[serde(alias = "skipEnvironments", skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// The first environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// The progress of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph_ref: Option<String>,
    /// A hash of what admission read; a refused bundle is looked at again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission_hash: Option<String>,
    /// The generation of the pipeline the Graph was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_spec_hash: Option<String>,
    /// The steps the Graph was made with, by `<environment>` or `<environment>/<region>`; others are not carried out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub step_definitions: BTreeMap<String, StepDefinition>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, BundleEnvironmentStatus>,
    /// The bundles of a group's members, by alias.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, GroupMemberStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BundleMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// A newer bundle that takes over once an environment has settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersede_pending: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Hashes of a step's spec, as it was when the Graph was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepDefinition {
    /// The repository, branches, directory, files and shard.
    pub placement: String,
    /// Everything; absent for Graphs people write, whose steps may differ from the pipeline's in other ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum BundlePhase {
    #[default]
    Available,
    Promoting,
    Verified,
    Failed,
    Superseded,
    SkipDenied,
}

impl BundlePhase {
    /// Nothing more is going to happen to the bundle.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Available | Self::Promoting)
    }
}

/// A bundle in one environment; the record of a promotion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleEnvironmentStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StepState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The first push, or the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    /// The moment soak time counts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_since: Option<Timestamp>,
    #[serde(rename = "prURL", skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    #[serde(rename = "commitSHA", skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Left out by intent; `reason` names the permission.
    #[serde(skip_serializing_if = "is_false")]
    pub skipped: bool,
    /// The bundle that took the environment back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleMetrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_to_production_minutes: Option<i64>,
    pub bake_resets: u32,
    pub auto_rollbacks: u32,
    pub operator_interventions: u32,
}
