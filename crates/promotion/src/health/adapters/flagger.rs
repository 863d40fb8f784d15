//! Flagger: a Canary, proven by its primary workload, or by a transition newer than the baseline.

use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};

use super::{
    Adapter, Finding, Freshness, Seen, condition, condition_text, group_kind, object_baseline, text_at,
};
use crate::health::image::template_images;
use crate::health::proof::image_freshness;
use crate::kinds::{DelegationStatus, DeliveryDelegate, HealthLevel, ObjectBaseline};

/// A Canary.
pub(super) struct Canary;

impl Adapter for Canary {
    fn kinds(&self) -> Vec<Gvk> {
        group_kind("flagger.app", &["v1beta1"], "Canary")
    }

    fn related(&self, value: &Value) -> Option<ObjectRef> {
        // Flagger copies the target there once the analysis has succeeded.
        let target = value.pointer("/spec/targetRef")?;
        let gvk = Gvk::from_api_version(text_at(target, "/apiVersion"), text_at(target, "/kind"));
        let is_workload = matches!(gvk.kind.as_str(), "Deployment" | "DaemonSet");
        let name = format!("{}-primary", text_at(target, "/name"));
        is_workload.then(|| ObjectRef::new(gvk, object::namespace(value), name))
    }

    fn baseline(&self, object: &Value) -> ObjectBaseline {
        let phase = text_at(object, "/status/phase");
        ObjectBaseline {
            phase: (!phase.is_empty()).then(|| phase.to_owned()),
            transition: Some(transition(object)),
            ..object_baseline(object)
        }
    }

    fn freshness(&self, seen: &Seen<'_>) -> Freshness {
        let phase = seen.text("/status/phase");
        if seen.proof.no_change {
            return Freshness::Proven;
        }
        // Before it was initialized there was no version to confuse with the new one.
        let is_first = match seen.baseline {
            Some(before) => matches!(before.phase.as_deref(), None | Some("" | "Initializing")),
            None => seen.proof.baseline.is_some(),
        };
        let has_moved = seen
            .baseline
            .is_some_and(|before| before.transition.as_deref() != Some(&*transition(seen.object)));
        if !is_first && !has_moved {
            return Freshness::stale("StaleRollout", format!("{phase} since before the push"));
        }
        // The end of another rollout does not count: the primary must run the new images.
        let primary = seen.related.map(template_images).unwrap_or_default();
        match image_freshness(&primary, seen.proof) {
            Freshness::Stale { message, .. } if matches!(phase, "Succeeded" | "Initialized") => {
                Freshness::stale("StaleImage", format!("the primary {message}"))
            }
            _ => Freshness::Proven,
        }
    }

    fn health(&self, seen: &Seen<'_>) -> Finding {
        let phase = seen.text("/status/phase");
        let told = condition(seen.object, "Promoted").map(condition_text).unwrap_or_default();
        let message = if told.is_empty() { phase.to_owned() } else { format!("{phase}: {told}") };
        match phase {
            "Succeeded" => Finding::healthy(message),
            "Initialized" => Finding::healthy("the first version is in place"),
            // Flagger has taken the cluster back already; Git has to follow.
            "Failed" => Finding::new(HealthLevel::Failed, "DelegateAborted", message),
            "Terminating" | "Terminated" => Finding::progressing("Terminating", message),
            "" => Finding::progressing("Progressing", "has no phase yet"),
            _ => Finding::progressing("Progressing", message),
        }
    }

    fn delegation(&self, object: &Value) -> Option<DelegationStatus> {
        let status = &object["status"];
        Some(DelegationStatus {
            delegate: DeliveryDelegate::Flagger,
            status: status["phase"].as_str().unwrap_or("Unknown").to_owned(),
            weight: status["canaryWeight"].as_i64(),
            step: status["iterations"].as_i64(),
        })
    }
}

/// Changes whenever a rollout starts or ends.
fn transition(object: &Value) -> String {
    let spec = text_at(object, "/status/lastAppliedSpec");
    format!("{spec}@{}", text_at(object, "/status/lastTransitionTime"))
}
