//! The signals of new pods: readiness, restarts, warnings.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use slipway_manifest::{Gvk, object};

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
        let selector = selector.join(",");
        let sets = self.list(&Gvk::new("apps", "v1", "ReplicaSet"), &selector).await?;
        let pods = self.list(&Gvk::new("", "v1", "Pod"), &selector).await?;
        let mut uids: BTreeSet<&str> = std::iter::once(&live).chain(&sets).filter_map(object::uid).collect();
        for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            seen.pods += 1;
            uids.extend(object::uid(pod));
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            seen.ready += usize::from(conditions.into_iter().any(is_ready));
            let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            seen.restarts += containers.filter_map(|status| status["restartCount"].as_u64()).sum::<u64>();
        }
        seen.warnings = warnings_about(&uids, &self.list(&Gvk::new("", "v1", "Event"), "").await?);
        Ok(seen)
    }
}

/// The warnings about objects, but those that are part of starting up. Objects are told by their uids: a Service may have the
/// name of its Deployment, and events of one that was deleted stay for an hour.
fn warnings_about(uids: &BTreeSet<&str>, events: &[Value]) -> BTreeSet<String> {
    let mut warnings = BTreeSet::new();
    for event in events {
        let reason = event["reason"].as_str().unwrap_or_default();
        let about = &event["involvedObject"];
        let is_about = about["uid"].as_str().is_some_and(|uid| uids.contains(uid));
        if event["type"] == "Warning" && is_about && !USUAL_REASONS.contains(&reason) {
            warnings.insert(format!("{reason}: {}", about["name"].as_str().unwrap_or_default()));
        }
    }
    warnings
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_are_those_about_the_workload_itself() {
        let event = |kind: &str, reason: &str, uid: &str| json!({"type": kind, "reason": reason, "involvedObject": {"name": "shop-canary", "uid": uid}});
        let events = [
            event("Warning", "FailedCreate", "set"),
            event("Normal", "Pulled", "pod"),
            event("Warning", "Unhealthy", "pod"),
            // A Service of the same name, and a Deployment that was deleted.
            event("Warning", "ClusterIPNotAllocated", "service"),
            event("Warning", "ProgressDeadlineExceeded", "deployment before"),
            json!({"type": "Warning", "reason": "Odd"}),
        ];
        let found = warnings_about(&BTreeSet::from(["deployment", "set", "pod"]), &events);
        assert_eq!(found, BTreeSet::from(["FailedCreate: shop-canary".to_owned()]));
    }
}
