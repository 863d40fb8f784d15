//! Tests of the public API.

mod apply;
mod crd;
mod decode;
mod jsonpath;
mod patch;
mod schema;
mod selector;
