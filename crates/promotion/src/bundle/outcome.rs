//! The conditions of a Bundle.

use jiff::Timestamp;

use crate::kinds::{Bundle, BundlePhase, BundleStatus, ConditionStatus, NewCondition, set_condition};

/// Conditions a Bundle may have.
pub(super) mod condition {
    pub(in crate::bundle) const READY: &str = "Ready";
    pub(in crate::bundle) const INVALID_SPEC: &str = "InvalidSpec";
    pub(in crate::bundle) const SKIP_PERMITTED: &str = "SkipPermitted";
    pub(in crate::bundle) const GRAPH_ACCEPTED: &str = "GraphAccepted";
    pub(in crate::bundle) const GRAPH_RESPONDING: &str = "GraphResponding";
    pub(in crate::bundle) const CLEANUP_PENDING: &str = "CleanupPending";
    pub(in crate::bundle) const DEGRADED: &str = "Degraded";
    pub(in crate::bundle) const PIPELINE_MISSING: &str = "PipelineMissing";
    /// False where there is nothing to go back to.
    pub(crate) const ROLLED_BACK: &str = "RolledBack";
    pub(in crate::bundle) const SNAPSHOT_LOST: &str = "SnapshotLost";
}

/// A status in the making, with the moment its changes happen.
pub(super) struct StatusDraft<'b> {
    bundle: &'b Bundle,
    now: Timestamp,
    pub(super) status: BundleStatus,
}

impl<'b> StatusDraft<'b> {
    pub(super) fn new(bundle: &'b Bundle, now: Timestamp) -> Self {
        let mut status = bundle.status.clone();
        status.observed_generation = Some(bundle.metadata.generation);
        if status.version.is_none() {
            status.version = Some(bundle.spec.version()).filter(|version| !version.is_empty());
        }
        Self { bundle, now, status }
    }

    pub(super) fn set(
        &mut self,
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) {
        let new = NewCondition {
            kind,
            status,
            reason,
            message: message.into(),
            observed_generation: self.bundle.metadata.generation,
        };
        set_condition(&mut self.status.conditions, new, self.now);
    }

    /// Sets a condition only if it is there already.
    pub(super) fn settle(
        &mut self,
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) {
        if self.status.conditions.iter().any(|known| known.kind == kind) {
            self.set(kind, status, reason, message);
        }
    }

    /// Sets the phase, and the `Ready` condition that goes with it.
    pub(super) fn phase(&mut self, phase: BundlePhase, reason: &str, message: impl Into<String>) {
        self.status.phase = Some(phase);
        let ready =
            if phase == BundlePhase::Verified { ConditionStatus::True } else { ConditionStatus::False };
        self.set(condition::READY, ready, reason, message);
    }
}
