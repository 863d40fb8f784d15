//! Tests of the public API.

mod patch;
mod schema;
