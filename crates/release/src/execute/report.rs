//! The result of a run.

use std::fmt;

use serde::Serialize;
use slipway_cluster::CallCounts;

use crate::name::{Namespace, ReleaseName, Revision};
use crate::plan::{KeptObject, ReleasePlan};
use crate::resource::DeployType;

/// The end of a run, as reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseStatus {
    Deployed,
    Failed,
    /// There was nothing to do.
    Skipped,
    Uninstalled,
    Tested,
}

impl ReleaseStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Uninstalled => "uninstalled",
            Self::Tested => "tested",
        }
    }

    /// The end of a run that went well.
    pub(super) fn success_of(deploy_type: DeployType) -> Self {
        match deploy_type {
            DeployType::Delete => Self::Uninstalled,
            DeployType::Test => Self::Tested,
            DeployType::Install | DeployType::Upgrade | DeployType::Rollback => Self::Deployed,
        }
    }
}

impl fmt::Display for ReleaseStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReport {
    /// The version of this format.
    pub version: u32,
    pub release: ReleaseName,
    pub namespace: Namespace,
    pub revision: Revision,
    pub status: ReleaseStatus,
    pub completed_operations: Vec<String>,
    pub canceled_operations: Vec<String>,
    pub failed_operations: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The result of undoing it after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Box<ReleaseReport>>,
    /// The graph of undoing it after a failure, as Graphviz reads it.
    #[serde(skip)]
    pub rollback_graph: Option<String>,
    /// Objects a delete left, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptObject>,
    /// The requests it took, those of the plan included.
    pub requests: CallCounts,
}

impl ReleaseReport {
    /// The report of a run that has done nothing yet.
    pub(super) fn new(plan: &ReleasePlan, status: ReleaseStatus) -> Self {
        Self {
            version: 3,
            release: plan.name.clone(),
            namespace: plan.namespace.clone(),
            revision: plan.revision(),
            status,
            completed_operations: Vec::new(),
            canceled_operations: Vec::new(),
            failed_operations: Vec::new(),
            notes: plan.release.info.notes.clone(),
            rollback: None,
            rollback_graph: None,
            kept: Vec::new(),
            requests: CallCounts::default(),
        }
    }

    /// The report of a plan with nothing to do.
    pub(super) fn of_idle_plan(plan: &ReleasePlan, requests: CallCounts) -> Self {
        Self {
            revision: plan.history.last_revision().into(),
            requests,
            ..Self::new(plan, ReleaseStatus::Skipped)
        }
    }
}
