//! The hold of a paused pipeline: nothing outside changes, and deadlines do not run.

use jiff::Timestamp;

use crate::gate::freeze::find_freeze;
use crate::kinds::{Bundle, ConditionStatus, PromotionStep, PromotionStepStatus};

use super::outcome::StepError;
use super::reconciler::StepShared;
use super::status::set_step_condition;

impl StepShared {
    /// The reason a step's pipeline is paused; none if the bundle may pass.
    pub(super) async fn pause_reason(
        &self,
        step: &PromotionStep,
        bundle: &Bundle,
    ) -> Result<Option<String>, StepError> {
        let (options, now) = (&self.options.promotion, self.clock.now());
        let environment = &step.spec.environment;
        let freeze = find_freeze(&self.cluster, &self.evaluator, options, bundle, environment, now).await?;
        Ok(freeze.map(|freeze| freeze.reason))
    }
}

/// Notes that a step is held, or that it goes on: its deadline moves by the time it was held.
pub(super) fn note_hold(
    status: &mut PromotionStepStatus,
    step: &PromotionStep,
    hold: Option<&str>,
    now: Timestamp,
) {
    match (hold, status.held_since) {
        (Some(reason), since) => {
            status.held_since = since.or(Some(now));
            set_step_condition(status, step, "Held", ConditionStatus::True, "Paused", reason, now);
        }
        (None, Some(since)) => {
            let held = now.duration_since(since);
            let later = |at: Timestamp| at.checked_add(held).unwrap_or(at);
            status.wait_for_merge_expiry = status.wait_for_merge_expiry.map(later);
            status.held_since = None;
            set_step_condition(status, step, "Held", ConditionStatus::False, "Resumed", "", now);
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Metadata, PromotionStepSpec, Resource, find_condition};

    #[test]
    fn a_deadline_moves_by_the_time_a_step_was_held() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let step = Resource::new(Metadata::named("apps", "step"), PromotionStepSpec::default());
        let mut status = PromotionStepStatus {
            wait_for_merge_expiry: Some(at("2026-04-10T13:00:00Z")),
            ..PromotionStepStatus::default()
        };
        note_hold(&mut status, &step, Some("release freeze"), at("2026-04-10T12:00:00Z"));
        note_hold(&mut status, &step, Some("release freeze"), at("2026-04-10T12:20:00Z"));
        assert_eq!(status.held_since, Some(at("2026-04-10T12:00:00Z")));
        note_hold(&mut status, &step, None, at("2026-04-10T12:30:00Z"));
        assert_eq!(status.wait_for_merge_expiry, Some(at("2026-04-10T13:30:00Z")));
        assert_eq!(status.held_since, None);
        let held = find_condition(&status.conditions, "Held").unwrap();
        assert_eq!(held.status, ConditionStatus::False);
        note_hold(&mut status, &step, None, at("2026-04-10T12:40:00Z"));
        assert_eq!(status.wait_for_merge_expiry, Some(at("2026-04-10T13:30:00Z")));
    }
}
