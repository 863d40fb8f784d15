//! Rollback: a forward promotion of a version that was verified before. Pure.
//!
//! [`plan_rollbacks`] says which bundles take a failed one back, [`manual_rollback`] makes the bundle a person asks for, and
//! [`held_by`] keeps a version that was taken back from returning. `history` knows what an environment ran.

mod artifacts;
mod history;
mod manual;
mod plan;

pub use history::{RollbackHold, current_bundle, held_by, rollback_target};
pub use manual::{ManualRollback, RollbackError, RollbackPriority, manual_rollback};
pub use plan::{RollbackNote, RollbackPlan, RollbackSkip, plan_rollbacks, rollback_name};
