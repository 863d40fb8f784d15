//! A bundle in one line, and how far it has come.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::kinds::{Bundle, BundlePhase, BundleType, StepState, find_condition};

/// A bundle: what it is, where it comes from, how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleOverview {
    pub name: String,
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(rename = "type")]
    pub kind: BundleType,
    pub version: String,
    pub phase: BundlePhase,
    /// Why it is in this phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(rename = "commitSHA", skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    pub images: Vec<String>,
    pub environments: BTreeMap<String, StepState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    pub pinned: bool,
    pub rollback: bool,
    pub emergency: bool,
}

impl From<&Bundle> for BundleOverview {
    fn from(bundle: &Bundle) -> Self {
        let provenance = bundle.spec.provenance.clone().unwrap_or_default();
        let ready = find_condition(&bundle.status.conditions, "Ready");
        let image = |image: &crate::kinds::ImageArtifact| {
            let reference = if image.reference.is_empty() { &image.name } else { &image.reference };
            match &image.digest {
                Some(digest) => format!("{reference}@{digest}"),
                None => reference.clone(),
            }
        };
        let records = bundle.status.environments.iter();
        Self {
            name: bundle.name().to_owned(),
            namespace: bundle.namespace().to_owned(),
            pipeline: bundle.pipeline().map(str::to_owned),
            kind: bundle.spec.kind,
            version: bundle.spec.version(),
            phase: bundle.phase(),
            reason: ready.map(|ready| ready.reason.clone()),
            message: ready.map(|ready| ready.message.clone()).filter(|message| !message.is_empty()),
            commit_sha: provenance.commit_sha,
            author: provenance.author,
            images: bundle.spec.artifacts.images.iter().map(image).collect(),
            environments: records.filter_map(|(name, record)| Some((name.clone(), record.state?))).collect(),
            created_at: bundle.metadata.creation_timestamp,
            pinned: bundle.is_pinned(),
            rollback: bundle.is_rollback(),
            emergency: bundle.is_emergency(),
        }
    }
}

/// The answer to "is it there yet?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleReach {
    /// Verified in the environment, or everywhere.
    Reached,
    /// On its way.
    UnderWay,
    /// It will not come.
    Ended { phase: BundlePhase, reason: String },
}

/// Tells whether a bundle has reached an environment, or its end where none is named.
pub fn bundle_reach(bundle: &Bundle, environment: Option<&str>) -> BundleReach {
    let record = environment.and_then(|name| bundle.status.environments.get(name));
    let state = record.and_then(|record| record.state);
    if state == Some(StepState::Verified) || bundle.phase() == BundlePhase::Verified {
        return BundleReach::Reached;
    }
    let failed = state.filter(|state| state.is_failure() || *state == StepState::Cancelled);
    if failed.is_none() && !bundle.phase().is_terminal() {
        return BundleReach::UnderWay;
    }
    let told = record.and_then(|record| record.reason.clone());
    let ready = || find_condition(&bundle.status.conditions, "Ready").map(|ready| ready.message.clone());
    let superseded = || bundle.status.superseded_by.as_ref().map(|by| format!("superseded by {by}"));
    let reason = told.or_else(superseded).or_else(ready).unwrap_or_default();
    let phase = if failed.is_some() { BundlePhase::Failed } else { bundle.phase() };
    BundleReach::Ended { phase, reason }
}
