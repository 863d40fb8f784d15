//! Subscription: makes bundles of what appears in a registry or a repository.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::{BundleType, Intent};
use super::conditions::{Condition, conditions_schema};
use super::duration::GoDuration;
use super::pipeline::TextMap;
use super::reference::SecretRef;
use super::resource::{KindSpec, Resource, is_false};

/// Looks for new versions and makes bundles of them.
pub type Subscription = Resource<SubscriptionSpec>;

impl KindSpec for SubscriptionSpec {
    type Status = SubscriptionStatus;
    const KIND: &'static str = "Subscription";
    const PLURAL: &'static str = "subscriptions";
    const SHORT_NAMES: &'static [&'static str] = &["sub"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// The pipeline the bundles are for.
    #[schemars(length(min = 1))]
    pub pipeline: String,
    pub source: SubscriptionSource,
    /// What bundles have besides their artifacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_template: Option<BundleTemplate>,
    /// Looks for nothing while it is set.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// Makes a bundle of what is found first; otherwise that is only the version later ones are compared with.
    #[serde(default, skip_serializing_if = "is_false")]
    pub create_on_first_poll: bool,
}

/// The place versions appear in; the part that `type` names counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSource {
    #[serde(rename = "type")]
    pub kind: SourceType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<GitSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_chart: Option<ChartSource>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SourceType {
    #[default]
    Image,
    GitCommit,
    HelmChart,
}

/// Tags of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    #[schemars(length(min = 1))]
    pub repository: String,
    /// The name manifests use for the image; the repository when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A range of versions, as in `>=1.2.0 <2.0.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    /// A regular expression whole tags must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_tags: Vec<String>,
    #[serde(default)]
    pub strategy: TagStrategy,
    #[serde(default = "default_interval")]
    pub interval: GoDuration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Talks to the registry without TLS.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
}

/// The way the newest tag is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TagStrategy {
    /// The highest version.
    #[default]
    Semver,
    /// The image that was built last.
    NewestBuild,
    /// The last tag in the order of letters.
    Lexical,
    /// The one tag that `tagFilter` names, whenever it points to another image.
    Digest,
}

/// Commits of a branch, or tags of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    #[schemars(length(min = 1))]
    pub repository: String,
    #[serde(default = "default_branch")]
    pub branch: String,
    /// A directory; commits that change nothing in it are passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Globs; a commit counts when it changes a file that matches one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_paths: Vec<String>,
    /// Globs of files that do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_paths: Vec<String>,
    #[serde(default = "default_interval")]
    pub interval: GoDuration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// Versions of a chart in a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSource {
    /// `oci://registry/path`, without the name of the chart.
    #[serde(rename = "repoURL")]
    #[schemars(length(min = 1))]
    pub repo_url: String,
    #[schemars(length(min = 1))]
    pub name: String,
    /// A range of versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    #[serde(default = "default_interval")]
    pub interval: GoDuration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
}

fn default_interval() -> GoDuration {
    GoDuration::from_mins(5)
}

fn default_branch() -> String {
    "main".to_owned()
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleTemplate {
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub labels: TextMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<BundleType>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SubscriptionPhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_checked_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_poll_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_digest: Option<String>,
    #[serde(rename = "lastSeenSHA", skip_serializing_if = "Option::is_none")]
    pub last_seen_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_bundle_created: Option<String>,
    /// The refresh annotation that was obeyed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refreshed: Option<String>,
    #[serde(skip_serializing_if = "super::pipeline::is_zero")]
    pub failures: u32,
    /// The last versions that were found, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discovered: Vec<DiscoveredVersion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SubscriptionPhase {
    Watching,
    Idle,
    Error,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredVersion {
    /// A tag, a version or a commit.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub found_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
}
