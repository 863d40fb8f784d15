//! Flux: a Kustomization, proven by the revision it has applied.

use serde_json::Value;
use slipway_manifest::Gvk;

use super::{
    Adapter, Finding, Freshness, GRACE, Seen, condition, condition_status, condition_text, group_kind,
    is_observed,
};
use crate::health::proof::{change_freshness, commit_of, short};
use crate::kinds::HealthLevel;

/// A Kustomization.
pub(super) struct Kustomization;

impl Adapter for Kustomization {
    fn kinds(&self) -> Vec<Gvk> {
        group_kind("kustomize.toolkit.fluxcd.io", &["v1", "v1beta2"], "Kustomization")
    }

    fn revisions(&self, object: &Value) -> Vec<String> {
        applied_revisions(object)
    }

    fn freshness(&self, seen: &Seen<'_>) -> Freshness {
        // A Kustomization that failed on the change has seen it.
        if attempted_target(seen) && !is_ready(seen.object) {
            return Freshness::Proven;
        }
        if condition_status(seen.object, "Stalled") == Some("True") {
            return Freshness::Proven;
        }
        let state = match condition(seen.object, "Ready") {
            Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
            Some(ready) => condition_text(ready),
            None => "not ready".to_owned(),
        };
        if seen.object["spec"]["suspend"] == true
            && !matches!(seen.revision, crate::health::proof::RevisionProof::Proven(_))
        {
            return Freshness::stale("Suspended", "is suspended: it does not apply the change");
        }
        super::revision_freshness(&seen.revision, seen.proof, &state, || {
            change_freshness(seen.object, seen.baseline, seen.proof)
        })
    }

    fn health(&self, seen: &Seen<'_>) -> Finding {
        let object = seen.object;
        if let Some(stalled) = condition(object, "Stalled").filter(|stalled| stalled["status"] == "True") {
            // What stalled before the change may be what the change repairs.
            let may_pass = !attempted_target(seen) && seen.elapsed() <= GRACE;
            let level = if may_pass { HealthLevel::Progressing } else { HealthLevel::Failed };
            return Finding::new(level, "Stalled", condition_text(stalled));
        }
        let at =
            seen.revision.observed().map(|revision| format!(" at {}", short(revision))).unwrap_or_default();
        if !is_observed(object) {
            return Finding::progressing("Progressing", "not seen by its controller yet");
        }
        match condition(object, "Ready") {
            Some(ready) if ready["status"] == "False" => {
                let message = format!("not ready{at}: {}", condition_text(ready));
                // Flux tries again by itself; only a failure that stays is one.
                let lasted = [HealthLevel::Progressing, HealthLevel::Degraded]
                    .into_iter()
                    .map(|level| seen.lasts(level, "NotReady"))
                    .max()
                    .unwrap_or_default();
                let is_alarm = lasted > GRACE || seen.was_healthy();
                let level = if is_alarm { HealthLevel::Degraded } else { HealthLevel::Progressing };
                Finding::new(level, "NotReady", message)
            }
            Some(ready)
                if ready["status"] == "True" && condition_status(object, "Reconciling") != Some("True") =>
            {
                Finding::healthy(format!("Ready{at}"))
            }
            Some(ready) => {
                Finding::progressing("Reconciling", format!("reconciling{at}: {}", condition_text(ready)))
            }
            None => Finding::progressing("Reconciling", "has no condition Ready yet"),
        }
    }
}

fn is_ready(object: &Value) -> bool {
    condition_status(object, "Ready") == Some("True")
}

/// The revisions a Kustomization has applied; for artifacts of a registry also the commit they were made from.
pub(super) fn applied_revisions(object: &Value) -> Vec<String> {
    let status = &object["status"];
    let fields = ["lastAppliedRevision", "lastAppliedOriginRevision"];
    let texts = fields.into_iter().filter_map(|field| status[field].as_str());
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// Flux tried to apply the very commit of the change.
fn attempted_target(seen: &Seen<'_>) -> bool {
    let attempted = commit_of(seen.text("/status/lastAttemptedRevision"));
    attempted.is_some() && attempted == seen.proof.target_revision.as_deref()
}

/// Tells whether a Kustomization takes its manifests from a path.
pub(in crate::health) fn has_path(object: &Value, path: &str) -> bool {
    let wanted = super::argocd::trimmed(path);
    !wanted.is_empty() && super::argocd::trimmed(super::text_at(object, "/spec/path")) == wanted
}
