//! A pipeline in one line.

use jiff::Timestamp;
use serde::Serialize;

use crate::gate::freeze::ActiveFreeze;
use crate::kinds::{Bundle, Pipeline, PipelinePhase, StepState, find_condition};
use crate::pipeline::environment_statuses;

/// A pipeline: the version in each environment and how it stands there.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineOverview {
    pub name: String,
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PipelinePhase>,
    pub paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_bundle: Option<String>,
    pub environments: Vec<EnvironmentOverview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The reason the pipeline does not work, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An environment: the version that runs and the one on its way.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentOverview {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StepState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The environment no longer runs what was promoted.
    pub drift: bool,
}

impl EnvironmentOverview {
    /// The version with a sign of how it stands: `1.29.0 ✓`, `1.28.0 ↑`.
    pub fn cell(&self) -> String {
        let sign = match self.state {
            None | Some(StepState::Cancelled) => "",
            Some(StepState::Verified) => " ✓",
            Some(StepState::Pending | StepState::Promoting) => " ↑",
            Some(StepState::WaitingForMerge) => " ⏸",
            Some(StepState::HealthChecking) => " …",
            Some(StepState::Failed | StepState::AbortedByAlarm) => " ✗",
            Some(StepState::RollingBack) => " ↓",
        };
        let drift = if self.drift { " (drift)" } else { "" };
        format!("{}{sign}{drift}", self.version.as_deref().unwrap_or("-"))
    }
}

impl PipelineOverview {
    /// Sums a pipeline up; `bundles` are all of it.
    pub fn new(pipeline: &Pipeline, bundles: &[Bundle], freeze: Option<&ActiveFreeze>) -> Self {
        let environments = environment_statuses(pipeline, bundles).into_iter().map(|status| {
            let current = status.current_bundle.as_deref();
            let version =
                bundles.iter().find(|one| Some(one.name()) == current).map(|one| one.spec.version());
            EnvironmentOverview {
                name: status.name,
                version: status.current_version.or(version),
                bundle: status.current_bundle,
                state: status.state,
                since: status.since,
                drift: status.drift,
            }
        });
        let ready = find_condition(&pipeline.status.conditions, "Ready");
        let problem = ready.filter(|_| pipeline.status.phase == Some(PipelinePhase::Degraded));
        Self {
            name: pipeline.name().to_owned(),
            namespace: pipeline.namespace().to_owned(),
            phase: pipeline.status.phase,
            paused: freeze.is_some() || pipeline.spec.paused,
            active_bundle: pipeline.status.active_bundle.clone(),
            environments: environments.collect(),
            created_at: pipeline.metadata.creation_timestamp,
            problem: problem.map(|ready| format!("{}: {}", ready.reason, ready.message)),
        }
    }
}
