//! The record of one revision of a release, field for field as Helm has it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The status of a revision.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RevisionStatus {
    #[default]
    Unknown,
    Deployed,
    Uninstalled,
    Superseded,
    Failed,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
}

impl RevisionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            RevisionStatus::Unknown => "unknown",
            RevisionStatus::Deployed => "deployed",
            RevisionStatus::Uninstalled => "uninstalled",
            RevisionStatus::Superseded => "superseded",
            RevisionStatus::Failed => "failed",
            RevisionStatus::Uninstalling => "uninstalling",
            RevisionStatus::PendingInstall => "pending-install",
            RevisionStatus::PendingUpgrade => "pending-upgrade",
            RevisionStatus::PendingRollback => "pending-rollback",
        }
    }

    pub fn is_pending(self) -> bool {
        matches!(
            self,
            RevisionStatus::PendingInstall | RevisionStatus::PendingUpgrade | RevisionStatus::PendingRollback
        )
    }
}

impl fmt::Display for RevisionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word no Helm ever wrote reads as `unknown`.
impl From<&str> for RevisionStatus {
    fn from(word: &str) -> RevisionStatus {
        use RevisionStatus::*;
        [
            Deployed,
            Uninstalled,
            Superseded,
            Failed,
            Uninstalling,
            PendingInstall,
            PendingUpgrade,
            PendingRollback,
        ]
        .into_iter()
        .find(|status| status.as_str() == word)
        .unwrap_or(Unknown)
    }
}

impl<'de> Deserialize<'de> for RevisionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RevisionStatus, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?;
        Ok(RevisionStatus::from(word.as_deref().unwrap_or_default()))
    }
}

/// A moment as Helm writes it, kept to the letter; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct HelmTime(String);

impl HelmTime {
    pub fn is_zero(&self) -> bool {
        // Go's zero time is a moment too.
        self.0.is_empty() || self.0.starts_with("0001-01-01T00:00:00")
    }

    pub fn timestamp(&self) -> Option<Timestamp> {
        if self.is_zero() { None } else { Timestamp::from_str(&self.0).ok() }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Timestamp> for HelmTime {
    fn from(at: Timestamp) -> HelmTime {
        HelmTime(at.to_string())
    }
}

impl fmt::Display for HelmTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for HelmTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HelmTime, D::Error> {
        Ok(HelmTime(Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// Go writes an empty list or map as `null` now and then.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// One revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Release {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub info: RevisionInfo,
    #[serde(default, deserialize_with = "or_default")]
    pub chart: ChartRecord,
    /// The values the user set; the chart's own values are in the chart.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The revision.
    #[serde(default, deserialize_with = "or_default")]
    pub version: u32,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `ssa` or `csa`; since Helm 4.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub apply_method: String,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// Labels of the stored object that are not Helm's own; not part of the record.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
}

/// The times, status and description of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RevisionInfo {
    #[serde(default)]
    pub first_deployed: HelmTime,
    #[serde(default)]
    pub last_deployed: HelmTime,
    #[serde(default)]
    pub deleted: HelmTime,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default)]
    pub status: RevisionStatus,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Nelm's own.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// The revision rolled back to; since Helm 4.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub rollback_revision: u32,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The chart as stored: `metadata` and `values` matter, the rest may be left out to save room.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChartRecord {
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
    #[serde(default)]
    pub lock: Value,
    /// A list of `{"name", "data"}` with base64 data.
    #[serde(default)]
    pub templates: Value,
    #[serde(default, deserialize_with = "or_default")]
    pub values: Map<String, Value>,
    /// Base64.
    #[serde(default)]
    pub schema: Value,
    #[serde(default)]
    pub files: Value,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ChartRecord {
    fn metadata_text(&self, field: &str) -> &str {
        self.metadata.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.metadata_text("name")
    }

    pub fn version(&self) -> &str {
        self.metadata_text("version")
    }

    pub fn app_version(&self) -> &str {
        self.metadata_text("appVersion")
    }

    /// Leaves out what no Helm command needs afterwards: bodies of templates and files, the schema.
    pub fn drop_file_contents(&mut self) {
        self.templates = Value::Array(Vec::new());
        self.files = Value::Array(Vec::new());
        self.schema = Value::Null;
    }
}

/// One hook of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hook {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The template it came from.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub path: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// `pre-install`, `post-upgrade` and so on.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub last_run: HookRun,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_weightless")]
    pub weight: i64,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn is_weightless(weight: &i64) -> bool {
    *weight == 0
}

/// The times and phase of a hook's last run: `Unknown`, `Running`, `Succeeded`, `Failed` or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HookRun {
    #[serde(default)]
    pub started_at: HelmTime,
    #[serde(default)]
    pub completed_at: HelmTime,
    #[serde(default, deserialize_with = "or_default")]
    pub phase: String,
}
