//! What the crate promises, as tables of cases.

mod emitting;
mod reading;
