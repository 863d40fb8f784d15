//! The adapters: what each tool says about health, one file a tool. All of them are pure.

mod argocd;
mod flagger;
mod flux;
mod helm_release;
mod resource;
mod rollouts;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};

use super::image;
use super::proof::{Freshness, RevisionProof};
use super::report::Finding;
use super::target::HealthProof;
use crate::kinds::{DelegationStatus, HealthLevel, HealthType, ObjectBaseline};

pub(super) use argocd::has_path as application_has_path;
pub(super) use flux::has_path as kustomization_has_path;

/// What a tool says about the health of an environment.
pub(super) trait Adapter: Sync {
    /// The kinds it reads, the one it prefers first.
    fn kinds(&self) -> Vec<Gvk>;

    /// The revisions the tool has applied.
    fn revisions(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Another object the verdict depends on.
    fn related(&self, _object: &Value) -> Option<ObjectRef> {
        None
    }

    /// The revisions a related object reports.
    fn related_revisions(&self, _related: &Value) -> Vec<String> {
        Vec::new()
    }

    /// What of an object is remembered before the push.
    fn baseline(&self, object: &Value) -> ObjectBaseline {
        ObjectBaseline { revision: self.revisions(object).into_iter().next(), ..object_baseline(object) }
    }

    /// Tells whether the object shows the change at hand.
    fn freshness(&self, seen: &Seen<'_>) -> Freshness;

    /// The health of an object that shows the change.
    fn health(&self, seen: &Seen<'_>) -> Finding;

    /// The progress of a rollout the tool carries out.
    fn delegation(&self, _object: &Value) -> Option<DelegationStatus> {
        None
    }
}

/// One object, and everything known about it.
pub(super) struct Seen<'a> {
    pub(super) object: &'a Value,
    pub(super) related: Option<&'a Value>,
    pub(super) revision: RevisionProof,
    pub(super) proof: &'a HealthProof<'a>,
    pub(super) baseline: Option<&'a ObjectBaseline>,
    /// The condition a user asks for.
    pub(super) condition: Option<&'a str>,
    pub(super) purpose: Purpose,
    /// Other objects are looked at together with this one, and one of them may prove the change instead.
    pub(super) has_peers: bool,
    pub(super) now: Timestamp,
}

/// Why an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Health,
    /// Only for the proof that the change has reached the cluster: a delegate watches the rollout.
    SyncProof,
}

impl Seen<'_> {
    /// Says how long the last look already found the same.
    pub(super) fn lasts(&self, level: HealthLevel, reason: &str) -> SignedDuration {
        let before = self.proof.before.filter(|before| before.level == level && before.reason == reason);
        before.and_then(|before| before.since).map(|since| self.now.duration_since(since)).unwrap_or_default()
    }

    /// The time since the environment was first checked.
    pub(super) fn elapsed(&self) -> SignedDuration {
        self.proof.started_at.map(|start| self.now.duration_since(start)).unwrap_or_default()
    }

    /// The environment was healthy with the new version before.
    pub(super) fn was_healthy(&self) -> bool {
        self.proof.before.is_some_and(|before| before.healthy_since.is_some())
    }

    pub(super) fn text(&self, pointer: &str) -> &str {
        text_at(self.object, pointer)
    }
}

/// The time something may be wrong before it counts.
pub(super) const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The adapter of a type; `None` for the type that checks nothing.
pub(super) fn adapter(health_type: HealthType) -> Option<&'static dyn Adapter> {
    match health_type {
        HealthType::Resource => Some(&resource::Workload),
        HealthType::ArgoCd => Some(&argocd::Application),
        HealthType::Flux => Some(&flux::Kustomization),
        HealthType::HelmRelease => Some(&helm_release::HelmRelease),
        HealthType::ArgoRollouts => Some(&rollouts::Rollout),
        HealthType::Flagger => Some(&flagger::Canary),
        HealthType::None => None,
    }
}

/// The name of an adapter, as specs write it.
pub(super) fn adapter_name(health_type: HealthType) -> &'static str {
    match health_type {
        HealthType::Resource => "resource",
        HealthType::ArgoCd => "argocd",
        HealthType::Flux => "flux",
        HealthType::HelmRelease => "helmrelease",
        HealthType::ArgoRollouts => "argoRollouts",
        HealthType::Flagger => "flagger",
        HealthType::None => "none",
    }
}

fn object_baseline(value: &Value) -> ObjectBaseline {
    let metadata = &value["metadata"];
    ObjectBaseline {
        object: ObjectRef::of(value).to_string(),
        resource_version: metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        generation: metadata["generation"].as_i64(),
        images: image::template_images(value),
        template: image::template_hash(value),
        ..ObjectBaseline::default()
    }
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn time_at(value: &Value, pointer: &str) -> Option<Timestamp> {
    text_at(value, pointer).parse().ok()
}

/// The status of a condition.
fn condition_status<'v>(value: &'v Value, kind: &str) -> Option<&'v str> {
    condition(value, kind)?["status"].as_str()
}

fn condition<'v>(value: &'v Value, kind: &str) -> Option<&'v Value> {
    value.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// `Reason: message` of a condition, one line and bounded.
fn condition_text(condition: &Value) -> String {
    let (reason, message) = (text_at(condition, "/reason"), text_at(condition, "/message"));
    let text = match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    one_line(&text)
}

/// The longest message taken over from a tool.
const LONGEST_MESSAGE: usize = 512;

/// A text of a tool as one bounded line.
fn one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(LONGEST_MESSAGE).collect()
}

/// The controller has seen the newest generation.
fn is_observed(value: &Value) -> bool {
    let generation = value["metadata"]["generation"].as_i64().unwrap_or_default();
    let observed = &value["status"]["observedGeneration"];
    // Argo Rollouts writes it as a text.
    let observed = observed.as_i64().or_else(|| observed.as_str()?.parse().ok()).unwrap_or_default();
    observed >= generation
}

fn group_kind(group: &str, versions: &[&str], kind: &str) -> Vec<Gvk> {
    versions.iter().map(|version| Gvk::new(group, *version, kind)).collect()
}

/// The revision proof of a tool that reports revisions; `otherwise` judges where it has none.
fn revision_freshness(
    revision: &RevisionProof,
    proof: &HealthProof<'_>,
    state: &str,
    otherwise: impl FnOnce() -> Freshness,
) -> Freshness {
    let wanted = proof.target_revision.as_deref().map(super::proof::short).unwrap_or_default();
    match revision {
        RevisionProof::Proven(_) => Freshness::Proven,
        RevisionProof::Older(observed) => Freshness::stale(
            "StaleRevision",
            format!("{state} at {}, want {wanted}", super::proof::short(observed)),
        ),
        RevisionProof::Missing => {
            Freshness::stale("StaleRevision", format!("{state} without a revision, want {wanted}"))
        }
        RevisionProof::Unavailable => otherwise(),
    }
}

/// The name of an object in messages.
pub(super) fn shown_name(value: &Value) -> &str {
    object::name(value).unwrap_or_default()
}
