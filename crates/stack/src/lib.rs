//! Many releases as one graph.
//!
//! [`load`] finds `stack.yaml` and `release.yaml` files ([`discover`]) and merges their layers ([`inherit`]),
//! [`plan()`] chooses releases ([`select`]) and makes a [`PlannedRun`] of them, whose [`StackPlan`] is shown, agreed to,
//! verified and [saved](PlannedRun::save), and [`execute()`] runs it on the graph kernel through whatever implements
//! [`Deploy`]. [`record`] keeps every run where a crash cannot hurt it, [`resume`] goes on with one.
//!
//! The crate applies nothing by itself: [`engine`] hands releases to the release engine.

mod check;
pub mod deploy;
pub mod discover;
pub mod duration;
pub mod engine;
mod error;
pub mod execute;
pub mod explain;
pub mod git;
mod id;
mod ignore;
pub mod inherit;
mod model;
mod paths;
pub mod pin;
pub mod plan;
pub mod record;
pub mod resume;
mod schema;
pub mod select;
pub mod sources;
pub mod survey;

pub use deploy::{
    AppliedRelease, At, Deploy, FailureClass, LiveRelease, NodeError, ReleaseAttempt, ReleasePreview,
    ReleaseVerdict,
};
pub use error::Error;
pub use execute::{ExecutedRun, RunOptions, StackRunResult, execute};
pub use git::Git;
pub use id::ReleaseId;
pub use inherit::Profile;
pub use model::{Declaration, Located, Runner, Settings, StackFile};
pub use paths::expand;
pub use plan::compile::compile;
pub use plan::{
    Command, CompiledStack, ConfirmPolicy, ConfirmQuestion, FailMode, NeedsPolicy, Node, PlannedRun,
    RemoteCharts, Request, ResumedPlan, RunRequest, SavedRun, Stack, StackPlan, acquire_lock, load, plan,
};
pub use schema::{check_release_file, check_stack_file, release_schema, stack_schema};
pub use select::{SelectMode, Selector};
