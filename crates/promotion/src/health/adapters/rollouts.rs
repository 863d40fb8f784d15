//! Argo Rollouts: a Rollout, proven by the images of its pod template.

use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};

use super::{
    Adapter, Finding, Freshness, Seen, condition, condition_text, group_kind, is_observed, one_line, text_at,
};
use crate::health::image::template_images;
use crate::health::proof::{change_freshness, image_freshness};
use crate::kinds::{DelegationStatus, DeliveryDelegate, HealthLevel};

/// A Rollout.
pub(super) struct Rollout;

impl Adapter for Rollout {
    fn kinds(&self) -> Vec<Gvk> {
        group_kind("argoproj.io", &["v1alpha1"], "Rollout")
    }

    fn related(&self, value: &Value) -> Option<ObjectRef> {
        // The pod template may be another workload's.
        let workload = value.pointer("/spec/workloadRef")?;
        let gvk = Gvk::from_api_version(text_at(workload, "/apiVersion"), text_at(workload, "/kind"));
        Some(ObjectRef::new(gvk, object::namespace(value), text_at(workload, "/name")))
    }

    fn freshness(&self, seen: &Seen<'_>) -> Freshness {
        if !is_observed(seen.object) {
            return Freshness::stale("NotUpdated", "not seen by its controller yet");
        }
        let template = seen.related.unwrap_or(seen.object);
        match image_freshness(&template_images(template), seen.proof) {
            Freshness::Neutral => change_freshness(seen.object, seen.baseline, seen.proof),
            judged => judged,
        }
    }

    fn health(&self, seen: &Seen<'_>) -> Finding {
        let status = &seen.object["status"];
        let told = one_line(status["message"].as_str().unwrap_or_default());
        if status["abort"] == true {
            let why = condition(seen.object, "Progressing").map(condition_text).unwrap_or(told);
            return Finding::new(
                HealthLevel::Failed,
                "DelegateAborted",
                format!("the rollout was aborted: {why}"),
            );
        }
        let phase = status["phase"].as_str().unwrap_or_default();
        let message = if told.is_empty() { phase.to_owned() } else { format!("{phase}: {told}") };
        let (current, stable) = (seen.text("/status/currentPodHash"), seen.text("/status/stableRS"));
        match phase {
            "Healthy" if current == stable => Finding::healthy("Healthy"),
            "Healthy" => Finding::progressing("Progressing", "the new version is not the stable one yet"),
            "Degraded" => Finding::new(HealthLevel::Failed, "Degraded", message),
            "Paused" => Finding::progressing("Paused", paused_text(seen.object)),
            "" => Finding::progressing("Progressing", "has no phase yet"),
            _ => Finding::progressing("Progressing", message),
        }
    }

    fn delegation(&self, object: &Value) -> Option<DelegationStatus> {
        let status = &object["status"];
        Some(DelegationStatus {
            delegate: DeliveryDelegate::ArgoRollouts,
            status: match status["abort"] == true {
                true => "Aborted".to_owned(),
                false => status["phase"].as_str().unwrap_or("Unknown").to_owned(),
            },
            weight: weight(object),
            step: status["currentStepIndex"].as_i64(),
        })
    }
}

/// The share of traffic of the new version: as the router reports it, or as the last step set it.
fn weight(object: &Value) -> Option<i64> {
    if let Some(weight) = object.pointer("/status/canary/weights/canary/weight").and_then(Value::as_i64) {
        return Some(weight);
    }
    let done = usize::try_from(object.pointer("/status/currentStepIndex")?.as_i64()?).ok()?;
    let steps = object.pointer("/spec/strategy/canary/steps")?.as_array()?;
    let set = steps.iter().take(done).filter_map(|step| step["setWeight"].as_i64()).next_back();
    // After the last step all traffic goes to the new version.
    Some(if done >= steps.len() { 100 } else { set.unwrap_or(0) })
}

/// `paused at step 1 of 4 (CanaryPauseStep)`.
fn paused_text(object: &Value) -> String {
    let step = object.pointer("/status/currentStepIndex").and_then(Value::as_i64);
    let steps = object.pointer("/spec/strategy/canary/steps").and_then(Value::as_array).map(Vec::len);
    let reason = object.pointer("/status/pauseConditions/0/reason").and_then(Value::as_str);
    let place = match (step, steps) {
        (Some(step), Some(steps)) => format!(" at step {step} of {steps}"),
        _ => String::new(),
    };
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("paused{place}{reason}")
}
