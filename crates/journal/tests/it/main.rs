//! The tests of durable records, in one binary.

mod crash;
mod file;
mod snapshots;
mod support;
