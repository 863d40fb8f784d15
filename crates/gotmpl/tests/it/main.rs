//! One binary for every integration test of the crate.

mod values;
