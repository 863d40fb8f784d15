//! What an environment ran, what it can be taken back to, and what may not return to it.

use jiff::Timestamp;

use super::artifacts::same_version;
use crate::kinds::{Bundle, BundleEnvironmentStatus, BundleType, GitCommit, labels};

/// A version that was taken back and may not return by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RollbackHold<'a> {
    /// The bundle of the same version that was taken back.
    pub failed: &'a Bundle,
    /// The bundle that took it back.
    pub rollback: &'a str,
}

/// The record of a bundle in an environment.
pub(super) fn record<'b>(bundle: &'b Bundle, environment: &str) -> Option<&'b BundleEnvironmentStatus> {
    bundle.status.environments.get(environment)
}

/// The moment a bundle's change reached an environment's branch; `None` if it never did.
///
/// A pull request that nobody merged has changed nothing.
pub(super) fn received_at(bundle: &Bundle, environment: &str) -> Option<Timestamp> {
    let record = record(bundle, environment)?;
    let pushed = record.promoted_at.filter(|_| record.pr_url.is_none() && record.commit_sha.is_some());
    record.merged_at.or(pushed).or(record.verified_at)
}

/// The bundle whose artifacts an environment has: the last one that reached it.
pub fn current_bundle<'b>(environment: &str, bundles: &'b [Bundle]) -> Option<&'b Bundle> {
    let reached = bundles.iter().filter_map(|bundle| Some((received_at(bundle, environment)?, bundle)));
    reached
        .max_by(|one, other| (one.0, one.1.name()).cmp(&(other.0, other.1.name())))
        .map(|(_, bundle)| bundle)
}

/// The bundle an environment would be taken back to from `from`: the last one verified there before, of the same
/// kind of artifacts, whose version has neither failed nor been taken back.
pub fn rollback_target<'b>(environment: &str, from: &Bundle, bundles: &'b [Bundle]) -> Option<&'b Bundle> {
    let before = received_at(from, environment).or_else(|| record(from, environment)?.started_at);
    let verified = bundles.iter().filter_map(|bundle| {
        let record = record(bundle, environment)?;
        // What was verified there once and taken over since still has its moment.
        let verified = record.verified_at.filter(|_| record.state.is_none_or(|state| !state.is_failure()))?;
        let is_before =
            bundle.metadata.uid != from.metadata.uid && before.is_none_or(|before| verified <= before);
        is_before.then_some((verified, bundle))
    });
    let mut fitting: Vec<(Timestamp, &Bundle)> = verified
        .filter(|(_, bundle)| provides(bundle.spec.kind, from.spec.kind))
        .filter(|(_, bundle)| !same_version(&bundle.spec, &from.spec))
        .filter(|(_, bundle)| !bundles.iter().any(|bad| is_bad(bad) && same_version(&bad.spec, &bundle.spec)))
        .collect();
    fitting.sort_by(|one, other| (one.0, one.1.name()).cmp(&(other.0, other.1.name())));
    fitting.last().map(|(_, bundle)| *bundle)
}

/// The configuration commits that reached an environment after `to`, newest first: a rollback takes them back, since
/// merging an older commit once more would change nothing.
pub(super) fn reverted_commits(
    environment: &str,
    from: &Bundle,
    to: &Bundle,
    bundles: &[Bundle],
) -> Vec<GitCommit> {
    let Some(kept) = received_at(to, environment) else { return Vec::new() };
    let mut later: Vec<(Timestamp, &Bundle)> = bundles
        .iter()
        .filter(|bundle| bundle.metadata.uid != to.metadata.uid && !bundle.is_rollback())
        // What was taken back before is not there any more.
        .filter(|bundle| {
            bundle.metadata.uid == from.metadata.uid
                || record(bundle, environment).is_some_and(|record| record.rolled_back_by.is_none())
        })
        .filter_map(|bundle| Some((received_at(bundle, environment)?, bundle)))
        .filter(|(received, _)| *received > kept)
        .collect();
    later.sort_by(|one, other| (other.0, other.1.name()).cmp(&(one.0, one.1.name())));
    later.into_iter().filter_map(|(_, bundle)| bundle.spec.artifacts.git_commit.clone()).collect()
}

/// The version failed or was taken back somewhere.
fn is_bad(bundle: &Bundle) -> bool {
    // A rollback that fails says nothing about the version, which was verified before.
    !bundle.is_rollback()
        && bundle.status.environments.values().any(|record| {
            record.rolled_back_by.is_some() || record.state.is_some_and(crate::kinds::StepState::is_failure)
        })
}

/// A bundle of kind `has` replaces everything one of kind `needs` has brought.
fn provides(has: BundleType, needs: BundleType) -> bool {
    (has.has_images() || !needs.has_images()) && (has.has_config() || !needs.has_config())
}

/// Tells why a bundle may not enter an environment: the same version was taken back there.
///
/// Rollbacks and bundles that are forced by annotation pass; a newer version is another one.
pub fn held_by<'b>(bundle: &Bundle, environment: &str, bundles: &'b [Bundle]) -> Option<RollbackHold<'b>> {
    if bundle.is_rollback() || bundle.metadata.annotation(labels::FORCE) == Some("true") {
        return None;
    }
    bundles.iter().find_map(|failed| {
        let rollback = record(failed, environment)?.rolled_back_by.as_deref()?;
        same_version(&failed.spec, &bundle.spec).then_some(RollbackHold { failed, rollback })
    })
}
