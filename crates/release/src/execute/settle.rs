//! Puts right what an interrupted run left in the history.

use slipway_cluster::helm::{ReleaseStorage, RevisionStatus};

use crate::failure::Failure;
use crate::plan::ReleasePlan;

/// Records that a revision still pending did not come to be, and that only the newest deployed one is.
pub(super) async fn settle_history(storage: &ReleaseStorage, plan: &ReleasePlan) -> Result<(), Failure> {
    for old in plan.unsettled_revisions() {
        let mut old = old.clone();
        if old.info.status == RevisionStatus::Deployed {
            old.info.status = RevisionStatus::Superseded;
        } else {
            old.info.status = RevisionStatus::Failed;
            old.info.description = format!("Interrupted; taken over by revision {}", plan.revision());
        }
        storage.update(&old).await?;
    }
    Ok(())
}
