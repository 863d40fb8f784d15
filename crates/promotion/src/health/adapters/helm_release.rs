//! Flux: a HelmRelease, proven by the Kustomization that applied it, or by its own generation and history.

use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};

use super::{
    Adapter, Finding, Freshness, Seen, condition, condition_status, condition_text, group_kind, is_observed,
    object_baseline,
};
use crate::health::proof::change_freshness;
use crate::kinds::{HealthLevel, ObjectBaseline};

/// A HelmRelease.
pub(super) struct HelmRelease;

/// Labels that a Kustomization leaves on what it applies.
const OWNER_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
const OWNER_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";

impl Adapter for HelmRelease {
    fn kinds(&self) -> Vec<Gvk> {
        group_kind("helm.toolkit.fluxcd.io", &["v2", "v2beta2"], "HelmRelease")
    }

    fn related(&self, value: &Value) -> Option<ObjectRef> {
        let (name, namespace) = (object::label(value, OWNER_NAME)?, object::label(value, OWNER_NAMESPACE)?);
        Some(ObjectRef::new(
            Gvk::new("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
            Some(namespace),
            name,
        ))
    }

    fn related_revisions(&self, related: &Value) -> Vec<String> {
        super::flux::applied_revisions(related)
    }

    fn baseline(&self, object: &Value) -> ObjectBaseline {
        ObjectBaseline { transition: release_mark(object), ..object_baseline(object) }
    }

    fn freshness(&self, seen: &Seen<'_>) -> Freshness {
        let applied = match seen.related {
            Some(_) => super::revision_freshness(&seen.revision, seen.proof, "applied", || own_change(seen)),
            None => own_change(seen),
        };
        match applied {
            Freshness::Proven if !is_observed(seen.object) => {
                Freshness::stale("NotUpdated", "not seen by its controller yet")
            }
            judged => judged,
        }
    }

    fn health(&self, seen: &Seen<'_>) -> Finding {
        let object = seen.object;
        if let Some(stalled) = condition(object, "Stalled").filter(|stalled| stalled["status"] == "True") {
            return Finding::new(HealthLevel::Failed, "Stalled", condition_text(stalled));
        }
        if object["spec"]["suspend"] == true {
            return Finding::progressing("Suspended", "is suspended");
        }
        let Some(ready) = condition(object, "Ready") else {
            return Finding::progressing("Reconciling", "has no condition Ready yet");
        };
        let reconciles = condition_status(object, "Reconciling") == Some("True");
        match ready["status"].as_str() {
            Some("True") if !reconciles => match last_release(object)["status"].as_str() {
                None | Some("deployed") => Finding::healthy(shown_release(object)),
                Some(other) => Finding::progressing("Progressing", format!("the last release is {other}")),
            },
            Some("False") if !reconciles => {
                let level = if seen.was_healthy() { HealthLevel::Degraded } else { HealthLevel::Progressing };
                Finding::new(level, "NotReady", condition_text(ready))
            }
            _ => Finding::progressing("Reconciling", condition_text(ready)),
        }
    }
}

/// Judges by what changed in the release itself.
fn own_change(seen: &Seen<'_>) -> Freshness {
    let before = seen.baseline.and_then(|baseline| baseline.transition.clone());
    let now = release_mark(seen.object);
    match change_freshness(seen.object, seen.baseline, seen.proof) {
        // Values may come from elsewhere: then only the release shows that they changed.
        Freshness::Stale { .. } if before.is_some() && now.is_some() && now != before => Freshness::Proven,
        judged => judged,
    }
}

fn last_release(object: &Value) -> &Value {
    object.pointer("/status/history/0").unwrap_or(&Value::Null)
}

/// Changes with every release: its number and the digest of its values.
fn release_mark(object: &Value) -> Option<String> {
    let release = last_release(object);
    release
        .is_object()
        .then(|| format!("{}/{}", release["version"], super::text_at(release, "/configDigest")))
}

fn shown_release(object: &Value) -> String {
    let release = last_release(object);
    match (release["version"].as_i64(), release["chartVersion"].as_str()) {
        (Some(version), Some(chart)) => format!("release {version} of chart {chart} is deployed"),
        _ => "Ready".to_owned(),
    }
}
