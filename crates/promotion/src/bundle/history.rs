//! Chooses the Bundles of a pipeline that are no longer kept.

use std::collections::BTreeSet;

use super::supersede::compare_age;
use crate::kinds::{Bundle, ConditionStatus, Pipeline, find_condition};
use crate::rollback::{current_bundle, rollback_target};

/// The terminal Bundles beyond the limit, oldest first.
///
/// Never those that are pinned, run in an environment, would be rolled back to, or still have something to clean up.
pub fn expired_bundles<'b>(pipeline: &Pipeline, bundles: &'b [Bundle]) -> Vec<&'b Bundle> {
    let mut terminal: Vec<&Bundle> = bundles
        .iter()
        .filter(|bundle| bundle.phase().is_terminal() && !bundle.metadata.is_being_deleted())
        .collect();
    terminal.sort_by(|one, two| compare_age(one, two));
    let limit = usize::try_from(pipeline.spec.history_limit).unwrap_or(usize::MAX);
    let excess = terminal.len().saturating_sub(limit);
    if excess == 0 {
        return Vec::new();
    }
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    for environment in &pipeline.spec.environments {
        if let Some(current) = current_bundle(&environment.name, bundles) {
            kept.insert(current.name());
            kept.extend(rollback_target(&environment.name, current, bundles).map(Bundle::name));
        }
    }
    let is_expired = |bundle: &&&Bundle| {
        let cleans = find_condition(&bundle.status.conditions, "CleanupPending");
        !bundle.is_pinned()
            && !kept.contains(bundle.name())
            && cleans.is_none_or(|condition| condition.status != ConditionStatus::True)
    };
    terminal.iter().filter(is_expired).take(excess).copied().collect()
}
