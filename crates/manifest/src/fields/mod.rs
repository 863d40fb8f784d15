//! Sets of field paths, and the `fieldsV1` form in which objects record who owns what.

mod element;
mod set;
mod v1;

pub use element::{PathElement, compare_values};
pub use set::{FieldPath, FieldSet};
pub use v1::FieldsV1Error;
