//! Progressive delivery on plain Kubernetes: rolling, canary, blue-green.
//!
//! [`Strategy::load`] reads a strategy file; [`plan_steps`] holds it against the cluster and says what each step would do; [`deploy`]
//! carries the steps out as a graph on the kernel, writing each to the [`StepLog`] before it changes anything. A rollout that
//! paused or was killed goes on with the next [`deploy`]; [`abort`] takes it back, as long as its last step has not begun. Objects a
//! rollout makes for itself carry labels, so that nothing is left behind even where the log is lost. [`rehearse_strategy`] tries
//! all of it on a copy.

mod abort;
mod baseline;
mod bluegreen;
mod canary;
mod cleanup;
mod labels;
mod log;
mod objects;
mod plan;
mod quota;
mod read;
mod rehearse;
mod rollout;
mod run;
mod settings;
mod signals;
mod steps;
mod target;
mod traffic;
mod weights;

pub use abort::{AbortOutcome, AbortRequest, abort};
pub(crate) use bluegreen::deployed_objects;
pub use labels::{COLOR, MANAGER, OWNED_BY_RUN, RELEASE, TRACK};
pub use log::{MemoryLog, StepLog};
pub use plan::{PlannedStep, StrategyPlan, plan_steps};
pub use rehearse::{RehearsedStrategy, rehearse_strategy};
pub use rollout::{Pace, RolloutContext};
pub use run::deploy;
pub use settings::{
    BlueGreenSettings, CanarySettings, CanaryStep, OnFailure, SignalSettings, StepPause, Strategy,
    StrategyKind, TargetName, TrafficProvider,
};
