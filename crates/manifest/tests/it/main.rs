//! Tests of the public API.

mod apply;
mod jsonpath;
mod patch;
mod schema;
mod selector;
