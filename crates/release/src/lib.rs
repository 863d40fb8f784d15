//! One release of one source taken to a cluster: planned, applied, watched, rolled back, deleted.
//!
//! A loaded source (`slipway_source`) is rendered; [`resource`] reads what annotations ask for; [`plan()`] looks at the cluster (it never writes), decides what becomes of each object
//! ([`mod@decide`], [`owners`]) and orders operations into a graph ([`ops`]). The result is a [`ReleasePlan`]: a value
//! to be shown ([`show`]), saved ([`saved`]) and [verified](ReleasePlan::verify). [`execute()`] carries it out under
//! the release's lock and records it where Helm finds it ([`record`]); [`apply()`] is both in one. A delete, a
//! rollback and a test are the same with another [`ReleaseContent`].
//!
//! The crate prints nothing: what happens is told as events.

pub mod decide;
mod execute;
mod failure;
pub mod inspect;
pub mod logs;
pub mod lookup;
mod name;
mod object_state;
pub mod ops;
pub mod owners;
pub mod plan;
mod policy;
pub mod record;
pub mod resource;
pub mod saved;
pub mod show;
pub mod stage;
pub mod validate;
pub mod wait;

pub use execute::{ExecuteOptions, MOST_PLANS, ReleaseReport, ReleaseStatus, RunTimeout, apply, execute};
pub use failure::{FailedPart, Failure, FailureCause};
pub use name::{Namespace, ReleaseName, Revision};
pub use object_state::{ObjectCondition, ObjectState, read_object_states};
pub use plan::{
    MissingNamespace, PlanOptions, PlanPurpose, ReleaseContent, ReleasePlan, ReleaseRequest, TestFilter, plan,
};
pub use policy::PolicyCheck;
