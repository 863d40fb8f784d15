//! Expressions as users write them, with what they give.

mod common;
mod errors;
mod hostile;
mod library;
mod schema;
mod trace;
mod values;
