//! Server-side apply: who owns which field, and what happens when two want the same one.
//!
//! [`validate`] reads a value with its type and finds what does not fit; [`to_set`] turns values into
//! field sets; [`merge`], [`compare`] and [`remove`] work on typed values; [`Managers`] reads and writes
//! `metadata.managedFields`; [`apply()`] and [`update`] put them together as a server does.
//!
//! [`apply()`] and [`update`] refuse values nested too deep; the parts they are made of take values that
//! passed [`crate::depth::check`].

mod compare;
mod managers;
mod merging;
mod operation;
mod remove;
mod sets;
mod typed;

pub use compare::{Comparison, compare};
pub use managers::{Manager, Managers, ManagersError, Operation};
pub use merging::merge;
pub use operation::{Applied, ApplyError, Conflict, Conflicts, Request, apply, update};
pub use remove::remove;
pub use sets::to_set;
pub use typed::{Duplicates, TypeProblem, TypeProblems, validate};
