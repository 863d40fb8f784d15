//! Puts right what an interrupted run left in the history.

use slipway_cluster::helm::{Status, Storage};

use crate::failure::Failure;
use crate::plan::ReleasePlan;

/// Records that a revision still pending did not come to be, and that only the newest deployed one is.
pub(super) async fn settle(storage: &Storage, plan: &ReleasePlan) -> Result<(), Failure> {
    for old in plan.unsettled() {
        let mut old = old.clone();
        if old.info.status == Status::Deployed {
            old.info.status = Status::Superseded;
        } else {
            old.info.status = Status::Failed;
            old.info.description = format!("Interrupted; taken over by revision {}", plan.revision());
        }
        storage.update(&old).await?;
    }
    Ok(())
}
