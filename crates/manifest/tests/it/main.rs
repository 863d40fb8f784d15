//! Tests of the public API.

mod apply;
mod crd;
mod decode;
mod diff;
mod jsonpath;
mod object;
mod patch;
mod schema;
mod selector;
