//! The order of steps that want the same environment. Pure.

use crate::kinds::{PromotionStep, StepState, labels};

/// The reason a step that waits gives for being behind another.
pub(super) const BUSY: &str = "EnvironmentBusy";

/// The rank of a step: what helps an environment goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Usual,
    Rollback,
    Emergency,
}

fn rank(step: &PromotionStep) -> Rank {
    let says = |label: &str| step.metadata.label(label) == Some("true");
    match (says(labels::EMERGENCY), says(labels::ROLLBACK)) {
        (true, _) => Rank::Emergency,
        (false, true) => Rank::Rollback,
        (false, false) => Rank::Usual,
    }
}

/// Finds the step another one has to wait for: one that is at work, or one that is first in line.
pub(super) fn find_blocker<'s>(
    own: &PromotionStep,
    others: &'s [PromotionStep],
) -> Option<&'s PromotionStep> {
    let same_place = |other: &&PromotionStep| {
        other.metadata.uid != own.metadata.uid
            && other.spec.pipeline == own.spec.pipeline
            && other.spec.environment == own.spec.environment
            && other.spec.region == own.spec.region
    };
    others.iter().filter(same_place).find(|other| blocks(own, other))
}

fn blocks(own: &PromotionStep, other: &PromotionStep) -> bool {
    match other.state() {
        StepState::Promoting => true,
        // A person may take days to merge, and an emergency cannot wait for them. Others do: of two pull requests for one
        // environment the second would have to be rebuilt after the first.
        StepState::WaitingForMerge => rank(own) != Rank::Emergency || rank(other) == Rank::Emergency,
        // The health of a version must not keep its repair waiting.
        StepState::HealthChecking | StepState::RollingBack => rank(own) <= rank(other),
        StepState::Pending => {
            // One that waits for something else is not in line yet.
            let is_in_line = other.status.reason.as_deref().is_none_or(|reason| reason == BUSY);
            let key = |step: &PromotionStep| (step.metadata.created(), step.metadata.name.clone());
            let goes_first = match rank(other).cmp(&rank(own)) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => key(other) < key(own),
                std::cmp::Ordering::Less => false,
            };
            is_in_line && goes_first && !other.metadata.is_being_deleted()
        }
        StepState::Verified | StepState::Failed | StepState::AbortedByAlarm | StepState::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Metadata, PromotionStepSpec, Resource};

    fn step(name: &str, state: StepState, labels: &[&str]) -> PromotionStep {
        let mut metadata = Metadata::named("apps", name);
        metadata.uid = name.to_owned();
        metadata.creation_timestamp = format!("2026-04-10T12:00:0{}Z", name.len()).parse().ok();
        metadata.labels = labels.iter().map(|label| ((*label).to_owned(), "true".to_owned())).collect();
        let spec = PromotionStepSpec {
            pipeline: "app".into(),
            environment: "prod".into(),
            ..PromotionStepSpec::default()
        };
        let mut step = Resource::new(metadata, spec);
        step.status.state = Some(state);
        step
    }

    #[test]
    fn the_oldest_goes_first_and_repairs_before_it() {
        use StepState::{HealthChecking, Pending, Promoting, Verified, WaitingForMerge};
        let (rollback, emergency) = ([labels::ROLLBACK], [labels::EMERGENCY]);
        for (own, other, waits) in [
            (step("bb", Pending, &[]), step("a", Pending, &[]), true),
            (step("a", Pending, &[]), step("bb", Pending, &[]), false),
            (step("bb", Pending, &rollback), step("a", Pending, &[]), false),
            (step("a", Pending, &[]), step("bb", Pending, &rollback), true),
            (step("bb", Pending, &emergency), step("a", Pending, &rollback), false),
            (step("bb", Pending, &emergency), step("a", Promoting, &[]), true),
            (step("bb", Pending, &emergency), step("a", WaitingForMerge, &[]), false),
            (step("bb", Pending, &emergency), step("a", WaitingForMerge, &emergency), true),
            (step("bb", Pending, &rollback), step("a", WaitingForMerge, &[]), true),
            (step("bb", Pending, &rollback), step("a", HealthChecking, &[]), false),
            (step("bb", Pending, &[]), step("a", HealthChecking, &[]), true),
            (step("bb", Pending, &[]), step("a", Verified, &[]), false),
        ] {
            let others = [other];
            assert_eq!(find_blocker(&own, &others).is_some(), waits, "{own:?}");
        }
        let mut closed = step("a", Pending, &[]);
        closed.status.reason = Some("AwaitingGate".into());
        assert!(find_blocker(&step("bb", Pending, &[]), &[closed]).is_none());
    }
}
