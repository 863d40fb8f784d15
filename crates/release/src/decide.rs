//! Decides what is done to one object, from what is wanted and what was observed. Pure: the tests are the
//! table of the specification.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_manifest::diff::noise::{NoiseFilter, remove_noise};
use slipway_manifest::object;

use crate::resource::{DeletePolicy, ResourceSettings};

/// The answer of a server to applying an object without keeping the result.
#[derive(Clone, Debug)]
pub enum DryRun {
    /// It was not asked: the object cannot be tried before others exist.
    Skipped,
    /// The object as it would become.
    Accepted(Box<Value>),
    /// Some changed field cannot be changed.
    Immutable(String),
    /// The object as it stands is wrong, now and later.
    Rejected(String),
    /// Something else went wrong that may be right by the time it counts.
    Failed(String),
}

/// The change a plan makes to one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum ObjectChange {
    /// Nothing; `skipped` says which policy forbids what would be done.
    None {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skipped: Option<String>,
    },
    Create,
    Update,
    /// Delete, wait until it is gone, create again.
    Recreate {
        reason: String,
    },
    /// Apply without knowing what will change.
    Apply {
        reason: String,
    },
}

impl ObjectChange {
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None { .. })
    }

    pub fn is_skipped(&self) -> bool {
        matches!(self, Self::None { skipped: Some(_) })
    }

    /// The word plans and reports use.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::None { .. } => "none",
            Self::Create => "create",
            Self::Update => "update",
            Self::Recreate { .. } => "recreate",
            Self::Apply { .. } => "apply",
        }
    }
}

/// The reason an object cannot be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRefusal {
    Immutable(String),
    Rejected(String),
}

/// Everything observed of one object.
#[derive(Clone, Debug)]
pub struct ObservedObject<'a> {
    pub live: Option<&'a Value>,
    pub dry_run: &'a DryRun,
    /// Owners have to be put right even if no value changes.
    pub repairs_owners: bool,
}

/// Decides what is to be done.
pub fn decide_change(
    settings: &ResourceSettings,
    observed: &ObservedObject<'_>,
) -> Result<ObjectChange, ObjectRefusal> {
    let skipped = |policy: &str| Ok(ObjectChange::None { skipped: Some(policy.to_owned()) });
    let Some(live) = observed.live else {
        if settings.skip_create {
            return skipped("skip-create");
        }
        return match observed.dry_run {
            DryRun::Rejected(why) | DryRun::Immutable(why) => Err(ObjectRefusal::Rejected(why.clone())),
            _ => Ok(ObjectChange::Create),
        };
    };
    let immutable = match observed.dry_run {
        DryRun::Immutable(why) => Some(why),
        _ => None,
    };
    let always = settings.has_delete_policy(DeletePolicy::BeforeCreation);
    if settings.skip_recreate && (always || immutable.is_some()) {
        return skipped("skip-recreate");
    }
    if always {
        return Ok(ObjectChange::Recreate { reason: "delete policy before-creation".to_owned() });
    }
    if let Some(why) = immutable {
        if settings.has_delete_policy(DeletePolicy::BeforeCreationIfImmutable) {
            return Ok(ObjectChange::Recreate { reason: why.clone() });
        }
        return Err(ObjectRefusal::Immutable(why.clone()));
    }
    match observed.dry_run {
        DryRun::Failed(_) | DryRun::Rejected(_) if settings.skip_update => skipped("skip-update"),
        DryRun::Failed(_) | DryRun::Rejected(_) if settings.skip_create => skipped("skip-create"),
        DryRun::Rejected(why) => Err(ObjectRefusal::Rejected(why.clone())),
        DryRun::Failed(why) => Ok(ObjectChange::Apply { reason: why.clone() }),
        DryRun::Skipped => Ok(ObjectChange::Apply { reason: "it could not be tried before".to_owned() }),
        DryRun::Immutable(why) => Err(ObjectRefusal::Immutable(why.clone())),
        DryRun::Accepted(after) => {
            let differs = observed.repairs_owners
                || remove_noise(live, NoiseFilter::Compare) != remove_noise(after, NoiseFilter::Compare);
            match (differs, settings.skip_update) {
                (true, true) => skipped("skip-update"),
                (true, false) => Ok(ObjectChange::Update),
                (false, _) => Ok(ObjectChange::None { skipped: None }),
            }
        }
    }
}

/// The work that follows a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowUp {
    pub track: bool,
    pub delete_on_success: bool,
    pub delete_on_failure: bool,
}

/// Says what follows: whether to wait for it, and when it goes away again.
pub fn plan_follow_up(
    settings: &ResourceSettings,
    decision: &ObjectChange,
    live: Option<&Value>,
    is_crd: bool,
    previous_failed: bool,
) -> FollowUp {
    if decision.is_skipped() {
        return FollowUp::default();
    }
    let kept = settings.skip_delete || live.is_some_and(is_kept);
    let delete_on_success = settings.has_delete_policy(DeletePolicy::Succeeded)
        && !kept
        && (!decision.is_none() || live.is_some());
    let track = !is_crd
        && !settings.tracking.non_blocking
        && (!decision.is_none() || live.is_some() && (previous_failed || delete_on_success));
    let delete_on_failure =
        settings.has_delete_policy(DeletePolicy::Failed) && !kept && !decision.is_none() && track;
    FollowUp { track, delete_on_success, delete_on_failure }
}

/// Tells that a live object says it must not be deleted. A policy that cannot be read counts as saying so.
pub fn is_kept(live: &Value) -> bool {
    if let Some(policy) = object::annotation(live, "werf.io/resource-policy") {
        let known = ["skip-create", "skip-update", "skip-recreate"];
        return policy.split(',').map(str::trim).any(|word| !known.contains(&word));
    }
    object::annotation(live, "helm.sh/resource-policy").is_some()
}

/// The reason a resource of an earlier revision stays although it is no longer part of the release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kept", content = "by")]
pub enum KeptReason {
    /// A policy says so.
    Policy,
    /// It belongs to someone else now.
    Owner(String),
}

/// Checks that a live object of an earlier revision may be deleted by this release.
pub fn may_delete(live: &Value, release: &str, namespace: &str) -> Result<(), KeptReason> {
    if is_kept(live) {
        return Err(KeptReason::Policy);
    }
    let name = object::annotation(live, "meta.helm.sh/release-name");
    let place = object::annotation(live, "meta.helm.sh/release-namespace");
    let label = object::label(live, "app.kubernetes.io/managed-by");
    if name == Some(release) && place == Some(namespace) && label == Some("Helm") {
        return Ok(());
    }
    Err(KeptReason::Owner(match (name, place) {
        (Some(name), Some(place)) if (name, place) != (release, namespace) => {
            format!("release {place}/{name}")
        }
        _ => "no release".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::annotations::{ReadMode, read_annotations};
    use crate::resource::{DocumentOrigin, RecordPart};

    fn settings(kind: &str, annotations: Value) -> ResourceSettings {
        let (api, kind) = if kind == "Job" { ("batch/v1", kind) } else { ("v1", kind) };
        let object =
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "annotations": annotations}});
        let (settings, problems) = read_annotations(
            &object,
            RecordPart::Regular,
            &DocumentOrigin::default(),
            "ns",
            ReadMode::Strict,
        );
        assert!(problems.is_empty(), "{problems}");
        settings
    }

    #[test]
    fn the_decision_table_holds() {
        let same = json!({"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}});
        let other = json!({"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "2"}});
        let kept = json!({"kind": "ConfigMap", "metadata": {"name": "x",
            "annotations": {"helm.sh/resource-policy": "keep"}}, "data": {"a": "1"}});
        let accepted = DryRun::Accepted(Box::new(same.clone()));
        let immutable = DryRun::Immutable("spec.x: field is immutable".into());
        let failed = DryRun::Failed("boom".into());
        let rejected = DryRun::Rejected("unknown field".into());
        let policy = |text: &str| json!({"werf.io/resource-policy": text});
        let delete = |text: &str| json!({"werf.io/delete-policy": text});
        let none = json!({});
        // live, dry run, kind, annotations, previous failed → verb, track, on success, on failure
        type Row<'a> = (Option<&'a Value>, &'a DryRun, &'a str, Value, bool, &'a str, [bool; 3]);
        let (t, f) = (true, false);
        let rows: Vec<Row<'_>> = vec![
            (None, &DryRun::Skipped, "ConfigMap", none.clone(), f, "create", [t, f, f]),
            (None, &DryRun::Skipped, "ConfigMap", policy("skip-create"), f, "skipped", [f, f, f]),
            (None, &DryRun::Skipped, "ConfigMap", delete("succeeded"), f, "create", [t, t, f]),
            (None, &rejected, "ConfigMap", none.clone(), f, "rejected", [f, f, f]),
            (Some(&same), &accepted, "ConfigMap", none.clone(), f, "none", [f, f, f]),
            (Some(&same), &accepted, "ConfigMap", none.clone(), t, "none", [t, f, f]),
            (Some(&same), &accepted, "ConfigMap", delete("succeeded"), f, "none", [t, t, f]),
            (Some(&same), &accepted, "ConfigMap", delete("failed"), f, "none", [f, f, f]),
            (Some(&same), &accepted, "ConfigMap", delete("before-creation"), f, "recreate", [t, f, f]),
            (Some(&other), &accepted, "ConfigMap", none.clone(), f, "update", [t, f, f]),
            (Some(&other), &accepted, "ConfigMap", policy("skip-update"), f, "skipped", [f, f, f]),
            (Some(&other), &immutable, "Job", none.clone(), f, "recreate", [t, f, f]),
            (Some(&other), &immutable, "ConfigMap", none.clone(), f, "immutable", [f, f, f]),
            (Some(&other), &immutable, "Job", policy("skip-recreate"), f, "skipped", [f, f, f]),
            (Some(&other), &failed, "ConfigMap", none.clone(), f, "apply", [t, f, f]),
            (Some(&other), &failed, "ConfigMap", policy("skip-update"), f, "skipped", [f, f, f]),
            (Some(&other), &failed, "ConfigMap", policy("skip-create"), f, "skipped", [f, f, f]),
            (Some(&other), &rejected, "ConfigMap", none.clone(), f, "rejected", [f, f, f]),
            (
                Some(&other),
                &accepted,
                "ConfigMap",
                json!({"werf.io/track-termination-mode": "NonBlocking"}),
                f,
                "update",
                [f, f, f],
            ),
            (Some(&other), &accepted, "ConfigMap", delete("failed"), f, "update", [t, f, t]),
            (Some(&kept), &accepted, "ConfigMap", delete("succeeded"), f, "none", [f, f, f]),
        ];
        for (number, (live, dry_run, kind, annotations, previous_failed, verb, flags)) in
            rows.into_iter().enumerate()
        {
            let settings = settings(kind, annotations);
            let decided = decide_change(&settings, &ObservedObject { live, dry_run, repairs_owners: false });
            let found = match &decided {
                Ok(decision) if decision.is_skipped() => "skipped",
                Ok(decision) => decision.verb(),
                Err(ObjectRefusal::Immutable(_)) => "immutable",
                Err(ObjectRefusal::Rejected(_)) => "rejected",
            };
            assert_eq!(found, verb, "row {number}");
            let Ok(decision) = decided else { continue };
            let follow = plan_follow_up(&settings, &decision, live, false, previous_failed);
            assert_eq!(
                [follow.track, follow.delete_on_success, follow.delete_on_failure],
                flags,
                "row {number}"
            );
            assert!(
                !plan_follow_up(&settings, &decision, live, true, previous_failed).track,
                "a CRD, row {number}"
            );
        }
    }

    #[test]
    fn only_what_is_exactly_ours_is_deleted() {
        let object = |name: &str, namespace: &str, label: &str| {
            json!({"metadata": {
            "annotations": {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace},
            "labels": {"app.kubernetes.io/managed-by": label}}})
        };
        assert_eq!(may_delete(&object("r", "n", "Helm"), "r", "n"), Ok(()));
        let theirs = may_delete(&object("other", "n", "Helm"), "r", "n");
        assert_eq!(theirs, Err(KeptReason::Owner("release n/other".into())));
        assert_eq!(
            may_delete(&object("r", "n", "Tiller"), "r", "n"),
            Err(KeptReason::Owner("no release".into()))
        );
        assert_eq!(
            may_delete(&json!({"metadata": {}}), "r", "n"),
            Err(KeptReason::Owner("no release".into()))
        );
    }
}
