//! One release of one source taken to a cluster: planned, applied, watched, rolled back, deleted.
//!
//! A loaded source (`slipway_source`) is rendered; [`resource`] reads what annotations ask for; [`plan::plan`] looks at the cluster (it never writes), decides what becomes of each object
//! ([`mod@decide`], [`owners`]) and orders operations into a graph ([`ops`]); [`apply::apply`] carries that
//! out under the release's lock and records it where Helm finds it ([`record`]). A delete, a rollback and a
//! test are the same with another [`plan::Content`]. [`show`] turns a plan into what people and programs read.
//!
//! The crate prints nothing: what happens is told as events.

pub mod apply;
pub mod decide;
mod failure;
pub mod inspect;
pub mod logs;
pub mod lookup;
pub mod ops;
pub mod owners;
pub mod plan;
pub mod record;
pub mod resource;
pub mod saved;
pub mod show;
pub mod stage;
pub mod wait;

pub use apply::{Report, apply};
pub use failure::{Cause, Failure};
pub use plan::{Content, Plan, Request, plan};
