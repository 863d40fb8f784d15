//! The past of a pipeline: what came where, when and by whom.

use jiff::Timestamp;
use serde::Serialize;

use crate::kinds::{Bundle, BundlePhase, Evidence, StepState};

/// Something that happened to an environment.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    pub bundle: String,
    pub version: String,
    pub action: HistoryAction,
    pub environment: String,
    #[serde(rename = "prURL", skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    pub approvers: Vec<String>,
    /// From the start of the step to its end, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<i64>,
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HistoryAction {
    Promote,
    Rollback,
    Superseded,
    Failed,
}

impl HistoryAction {
    pub fn word(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Rollback => "rollback",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
        }
    }
}

/// Lists what happened to the environments of a pipeline, or to one of them, the newest first.
pub fn promotion_history(bundles: &[Bundle], environment: Option<&str>) -> Vec<HistoryEntry> {
    let mut entries: Vec<HistoryEntry> = Vec::new();
    for bundle in bundles {
        let version = bundle.spec.version();
        for (name, record) in &bundle.status.environments {
            if environment.is_some_and(|wanted| wanted != name) {
                continue;
            }
            let Some(state) = record.state else { continue };
            let action = match state {
                StepState::Verified if bundle.is_rollback() => HistoryAction::Rollback,
                StepState::Verified => HistoryAction::Promote,
                StepState::Failed | StepState::AbortedByAlarm => HistoryAction::Failed,
                StepState::Cancelled => HistoryAction::Superseded,
                _ if bundle.phase() == BundlePhase::Superseded => HistoryAction::Superseded,
                _ => continue,
            };
            let end = record.verified_at.or(record.failed_at).or(record.promoted_at);
            let Some(at) = end.or(record.started_at).or(bundle.metadata.creation_timestamp) else { continue };
            let evidence = record.evidence.clone();
            let mut approvers = evidence.as_ref().map(|one| one.approved_by.clone()).unwrap_or_default();
            if approvers.is_empty() {
                approvers.extend(record.merged_by.clone());
            }
            entries.push(HistoryEntry {
                bundle: bundle.name().to_owned(),
                version: version.clone(),
                action,
                environment: name.clone(),
                pr_url: record.pr_url.clone(),
                approvers,
                duration_seconds: record
                    .started_at
                    .zip(end)
                    .map(|(from, to)| to.duration_since(from).as_secs().max(0)),
                at,
                reason: record.reason.clone(),
                evidence,
            });
        }
    }
    entries.sort_by(|one, two| {
        (two.at, &one.bundle, &one.environment).cmp(&(one.at, &two.bundle, &two.environment))
    });
    entries
}
