//! Rehearsals: the part of a cluster a plan touches is copied into an embedded one of this process, and the whole plan
//! is carried out there first, in simulated time.
//!
//! A [`Stage`] is the copy, for any engine that takes a `Cluster`; [`StageScope`] says what is copied.
//! [`rehearse_release`], [`rehearse_stack`] and [`rehearse_runbook`] hold the rehearsals of the three engines,
//! [`forecast()`] judges what a copy cannot show. [`rehearse_pipeline`] plays a whole promotion with a repository, pull
//! requests and a GitOps tool of its own. Nothing in the cluster is written.

mod error;
mod forecast;
mod pipeline;
mod release;
mod runbook;
mod stack;
mod stage;

pub use error::RehearsalError;
pub use forecast::{Forecast, forecast, stage_questions};
pub use pipeline::{
    ApprovalDelay, ArrivalReason, EnvironmentArrival, GitOpsSync, LocalForge, PipelineDemo,
    PipelineRehearsal, PipelineTimeline, PromotionStage, RehearsalEnd, TimelineEntry, TimelineEvent,
    rehearse_pipeline,
};
pub use release::{RehearsedRelease, rehearse_release, stage_options};
pub use runbook::{RehearsedRunbook, rehearse_runbook};
pub use stack::{RehearsedStack, rehearse_stack};
pub use stage::{Stage, StageScope, staged_request, unattended_groups};
