//! Decides whether a newer Bundle takes over from an older one.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use slipway_go::semver::Version;

use crate::kinds::{Bundle, StepState, SupersedePolicy};

/// What becomes of an older Bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupersedeDecision {
    /// It goes on beside the newer one.
    Keep,
    /// It goes once the environment it has merged into has settled.
    AfterSettling,
    Supersede,
}

/// Everything the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct SupersedeInput<'a> {
    pub older: &'a Bundle,
    pub newer: &'a Bundle,
    pub policy: SupersedePolicy,
    /// The environments the older one has not verified.
    pub left: &'a [String],
    /// The environments the newer one passes.
    pub covered: &'a BTreeSet<String>,
    /// The states of the older one's steps.
    pub states: &'a [StepState],
}

/// Decides what a newer Bundle does to an older one that has not ended.
pub fn decide_supersede(input: &SupersedeInput<'_>) -> SupersedeDecision {
    let SupersedeInput { older, newer, policy, left, covered, states } = *input;
    let shares_artifacts =
        older.spec.kind == newer.spec.kind || (newer.spec.kind.has_images() && newer.spec.kind.has_config());
    if older.is_pinned() || !shares_artifacts || policy != SupersedePolicy::Newer {
        return SupersedeDecision::Keep;
    }
    let takes_over = match newer.is_rollback() {
        // A rollback stops whatever is on its way into the environment it takes back.
        true => left.iter().any(|environment| covered.contains(environment)),
        false => left.iter().all(|environment| covered.contains(environment)),
    };
    if !takes_over {
        return SupersedeDecision::Keep;
    }
    let is_past_merge =
        |state: &StepState| matches!(state, StepState::HealthChecking | StepState::RollingBack);
    match states.iter().any(is_past_merge) {
        true => SupersedeDecision::AfterSettling,
        false => SupersedeDecision::Supersede,
    }
}

/// Tells that a Bundle takes back where another one has failed: the other has ended there and goes on elsewhere.
pub(super) fn is_taken_back_by(failed: &Bundle, other: &Bundle) -> bool {
    failed.status.environments.values().any(|record| {
        let has_failed =
            record.state.is_some_and(|state| state.is_failure() || state == StepState::RollingBack);
        has_failed && record.rolled_back_by.as_deref() == Some(other.name())
    })
}

/// Orders Bundles by age: creation, then rollbacks after what they take back, then the version of the first image, then name.
///
/// Servers keep the time of creation in seconds. A rollback has a lower version than what it takes back, so that the version
/// alone would let a Bundle of the same second take over from it.
pub fn compare_age(one: &Bundle, two: &Bundle) -> Ordering {
    let version = |bundle: &Bundle| Version::parse(&bundle.spec.version()).ok();
    let by_version = || match (version(one), version(two)) {
        (Some(one), Some(two)) => one.compare(&two),
        _ => Ordering::Equal,
    };
    (one.metadata.created().as_second())
        .cmp(&two.metadata.created().as_second())
        .then_with(|| one.is_rollback().cmp(&two.is_rollback()))
        .then_with(by_version)
        .then_with(|| one.name().cmp(two.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{BundleSpec, BundleType, ImageArtifact, Metadata, labels};

    fn bundle(kind: BundleType) -> Bundle {
        Bundle::new(Metadata::default(), BundleSpec { kind, ..BundleSpec::default() })
    }

    fn decide(
        older: &Bundle,
        newer: &Bundle,
        left: &[&str],
        covered: &[&str],
        states: &[StepState],
    ) -> SupersedeDecision {
        let left: Vec<String> = left.iter().map(|name| (*name).to_owned()).collect();
        let covered = covered.iter().map(|name| (*name).to_owned()).collect();
        let policy = SupersedePolicy::Newer;
        decide_supersede(&SupersedeInput { older, newer, policy, left: &left, covered: &covered, states })
    }

    #[test]
    fn of_bundles_of_one_second_a_rollback_is_the_newest() {
        let created = |version: &str, second: u32| {
            let mut bundle = bundle(BundleType::Image);
            bundle.metadata.name = format!("app-{version}");
            bundle.metadata.creation_timestamp = format!("2026-04-10T12:00:0{second}Z").parse().ok();
            let reference = format!("ghcr.io/acme/app:{version}");
            bundle.spec.artifacts.images = vec![ImageArtifact { reference, ..ImageArtifact::default() }];
            bundle
        };
        let mut rollback = created("1.29.0", 6);
        rollback.metadata.labels.insert(labels::ROLLBACK.to_owned(), "true".to_owned());
        let (usual, higher, later) = (created("1.31.0", 6), created("1.32.0", 6), created("1.31.0", 7));
        for (one, two) in [(&usual, &higher), (&higher, &rollback), (&rollback, &later)] {
            assert_eq!(compare_age(one, two), Ordering::Less, "{} {}", one.name(), two.name());
            assert_eq!(compare_age(two, one), Ordering::Greater, "{} {}", two.name(), one.name());
        }
    }

    #[test]
    fn only_a_bundle_that_covers_what_is_left_takes_over() {
        use SupersedeDecision::{AfterSettling, Keep, Supersede};
        let (older, newer) = (bundle(BundleType::Image), bundle(BundleType::Image));
        let all = ["dev", "staging", "prod"];
        assert_eq!(decide(&older, &newer, &["prod"], &all, &[StepState::WaitingForMerge]), Supersede);
        assert_eq!(decide(&older, &newer, &["prod"], &["dev", "staging"], &[]), Keep);
        assert_eq!(decide(&older, &newer, &["prod"], &all, &[StepState::HealthChecking]), AfterSettling);
        assert_eq!(decide(&older, &bundle(BundleType::Config), &["prod"], &all, &[]), Keep);
        assert_eq!(decide(&older, &bundle(BundleType::Mixed), &["prod"], &all, &[]), Supersede);
        let mut pinned = older.clone();
        pinned.metadata.annotations.insert(labels::PIN.to_owned(), "true".to_owned());
        assert_eq!(decide(&pinned, &newer, &["prod"], &all, &[]), Keep);
        let mut rollback = newer;
        rollback.metadata.labels.insert(labels::ROLLBACK.to_owned(), "true".to_owned());
        assert_eq!(decide(&older, &rollback, &["staging", "prod"], &["prod"], &[]), Supersede);
        assert_eq!(decide(&older, &rollback, &["staging"], &["prod"], &[]), Keep);
    }
}
