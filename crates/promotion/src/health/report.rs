//! The answer of a health check.

use jiff::Timestamp;

use crate::kinds::{DelegationStatus, HealthLevel, HealthObservation};

/// The health of an environment at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthReport {
    /// What was seen; kept in the step's status for the next look.
    pub observation: HealthObservation,
    /// Something whoever runs the pipeline should know.
    pub warning: Option<HealthWarning>,
}

/// A remark that becomes a Warning event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthWarning {
    pub reason: &'static str,
    pub message: String,
}

impl HealthReport {
    pub fn level(&self) -> HealthLevel {
        self.observation.level
    }

    pub fn is_healthy(&self) -> bool {
        self.observation.level == HealthLevel::Healthy
    }

    /// The revision the tool reports.
    pub fn observed_revision(&self) -> Option<&str> {
        self.observation.observed_revision.as_deref()
    }
}

/// What one look found, before it is compared with the look before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finding {
    pub(super) level: HealthLevel,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) revision: Option<String>,
    pub(super) is_missing: bool,
    pub(super) delegation: Option<DelegationStatus>,
}

impl Finding {
    pub(super) fn new(level: HealthLevel, reason: &str, message: impl Into<String>) -> Self {
        Self { level, reason: reason.to_owned(), message: message.into(), ..Self::default() }
    }

    pub(super) fn healthy(message: impl Into<String>) -> Self {
        Self::new(HealthLevel::Healthy, "Healthy", message)
    }

    pub(super) fn progressing(reason: &str, message: impl Into<String>) -> Self {
        Self::new(HealthLevel::Progressing, reason, message)
    }

    /// Puts two findings about one environment together: the worse one speaks.
    pub(super) fn and(self, other: Self) -> Self {
        let is_missing = self.is_missing || other.is_missing;
        let revision = self.revision.clone().or_else(|| other.revision.clone());
        let delegation = self.delegation.clone().or_else(|| other.delegation.clone());
        let worse = if other.level > self.level { other } else { self };
        Self { is_missing, revision, delegation, ..worse }
    }

    /// Remembers what the look before knew.
    pub(super) fn into_observation(
        self,
        adapter: String,
        before: Option<&HealthObservation>,
        now: Timestamp,
    ) -> HealthObservation {
        let same = before.filter(|before| before.level == self.level && before.reason == self.reason);
        let since = same.and_then(|before| before.since).unwrap_or(now);
        let was_healthy = before.and_then(|before| before.healthy_since);
        let was_missing = before.and_then(|before| before.missing_since);
        let was_unknown = before.and_then(|before| before.unknown_since);
        let is_unknown = self.level == HealthLevel::Unknown;
        // A cluster that does not answer leaves everything else as it was.
        let kept = before.filter(|_| is_unknown);
        HealthObservation {
            adapter,
            level: self.level,
            since: Some(since),
            observed_revision: self.revision.or_else(|| kept.and_then(|kept| kept.observed_revision.clone())),
            healthy_since: was_healthy.or_else(|| (self.level == HealthLevel::Healthy).then_some(now)),
            missing_since: match is_unknown {
                true => was_missing,
                false => self.is_missing.then(|| was_missing.unwrap_or(now)),
            },
            unknown_since: is_unknown.then(|| was_unknown.unwrap_or(now)),
            delegation: self.delegation.or_else(|| kept.and_then(|kept| kept.delegation.clone())),
            reason: self.reason,
            message: self.message,
        }
    }
}
