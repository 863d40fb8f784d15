//! The signals of new pods: readiness, restarts, warnings.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use slipway_manifest::Gvk;

use super::canary::name_of;
use super::rollout::Scene;
use super::settings::SignalSettings;
use crate::error::UnitError;

/// Reasons of warnings that are part of starting up.
const USUAL_REASONS: [&str; 3] = ["Unhealthy", "FailedScheduling", "NodeNotReady"];

/// What was seen of the pods of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObservedSignals {
    pub(crate) workload: String,
    pub(crate) pods: usize,
    pub(crate) ready: usize,
    pub(crate) restarts: u64,
    /// Warnings of the cluster, as `reason: object`.
    pub(crate) warnings: BTreeSet<String>,
}

impl Scene<'_> {
    /// Looks at the pods a Deployment selects.
    pub(crate) async fn observe_signals(&self, deployment: &str) -> Result<ObservedSignals, UnitError> {
        let mut seen = ObservedSignals { workload: deployment.to_owned(), ..ObservedSignals::default() };
        let Some(live) = self.cluster.get(&self.deployment(deployment)).await? else { return Ok(seen) };
        let labels = live.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let selector: Vec<String> = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let pods = self.list(&Gvk::new("", "v1", "Pod"), &selector.join(",")).await?;
        let mut names: BTreeSet<&str> = BTreeSet::from([deployment]);
        for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            seen.pods += 1;
            names.insert(name_of(pod));
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            seen.ready += usize::from(conditions.into_iter().any(is_ready));
            let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            seen.restarts += containers.filter_map(|status| status["restartCount"].as_u64()).sum::<u64>();
        }
        for event in self.list(&Gvk::new("", "v1", "Event"), "").await? {
            let reason = event["reason"].as_str().unwrap_or_default();
            let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
            if event["type"] == "Warning" && names.contains(about) && !USUAL_REASONS.contains(&reason) {
                seen.warnings.insert(format!("{reason}: {about}"));
            }
        }
        Ok(seen)
    }
}

impl ObservedSignals {
    /// The reason the signals do not allow to go on.
    pub(crate) fn objection(&self, settings: &SignalSettings) -> Option<String> {
        let Self { workload, pods, ready, restarts, warnings } = self;
        if settings.readiness && (*pods == 0 || ready < pods) {
            return Some(format!("{ready} of {pods} pods of Deployment/{workload} are ready"));
        }
        if *restarts > settings.restart_budget {
            let budget = settings.restart_budget;
            return Some(format!(
                "pods of Deployment/{workload} restarted {restarts} times, {budget} are allowed"
            ));
        }
        if settings.events && !warnings.is_empty() {
            let told: Vec<&str> = warnings.iter().take(3).map(String::as_str).collect();
            return Some(format!("the cluster warns of Deployment/{workload}: {}", told.join(", ")));
        }
        None
    }
}
