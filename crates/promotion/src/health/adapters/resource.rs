//! Workloads of Kubernetes itself: Deployment, StatefulSet, DaemonSet, or any kind with a condition.

use serde_json::Value;
use slipway_cluster::track::{Readiness, ReadinessContext, readiness_of};
use slipway_manifest::{Gvk, object};

use super::{Adapter, Finding, Freshness, Seen, condition, condition_status, condition_text};
use crate::health::image::template_images;
use crate::health::proof::{change_freshness, image_freshness};
use crate::kinds::HealthLevel;

/// A workload, proven by its images.
pub(super) struct Workload;

impl Adapter for Workload {
    fn kinds(&self) -> Vec<Gvk> {
        vec![Gvk::new("apps", "v1", "Deployment")]
    }

    fn freshness(&self, seen: &Seen<'_>) -> Freshness {
        match image_freshness(&template_images(seen.object), seen.proof) {
            Freshness::Neutral => match change_freshness(seen.object, seen.baseline, seen.proof) {
                // Not every workload of a group has a part in every change.
                Freshness::Stale { .. } if seen.has_peers => Freshness::Neutral,
                judged => judged,
            },
            judged => judged,
        }
    }

    fn health(&self, seen: &Seen<'_>) -> Finding {
        let object = seen.object;
        if condition_status(object, "ReplicaFailure") == Some("True") {
            let told = condition(object, "ReplicaFailure").map(condition_text).unwrap_or_default();
            return Finding::new(HealthLevel::Failed, "ReplicaFailure", told);
        }
        match readiness_of(object, &ReadinessContext::default()) {
            Readiness::Ready => condition_health(seen),
            Readiness::Resting(why) => Finding::progressing("Paused", why),
            Readiness::Failed(why) => Finding::new(HealthLevel::Failed, "ProgressDeadlineExceeded", why),
            // Was well with this version and no longer serves: that is an alarm, not progress.
            Readiness::Progressing(why) if seen.was_healthy() && is_unavailable(object) => {
                Finding::new(HealthLevel::Degraded, "Unavailable", why)
            }
            Readiness::Progressing(why) => Finding::progressing("Progressing", why),
        }
    }
}

/// Judges the condition asked for, or `Available` of a Deployment.
fn condition_health(seen: &Seen<'_>) -> Finding {
    let is_deployment = object::kind(seen.object) == Some("Deployment");
    let Some(wanted) = seen.condition.or_else(|| is_deployment.then_some("Available")) else {
        return Finding::healthy("all replicas are ready");
    };
    match condition(seen.object, wanted) {
        Some(found) if found["status"] == "True" => Finding::healthy(format!("{wanted} is True")),
        Some(found) => {
            let told = condition_text(found);
            let level = if seen.was_healthy() { HealthLevel::Degraded } else { HealthLevel::Progressing };
            Finding::new(level, "ConditionNotMet", format!("{wanted} is not True: {told}"))
        }
        None => Finding::progressing("ConditionNotMet", format!("has no condition {wanted} yet")),
    }
}

/// Too few replicas serve: by the Deployment's own measure, or none at all.
fn is_unavailable(object: &Value) -> bool {
    let none = |field: &str| object["status"][field].as_i64().unwrap_or_default() == 0;
    match object::kind(object) {
        Some("StatefulSet") => none("readyReplicas"),
        Some("DaemonSet") => none("numberAvailable"),
        _ => condition_status(object, "Available") == Some("False"),
    }
}
