//! What the crate promises, as tables of cases, recorded answers of real Helm, and laws.

mod editing;
mod emitting;
mod fields;
mod helm;
mod hostile;
mod laws;
mod reading;
