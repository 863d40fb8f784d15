//! Another try of a step that has failed.

use slipway_cluster::Cluster;

use crate::kinds::{self, KindError, PromotionStepSpec, PromotionStepStatus, StepState};

/// The answer to the wish for another try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryOutcome {
    /// The step begins anew; this is its attempt.
    Restarted {
        attempt: u32,
    },
    /// The step has not failed.
    NotFailed {
        state: StepState,
    },
    NotFound,
}

/// Has a failed step begin anew. Its pull request and branch are found again and used.
pub async fn retry_step(cluster: &Cluster, namespace: &str, name: &str) -> Result<RetryOutcome, KindError> {
    loop {
        let Some(step) = kinds::get::<PromotionStepSpec>(cluster, namespace, name).await? else {
            return Ok(RetryOutcome::NotFound);
        };
        let state = step.state();
        if !state.is_failure() {
            return Ok(RetryOutcome::NotFailed { state });
        }
        let attempt = step.status.attempt.unwrap_or(1) + 1;
        let status = PromotionStepStatus {
            state: Some(StepState::Pending),
            attempt: Some(attempt),
            conditions: step.status.conditions.clone(),
            ..PromotionStepStatus::default()
        };
        match kinds::patch_status(cluster, &step, &status).await {
            Err(error) if error.is_conflict() => {}
            result => return result.map(|_| RetryOutcome::Restarted { attempt }),
        }
    }
}
