//! The status of a step while it is carried out: written before and after everything that happens outside.

use jiff::Timestamp;
use slipway_cluster::Cluster;

use crate::kinds::{
    self, ConditionStatus, NewCondition, PromotionStep, PromotionStepSpec, PromotionStepStatus,
    find_condition, set_condition,
};

use super::outcome::StepError;

/// A step and the status it is going to have.
pub(super) struct StatusWriter {
    cluster: Cluster,
    /// The step as the cluster has it.
    pub(super) step: PromotionStep,
    /// The status to write.
    pub(super) status: PromotionStepStatus,
}

/// How often an object that others write is read again.
const MOST_READS: u32 = 8;

impl StatusWriter {
    pub(super) fn new(cluster: &Cluster, step: PromotionStep) -> Self {
        Self { cluster: cluster.clone(), status: step.status.clone(), step }
    }

    /// Writes the status, unless somebody else has written one meanwhile: then theirs counts.
    pub(super) async fn write(&mut self) -> Result<(), StepError> {
        for _ in 0..MOST_READS {
            match kinds::patch_status(&self.cluster, &self.step, &self.status).await {
                Ok(written) => {
                    self.status = written.status.clone();
                    self.step = written;
                    return Ok(());
                }
                Err(error) if error.is_absent() => return Err(StepError::Abandoned),
                Err(error) if error.is_conflict() => {
                    let at = &self.step.metadata;
                    let live =
                        kinds::get::<PromotionStepSpec>(&self.cluster, &at.namespace, &at.name).await?;
                    let Some(live) = live.filter(|live| live.metadata.uid == at.uid) else {
                        return Err(StepError::Abandoned);
                    };
                    // Written, but the answer was lost.
                    let is_ours = live.status == self.status;
                    if !is_ours && live.status != self.step.status {
                        return Err(StepError::Abandoned);
                    }
                    self.step = live;
                    if is_ours {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(StepError::Abandoned)
    }
}

/// Sets a condition of a step; that something is not the case is only said where it was.
pub(super) fn set_step_condition(
    status: &mut PromotionStepStatus,
    step: &PromotionStep,
    kind: &str,
    value: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    if value == ConditionStatus::False && find_condition(&status.conditions, kind).is_none() {
        return;
    }
    let condition = NewCondition {
        kind,
        status: value,
        reason,
        message: message.to_owned(),
        observed_generation: step.metadata.generation,
    };
    set_condition(&mut status.conditions, condition, now);
}
