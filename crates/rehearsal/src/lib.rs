//! Rehearsals: the part of a cluster a plan touches is copied into an embedded one of this process, and the whole plan
//! is carried out there first, in simulated time.
//!
//! A [`Stage`] is the copy, for any engine that takes a `Cluster`; [`StageScope`] says what is copied.
//! [`rehearse_release`] holds the rehearsal of one release, [`forecast()`] judges what a copy cannot show. Nothing in the
//! cluster is written.

mod error;
mod forecast;
mod release;
mod stage;

pub use error::{RehearsalError, located};
pub use forecast::{Forecast, forecast, stage_questions};
pub use release::{RehearsedRelease, rehearse_release, stage_options};
pub use stage::{Stage, StageScope, unattended_groups};
