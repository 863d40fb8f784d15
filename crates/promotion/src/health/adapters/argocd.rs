//! Argo CD: an Application, proven by the revision it is synced to.

use jiff::SignedDuration;
use serde_json::Value;
use slipway_manifest::Gvk;

use super::{Adapter, Finding, Freshness, GRACE, Purpose, Seen, group_kind, one_line, text_at, time_at};
use crate::health::image::{ImageMatch, compare_images};
use crate::health::proof::short;
use crate::kinds::HealthLevel;

/// The time an Application may be missing parts after it was created.
const MISSING_GRACE: SignedDuration = SignedDuration::from_secs(120);

/// An Application.
pub(super) struct Application;

impl Adapter for Application {
    fn kinds(&self) -> Vec<Gvk> {
        group_kind("argoproj.io", &["v1alpha1"], "Application")
    }

    fn revisions(&self, object: &Value) -> Vec<String> {
        let sync = &object["status"]["sync"];
        let many = sync["revisions"].as_array().into_iter().flatten();
        let all = std::iter::once(&sync["revision"]).chain(many);
        all.filter_map(|revision| revision.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
            .collect()
    }

    fn freshness(&self, seen: &Seen<'_>) -> Freshness {
        let sync = seen.text("/status/sync/status");
        let proven =
            super::revision_freshness(&seen.revision, seen.proof, sync, || compared_since_merge(seen));
        if proven != Freshness::Proven {
            return proven;
        }
        let images = seen.object.pointer("/status/summary/images").and_then(Value::as_array);
        let listed: Vec<String> =
            images.into_iter().flatten().filter_map(|image| image.as_str().map(str::to_owned)).collect();
        match compare_images(&listed, &seen.proof.images) {
            ImageMatch::Differs { running, wanted } => {
                Freshness::stale("StaleImage", format!("runs {running}, want {wanted}"))
            }
            ImageMatch::Matches | ImageMatch::Unrelated => Freshness::Proven,
        }
    }

    fn health(&self, seen: &Seen<'_>) -> Finding {
        let object = seen.object;
        let operation = &object["status"]["operationState"];
        match operation["phase"].as_str().unwrap_or_default() {
            "Running" | "Terminating" => return Finding::progressing("Syncing", "an operation is running"),
            "Failed" | "Error" if !retries_left(operation) => {
                let told = one_line(operation["message"].as_str().unwrap_or_default());
                return Finding::new(HealthLevel::Failed, "SyncFailed", format!("sync failed: {told}"));
            }
            "Failed" | "Error" => return Finding::progressing("Syncing", "sync failed and is tried again"),
            _ => {}
        }
        let sync = seen.text("/status/sync/status");
        let at =
            seen.revision.observed().map(|revision| format!(" at {}", short(revision))).unwrap_or_default();
        if sync != "Synced" {
            let sync = if sync.is_empty() { "Unknown" } else { sync };
            return Finding::progressing("OutOfSync", format!("{sync}{at}"));
        }
        if seen.purpose == Purpose::SyncProof {
            return Finding::healthy(format!("Synced{at}"));
        }
        let health = seen.text("/status/health/status");
        let told = one_line(seen.text("/status/health/message"));
        let message = if told.is_empty() { format!("{health}{at}") } else { format!("{health}{at}: {told}") };
        match health {
            "Healthy" => Finding::healthy(format!("Synced and Healthy{at}")),
            "Degraded" => degraded(seen, message),
            "Suspended" => Finding::progressing("Suspended", message),
            "Missing" | "Unknown" | "" if seen.elapsed() > MISSING_GRACE => {
                Finding::new(HealthLevel::Degraded, "Missing", message)
            }
            _ => Finding::progressing("Progressing", message),
        }
    }
}

/// A degraded Application fails when it stays so for a minute. During the bake it is an alarm at once.
fn degraded(seen: &Seen<'_>, message: String) -> Finding {
    let lasted = [HealthLevel::Progressing, HealthLevel::Degraded, HealthLevel::Failed]
        .into_iter()
        .map(|level| seen.lasts(level, "Degraded"))
        .max()
        .unwrap_or_default();
    let level = match () {
        () if lasted > GRACE => HealthLevel::Failed,
        () if seen.was_healthy() => HealthLevel::Degraded,
        () => HealthLevel::Progressing,
    };
    Finding::new(level, "Degraded", message)
}

/// Without a commit to compare, a comparison or operation after the merge is the proof.
fn compared_since_merge(seen: &Seen<'_>) -> Freshness {
    let times = ["/status/operationState/finishedAt", "/status/reconciledAt"];
    let newest = times.into_iter().filter_map(|pointer| time_at(seen.object, pointer)).max();
    match (seen.proof.merged_at, newest) {
        _ if seen.proof.no_change => Freshness::Proven,
        // Argo CD writes whole seconds.
        (Some(merged), Some(newest)) if newest.as_second() >= merged.as_second() => Freshness::Proven,
        _ => Freshness::stale("StaleRevision", "was not compared since the change was merged"),
    }
}

fn retries_left(operation: &Value) -> bool {
    let limit = operation.pointer("/operation/retry/limit").and_then(Value::as_i64).unwrap_or_default();
    let done = operation["retryCount"].as_i64().unwrap_or_default();
    limit < 0 || (limit > 0 && done < limit)
}

/// Tells whether an Application takes its manifests from a path.
pub(in crate::health) fn has_path(object: &Value, path: &str) -> bool {
    let wanted = trimmed(path);
    let many = object["spec"]["sources"].as_array().into_iter().flatten();
    let sources = std::iter::once(&object["spec"]["source"]).chain(many);
    !wanted.is_empty() && sources.into_iter().any(|source| trimmed(text_at(source, "/path")) == wanted)
}

/// A path of a repository without what does not matter.
pub(super) fn trimmed(path: &str) -> &str {
    path.trim().trim_start_matches("./").trim_matches('/')
}
