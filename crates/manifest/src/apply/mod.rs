//! Server-side apply: ownership of fields, and conflicts between managers.
//!
//! [`validate`] reads a value with its type and finds what does not fit; [`fields_of`] turns values into
//! field sets; [`merge`], [`compare`] and [`remove_fields`] work on typed values; [`FieldManagers`] reads and writes
//! `metadata.managedFields`; [`apply()`] and [`update`] put them together as a server does.
//!
//! [`apply()`] and [`update`] refuse values nested too deep; the parts they are made of take values that
//! passed [`crate::depth::check_depth`].

mod compare;
mod managers;
mod merging;
mod operation;
mod remove;
mod sets;
mod typed;

pub use compare::{Comparison, compare};
pub use managers::{FieldManager, FieldManagers, ManagerOperation, ManagersError};
pub use merging::merge;
pub use operation::{AppliedObject, ApplyError, FieldConflict, FieldConflicts, WriteRequest, apply, update};
pub use remove::remove_fields;
pub use sets::fields_of;
pub use typed::{DuplicateItems, TypeProblem, TypeProblems, validate};
