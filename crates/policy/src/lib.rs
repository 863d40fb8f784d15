//! Policy files: rules on what a plan may do, evaluated before anything is written.
//!
//! [`PolicySet::load`] reads files (`read`) into rules that cannot be wrong any more: patterns, time windows and
//! expressions are compiled once. An engine fills a [`PolicyInput`] from its plan, and [`PolicySet::evaluate`] gives a
//! [`PolicyReport`]: one [`PolicyResult`] a finding, one a rule that found nothing. [`PolicySet::guardrails`] are the
//! rules that hold where nobody wrote any.
//!
//! The crate knows no engine, no cluster and no clock: the time is part of the input.

mod evaluate;
mod exception;
mod expression;
mod input;
mod load;
mod model;
mod pattern;
mod read;
mod report;
mod schema;
mod window;

pub use input::{
    ChangeAction, PolicyChange, PolicyImage, PolicyInput, PolicyObject, PolicyTarget, SecretUse, UnitFacts,
};
pub use load::{PolicySet, PolicySource};
pub use report::{PolicyCode, PolicyDecision, PolicyReport, PolicyResult};
pub use schema::policy_schema;
