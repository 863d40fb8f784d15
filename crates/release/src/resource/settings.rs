//! The settings of a resource: what its annotations ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use slipway_cluster::track::FieldCondition;
use slipway_manifest::{Gvk, ObjectId};

use crate::stage::Stage;

/// The reason a release is planned.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeployType {
    Install,
    Upgrade,
    Rollback,
    Delete,
    Test,
}

impl DeployType {
    /// Tells that a revision is made.
    pub fn makes_revision(self) -> bool {
        matches!(self, Self::Install | Self::Upgrade | Self::Rollback)
    }
}

/// The owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    Release,
    Anyone,
}

/// The time at which an object goes away by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletePolicy {
    BeforeCreation,
    BeforeCreationIfImmutable,
    Succeeded,
    Failed,
}

/// The treatment of an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Propagation {
    #[default]
    Foreground,
    Background,
    Orphan,
}

/// Selects objects of the release; absent parts match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectSelector {
    pub group: Option<String>,
    pub version: Option<String>,
    pub kind: Option<String>,
    /// Empty for the release's own namespace and for objects of the whole cluster.
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl ObjectSelector {
    /// Exactly one object, in any version.
    pub fn exactly(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            group: Some(group.to_owned()),
            version: None,
            kind: Some(kind.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
        }
    }

    pub fn matches(&self, gvk: &Gvk, id: &ObjectId) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.group, &gvk.group)
            && is(&self.version, &gvk.version)
            && is(&self.kind, &gvk.kind)
            && is(&self.namespace, &id.namespace)
            && is(&self.name, &id.name)
    }
}

impl std::fmt::Display for ObjectSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("group", &self.group),
            ("version", &self.version),
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
        ];
        let mut first = true;
        for (key, value) in parts {
            if let Some(value) = value {
                write!(f, "{}{key}={value}", if first { "" } else { "," })?;
                first = false;
            }
        }
        Ok(())
    }
}

/// The state of another object that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedState {
    Present,
    Ready,
    Absent,
}

/// A dependency written by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectNeed {
    /// The annotation it is written in.
    pub annotation: String,
    pub selector: ObjectSelector,
    pub state: NeedState,
}

/// Something outside of the release an object waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalNeed {
    pub annotation: String,
    pub target: ExternalTarget,
    /// `None` is the release's.
    pub namespace: Option<String>,
    pub name: String,
}

/// The kind of an external dependency, as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalTarget {
    Kind(Gvk),
    /// As kubectl names it: `deploy`, `deployments.v1.apps`.
    Word(String),
}

/// The consequence of a failed object for the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    #[default]
    Fail,
    Ignore,
}

/// Rules by which readiness and logs of an object are followed.
#[derive(Clone, Debug, Default)]
pub struct TrackingSettings {
    /// Do not wait for it.
    pub non_blocking: bool,
    pub fail_mode: FailMode,
    pub failures_allowed_per_replica: Option<u64>,
    pub ignore_probe_failures: BTreeMap<String, Duration>,
    pub no_activity_timeout: Option<Duration>,
    /// Time limit for becoming ready; zero for none.
    pub ready_timeout: Option<Duration>,
    pub log_regex: Option<Regex>,
    pub log_regex_for: BTreeMap<String, Regex>,
    pub log_regex_skip: Option<Regex>,
    pub log_regex_skip_for: BTreeMap<String, Regex>,
    pub skip_logs: bool,
    pub skip_logs_for: Vec<String>,
    pub logs_only_for: Vec<String>,
    pub logs_replicas: Option<u64>,
    pub service_messages: bool,
    pub ready_when: Option<FieldCondition>,
    pub failed_when: Option<FieldCondition>,
}

/// Everything annotations say about one object.
#[derive(Clone, Debug)]
pub struct ResourceSettings {
    pub deploy_on: Vec<(DeployType, Stage)>,
    /// `None` when a dependency written by hand takes its place, or when it comes last.
    pub weight: Option<i64>,
    /// A webhook configuration without a place of its own: deployed once the rest of its stage is ready, for
    /// until then the server could not reach what serves it.
    pub comes_last: bool,
    pub ownership: Ownership,
    pub delete_policies: Vec<DeletePolicy>,
    pub skip_create: bool,
    pub skip_update: bool,
    pub skip_recreate: bool,
    pub skip_delete: bool,
    pub propagation: Option<Propagation>,
    pub replicas_on_creation: Option<u64>,
    pub needs: Vec<ObjectNeed>,
    pub delete_needs: Vec<ObjectNeed>,
    pub externals: Vec<ExternalNeed>,
    pub tracking: TrackingSettings,
    /// Fields left to others: `spec.replicas`.
    pub ignore_fields: Vec<String>,
    /// The object itself states some resource policy.
    pub states_policy: bool,
}

impl ResourceSettings {
    pub fn has_delete_policy(&self, policy: DeletePolicy) -> bool {
        self.delete_policies.contains(&policy)
    }
}
