//! Tests of the public API.

mod apply;
mod patch;
mod schema;
