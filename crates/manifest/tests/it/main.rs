//! Tests of the public API.

mod apply;
mod decode;
mod jsonpath;
mod patch;
mod schema;
mod selector;
