//! Requests: what is wanted of a release.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use slipway_cluster::helm::{Release, StorageDriver};
use slipway_source::{Document, LoadedSource, RenderedSource};

use crate::name::{Namespace, ReleaseName};
use crate::policy::PolicyCheck;
use crate::resource::DeployType;
use crate::resource::transform::ExtraMetadata;

/// The time at which what the release no longer has is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PruneOrder {
    /// Before anything new is applied.
    Before,
    /// Once everything new is ready.
    #[default]
    After,
}

/// Settings of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanOptions {
    /// Take over objects that belong to nobody or somebody else.
    pub force_adoption: bool,
    pub no_install_crds: bool,
    /// Leave fields changed with `kubectl edit` alone.
    pub keep_manual_changes: bool,
    pub no_final_tracking: bool,
    /// Waits for hooks even so.
    pub track_hooks: bool,
    /// Added to all objects and kept in the release.
    pub extra: ExtraMetadata,
    /// Added to all objects when they are applied.
    pub runtime: ExtraMetadata,
    pub prune_order: PruneOrder,
    pub driver: StorageDriver,
    pub release_labels: BTreeMap<String, String>,
    /// Notes on the revision itself, kept in its record.
    pub info_annotations: BTreeMap<String, String>,
    pub description: Option<String>,
    pub skip_schema_validation: bool,
    pub subchart_notes: bool,
    /// Deletes keep the last revision as `uninstalled`.
    pub keep_history: bool,
    /// Leave hooks out.
    pub no_hooks: bool,
    /// Of list entries with one key (environment variables, ports) only the last is sent, with a warning,
    /// as client-side tools do; otherwise the server refuses them.
    pub normalise: bool,
    /// Makes a new revision even if nothing changed.
    pub new_revision: bool,
    /// The treatment of dependents by deletes, unless the object says.
    pub propagation: crate::resource::Propagation,
    /// The policies the plan is held against; one that is to be executed and denied is refused.
    #[serde(skip)]
    pub policy: Option<Arc<PolicyCheck>>,
    #[serde(skip)]
    pub missing_namespace: MissingNamespace,
    #[serde(skip)]
    pub purpose: PlanPurpose,
}

/// The treatment of a deploy whose namespace does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingNamespace {
    /// The plan creates it.
    #[default]
    Create,
    /// A plan that is to be executed is refused.
    Refuse,
}

/// The reason a plan is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanPurpose {
    /// To be looked at, by somebody who may have no right to execute it.
    #[default]
    Preview,
    /// To be executed: a missing right to record the revision or to take the lock is a problem of the plan.
    Execute,
}

/// The origin of a release's objects.
#[derive(Clone, Debug)]
pub enum ReleaseContent {
    /// A source, rendered for the revision it becomes.
    Source(Arc<LoadedSource>),
    Rendered(Box<RenderedSource>),
    /// A stored revision; none is the last one that was good.
    Revision(Option<u32>),
    /// A record made before for a type of deploy, with what is kept aside of it: for saved plans.
    Record(Box<Release>, DeployType, Vec<Document>),
    /// Nothing: the release goes away.
    Nothing,
    /// The tests of the last revision.
    Tests(TestFilter),
}

/// The tests to run, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestFilter {
    /// Only these; all if empty.
    pub only: Vec<String>,
    pub without: Vec<String>,
}

impl TestFilter {
    /// Returns true if a test is to run.
    pub fn admits(&self, name: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|only| only == name))
            && !self.without.iter().any(|without| without == name)
    }
}

/// A state of a release that is asked for.
#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    pub name: ReleaseName,
    pub namespace: Namespace,
    pub content: ReleaseContent,
    pub options: PlanOptions,
}
