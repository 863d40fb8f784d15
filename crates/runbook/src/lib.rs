//! Runbooks: `khook.io/v1` documents that bootstrap a cluster, step by step.
//!
//! A document is text first: [`Variables`] are gathered from flags, files and the environment, and
//! [`substitute`] puts them into the text while remembering where every piece came from, so that
//! whatever is found wrong later is reported where the user wrote it. [`load`] does all of that and
//! gives a [`Document`], or [`Diagnostics`]: everything that is wrong, at once.
//!
//! [`plan_run`] decides what a run of it does, [`plan::plan`] shows what each step would do, and [`execute()`] carries the
//! [`RunbookPlan`] out as a graph of steps; [`apply`] and [`destroy`] are both in one.
//! Steps speak to one cluster (and to the release engine for charts); charts and files come through
//! `slipway_source`. What was done is kept in a Secret ([`state`]), so that the next run goes on from there.

pub mod check;
mod context;
mod credentials;
mod decode;
mod diagnostic;
mod diff;
mod error;
mod execute;
mod files;
pub mod hash;
mod inputs;
mod junit;
mod lint;
mod load;
mod manifests;
mod model;
pub mod plan;
mod references;
mod schema;
pub mod state;
mod steps;
mod text;
mod variables;

pub use context::{MANAGER, OWNER_LABEL, POLL, RunContext, RunTarget};
pub use diagnostic::{Diagnostic, Diagnostics, End};
pub use diff::{DiffStatus, Difference};
pub use error::{AttemptError, ErrorKind};
pub use execute::{
    Command, RESUMED, ResumePolicy, RunError, RunOptions, RunReport, StateReport, StepReport, StepSchedule,
    apply, destroy, execute, graph,
};
pub use junit::junit;
pub use load::{LoadOptions, LoadedDocument, load};
pub use model::{
    AbsentObject, Action, Apply, Auth, ChartSource, Delete, Document, Helm, Job, ManifestSource, OnError,
    Patch, PatchType, Rollout, RolloutVerb, Selection, State, Step, ValuesSource, Wait, When, WorkloadKind,
};
pub use plan::{RunbookPlan, plan_run};
pub use schema::schema;
pub use steps::http::HttpCheck;
pub use text::{DollarEscape, Origin, Reference, Substituted, substitute};
pub use variables::{Given, Inputs, Variable, Variables};
