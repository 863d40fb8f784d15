//! Server-side apply: who owns which field, and what happens when two want the same one.
//!
//! [`typed`] reads a value with its type and finds what does not fit; [`sets`] turns values into field
//! sets, [`merge`](merging), [`compare`] and [`remove`] work on typed values; [`managers`] reads and
//! writes `metadata.managedFields`; [`operation`] puts them together as a server does.

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
pub use typed::{TypeProblem, TypeProblems, validate};
