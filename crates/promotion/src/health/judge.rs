//! The verdict over one look after the other: deadlines, failure thresholds and the bake. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::report::HealthReport;
use crate::kinds::{
    BakePolicy, BakeSpec, ConditionStatus, HealthFailurePolicy, HealthLevel, NewCondition, PromotionStepSpec,
    PromotionStepStatus, StepState, remove_condition, set_condition,
};

/// The time between two looks.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The time an environment has to become healthy unless its spec says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// The time a cluster may be silent before the step says so.
const UNKNOWN_GRACE: SignedDuration = SignedDuration::from_secs(120);

/// The time an environment gets after a silent cluster came back behind the deadline.
const RETURN_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The time an environment may be on the move before its bake begins anew.
const MOVE_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The condition that says that a cluster does not answer.
const HEALTH_UNKNOWN: &str = "HealthUnknown";

/// The rules an environment is judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthPolicy {
    pub timeout: Duration,
    pub bake: Option<BakeSpec>,
    /// Failed looks in a row that end the check before its time.
    pub failure_threshold: Option<u32>,
    pub on_failure: Option<HealthFailurePolicy>,
    /// The generation of the step, for conditions.
    pub generation: i64,
}

impl HealthPolicy {
    /// The rules of a step.
    pub fn of(spec: &PromotionStepSpec) -> Self {
        Self {
            timeout: spec.health.timeout.map_or(DEFAULT_TIMEOUT, |timeout| timeout.0),
            bake: spec.bake.clone(),
            failure_threshold: spec.auto_rollback.as_ref().map(|rules| rules.failure_threshold.max(1)),
            on_failure: spec.on_health_failure,
            generation: 0,
        }
    }

    /// The state of a step that is not healthy.
    fn failed_state(&self) -> StepState {
        match self.on_failure {
            Some(HealthFailurePolicy::Abort) => StepState::AbortedByAlarm,
            Some(HealthFailurePolicy::Rollback) => StepState::RollingBack,
            // Without a word the pipeline's own rule decides about a rollback; the step has failed either way.
            Some(HealthFailurePolicy::None) | None => StepState::Failed,
        }
    }
}

/// What becomes of a step after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthVerdict {
    /// Look again at this moment.
    Wait {
        until: Timestamp,
    },
    /// Healthy for as long as it has to be.
    Verified,
    Failed {
        state: StepState,
        reason: &'static str,
        message: String,
    },
}

/// Judges a look, and keeps in the status what the next one needs. Nothing is remembered elsewhere, so a restart
/// changes neither deadlines nor the time baked.
pub fn judge(
    status: &mut PromotionStepStatus,
    policy: &HealthPolicy,
    report: &HealthReport,
    now: Timestamp,
) -> HealthVerdict {
    let was_unknown = status.health.as_ref().is_some_and(|before| before.level == HealthLevel::Unknown);
    remember(status, policy, report, now);
    let mut expiry = status.health_check_expiry.unwrap_or_else(|| plus(now, policy.timeout));
    status.health_check_expiry = Some(expiry);
    let level = report.level();
    match level {
        HealthLevel::Healthy => {
            status.consecutive_health_failures = 0;
            let Some(bake) = &policy.bake else { return HealthVerdict::Verified };
            let time = minutes(bake.minutes);
            let start = *status.bake_started_at.get_or_insert_with(|| {
                // Resets may not go on for ever: three times the bake is the most.
                expiry = plus(expiry, time * 3);
                now
            });
            status.health_check_expiry = Some(expiry);
            let baked = elapsed(start, now);
            status.bake_elapsed_minutes = u32::try_from(baked.as_secs() / 60).ok();
            if baked >= time {
                return HealthVerdict::Verified;
            }
            if now < expiry {
                return HealthVerdict::Wait { until: soonest(now, [plus(start, time), expiry]) };
            }
        }
        HealthLevel::Failed => {
            let reason =
                if report.observation.reason == "DelegateAborted" { "DelegateAborted" } else { "Unhealthy" };
            return failed(status, policy, reason, report.observation.message.clone());
        }
        HealthLevel::Degraded => {
            if let Some(verdict) = alarm(status, policy, report, now) {
                return verdict;
            }
        }
        HealthLevel::Progressing => {
            status.consecutive_health_failures = 0;
            // A short move (a scaler, a reconciliation) is no alarm, but time spent on the way is not baked.
            let lasts = report.observation.since.is_some_and(|since| now.duration_since(since) > MOVE_GRACE);
            if lasts && status.bake_started_at.is_some() {
                status.bake_started_at = Some(now);
                status.bake_elapsed_minutes = Some(0);
            }
        }
        // Says nothing: neither a failed look nor a healthy one.
        HealthLevel::Unknown => {}
    }
    // A cluster that was silent when time ran out is given a moment to show what it has done since.
    if was_unknown && level != HealthLevel::Unknown && now >= expiry {
        let last = plus_signed(now, RETURN_GRACE);
        status.health_check_expiry = Some(last);
        return HealthVerdict::Wait { until: soonest(now, [last]) };
    }
    if now >= expiry {
        let message = format!("not healthy in time: {}", report.observation.message);
        return failed(status, policy, "HealthTimeout", message);
    }
    HealthVerdict::Wait { until: soonest(now, [expiry]) }
}

/// Counts a failed look, and resets or ends the bake.
fn alarm(
    status: &mut PromotionStepStatus,
    policy: &HealthPolicy,
    report: &HealthReport,
    now: Timestamp,
) -> Option<HealthVerdict> {
    let is_new = status.consecutive_health_failures == 0;
    status.consecutive_health_failures += 1;
    let message = report.observation.message.clone();
    if let (Some(bake), Some(_)) = (&policy.bake, status.bake_started_at) {
        if bake.policy == BakePolicy::FailOnAlarm {
            return Some(failed(status, policy, "BakeAlarm", message));
        }
        status.bake_started_at = Some(now);
        status.bake_elapsed_minutes = Some(0);
        status.bake_resets += u32::from(is_new);
    }
    let threshold = policy.failure_threshold.filter(|most| status.consecutive_health_failures >= *most)?;
    let message = format!("{threshold} failed checks in a row: {message}");
    Some(failed(status, policy, "FailureThreshold", message))
}

fn failed(
    status: &mut PromotionStepStatus,
    policy: &HealthPolicy,
    reason: &'static str,
    message: String,
) -> HealthVerdict {
    remove_condition(&mut status.conditions, HEALTH_UNKNOWN);
    HealthVerdict::Failed { state: policy.failed_state(), reason, message }
}

/// Puts the look into the status.
fn remember(status: &mut PromotionStepStatus, policy: &HealthPolicy, report: &HealthReport, now: Timestamp) {
    let observation = &report.observation;
    if let Some(delegation) = &observation.delegation {
        status.delegated_to = Some(delegation.delegate);
        status.delegated_status = Some(delegation.status.clone());
    }
    match observation.unknown_since {
        Some(since) if now.duration_since(since) >= UNKNOWN_GRACE => {
            let message = observation.message.clone();
            let condition = NewCondition {
                kind: HEALTH_UNKNOWN,
                status: ConditionStatus::True,
                reason: &observation.reason,
                message,
                observed_generation: policy.generation,
            };
            set_condition(&mut status.conditions, condition, now);
        }
        Some(_) => {}
        None => remove_condition(&mut status.conditions, HEALTH_UNKNOWN),
    }
    status.health = Some(observation.clone());
}

/// The next look: in a while, or when something ends.
fn soonest<const N: usize>(now: Timestamp, ends: [Timestamp; N]) -> Timestamp {
    ends.into_iter().fold(plus(now, CHECK_INTERVAL), Timestamp::min).max(now)
}

fn minutes(minutes: u32) -> Duration {
    Duration::from_secs(u64::from(minutes) * 60)
}

fn plus(at: Timestamp, time: Duration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}

fn plus_signed(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::HealthObservation;

    /// Looks every so often at levels that follow each other, and says what came of it.
    struct Trial {
        status: PromotionStepStatus,
        policy: HealthPolicy,
        now: Timestamp,
    }

    impl Trial {
        fn new(bake: Option<(u32, BakePolicy)>) -> Self {
            let bake = bake.map(|(minutes, policy)| BakeSpec { minutes, policy });
            let policy = HealthPolicy {
                timeout: minutes(10),
                bake,
                failure_threshold: None,
                on_failure: None,
                generation: 1,
            };
            let now = "2026-04-10T12:00:00Z".parse().unwrap();
            Self { status: PromotionStepStatus::default(), policy, now }
        }

        fn look(&mut self, level: HealthLevel) -> HealthVerdict {
            let unknown = level == HealthLevel::Unknown;
            let before = self.status.health.as_ref().and_then(|before| before.unknown_since);
            let observation = HealthObservation {
                level,
                reason: format!("{level:?}"),
                message: format!("app: {level:?}"),
                unknown_since: unknown.then(|| before.unwrap_or(self.now)),
                ..HealthObservation::default()
            };
            let report = HealthReport { observation, warning: None };
            judge(&mut self.status, &self.policy, &report, self.now)
        }

        fn later(&mut self, seconds: u64) {
            self.now = plus(self.now, Duration::from_secs(seconds));
        }
    }

    fn failure(verdict: HealthVerdict) -> (StepState, &'static str) {
        match verdict {
            HealthVerdict::Failed { state, reason, .. } => (state, reason),
            other => panic!("did not fail: {other:?}"),
        }
    }

    #[test]
    fn the_deadline_is_set_once_and_names_the_last_detail() {
        let mut trial = Trial::new(None);
        assert!(matches!(trial.look(HealthLevel::Progressing), HealthVerdict::Wait { .. }));
        let expiry = trial.status.health_check_expiry;
        trial.later(590);
        assert!(matches!(trial.look(HealthLevel::Progressing), HealthVerdict::Wait { .. }));
        assert_eq!(trial.status.health_check_expiry, expiry);
        trial.later(10);
        let HealthVerdict::Failed { reason, message, state } = trial.look(HealthLevel::Progressing) else {
            panic!("time is up");
        };
        assert_eq!((state, reason), (StepState::Failed, "HealthTimeout"));
        assert_eq!(message, "not healthy in time: app: Progressing");
    }

    #[test]
    fn a_silent_cluster_is_no_failure_and_gets_a_moment_when_it_is_back() {
        let mut trial = Trial::new(None);
        trial.policy.failure_threshold = Some(1);
        for _ in 0..13 {
            assert!(matches!(trial.look(HealthLevel::Unknown), HealthVerdict::Wait { .. }));
            trial.later(10);
        }
        assert_eq!(trial.status.consecutive_health_failures, 0);
        assert_eq!(trial.status.conditions[0].kind, HEALTH_UNKNOWN);
        trial.later(600);
        let mut silent = Trial { status: trial.status.clone(), policy: trial.policy.clone(), now: trial.now };
        assert_eq!(failure(silent.look(HealthLevel::Unknown)).1, "HealthTimeout");
        assert!(matches!(trial.look(HealthLevel::Progressing), HealthVerdict::Wait { .. }));
        assert!(trial.status.conditions.is_empty());
        trial.later(60);
        assert_eq!(failure(trial.look(HealthLevel::Progressing)).1, "HealthTimeout");
    }

    #[test]
    fn a_bake_needs_contiguous_health() {
        let mut trial = Trial::new(Some((5, BakePolicy::ResetOnAlarm)));
        trial.look(HealthLevel::Healthy);
        for _ in 0..4 {
            trial.later(60);
            assert!(matches!(trial.look(HealthLevel::Healthy), HealthVerdict::Wait { .. }));
        }
        assert_eq!(trial.status.bake_elapsed_minutes, Some(4));
        // One alarm seen twice resets once.
        for _ in 0..2 {
            assert!(matches!(trial.look(HealthLevel::Degraded), HealthVerdict::Wait { .. }));
            trial.later(10);
        }
        assert_eq!((trial.status.bake_resets, trial.status.bake_elapsed_minutes), (1, Some(0)));
        trial.later(280);
        assert!(matches!(trial.look(HealthLevel::Healthy), HealthVerdict::Wait { .. }));
        trial.later(20);
        assert_eq!(trial.look(HealthLevel::Healthy), HealthVerdict::Verified);
    }

    #[test]
    fn a_restart_keeps_the_time_baked() {
        let mut trial = Trial::new(Some((5, BakePolicy::ResetOnAlarm)));
        trial.look(HealthLevel::Healthy);
        trial.later(200);
        let written = serde_json::to_value(&trial.status).unwrap();
        trial.status = serde_json::from_value(written).unwrap();
        trial.later(100);
        assert_eq!(trial.look(HealthLevel::Healthy), HealthVerdict::Verified);
    }

    #[test]
    fn resets_of_a_bake_are_bounded() {
        let mut trial = Trial::new(Some((5, BakePolicy::ResetOnAlarm)));
        let start = trial.now;
        let mut looks = 0;
        let verdict = loop {
            let level = if looks % 10 == 9 { HealthLevel::Degraded } else { HealthLevel::Healthy };
            match trial.look(level) {
                HealthVerdict::Wait { .. } if looks < 1000 => trial.later(10),
                other => break other,
            }
            looks += 1;
        };
        assert_eq!(failure(verdict).1, "HealthTimeout");
        // The timeout of 10 minutes and three times the bake of 5.
        assert_eq!(elapsed(start, trial.now), minutes(25));
    }

    #[test]
    fn an_alarm_ends_a_strict_bake_only_once_it_has_begun() {
        let mut trial = Trial::new(Some((5, BakePolicy::FailOnAlarm)));
        trial.policy.on_failure = Some(HealthFailurePolicy::Abort);
        assert!(matches!(trial.look(HealthLevel::Degraded), HealthVerdict::Wait { .. }));
        trial.look(HealthLevel::Healthy);
        assert!(matches!(trial.look(HealthLevel::Progressing), HealthVerdict::Wait { .. }));
        assert!(matches!(trial.look(HealthLevel::Unknown), HealthVerdict::Wait { .. }));
        assert_eq!(failure(trial.look(HealthLevel::Degraded)), (StepState::AbortedByAlarm, "BakeAlarm"));
    }

    #[test]
    fn failed_looks_in_a_row_reach_the_threshold() {
        let mut trial = Trial::new(None);
        trial.policy.failure_threshold = Some(3);
        trial.policy.on_failure = Some(HealthFailurePolicy::Rollback);
        for level in [HealthLevel::Degraded, HealthLevel::Degraded, HealthLevel::Progressing] {
            assert!(matches!(trial.look(level), HealthVerdict::Wait { .. }));
        }
        for level in [HealthLevel::Degraded, HealthLevel::Unknown, HealthLevel::Degraded] {
            assert!(matches!(trial.look(level), HealthVerdict::Wait { .. }));
        }
        assert_eq!(failure(trial.look(HealthLevel::Degraded)), (StepState::RollingBack, "FailureThreshold"));
    }

    #[test]
    fn the_policy_of_the_environment_decides_what_a_failure_becomes() {
        for (policy, expected) in [
            (None, StepState::Failed),
            (Some(HealthFailurePolicy::None), StepState::Failed),
            (Some(HealthFailurePolicy::Abort), StepState::AbortedByAlarm),
            (Some(HealthFailurePolicy::Rollback), StepState::RollingBack),
        ] {
            let mut trial = Trial::new(None);
            trial.policy.on_failure = policy;
            assert_eq!(failure(trial.look(HealthLevel::Failed)), (expected, "Unhealthy"));
        }
    }
}
