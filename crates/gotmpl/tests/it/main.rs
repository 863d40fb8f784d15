//! One binary for every integration test of the crate.

mod helm;
mod limits;
mod numbers;
mod robust;
mod sprig;
mod trace;
mod values;
mod vectors;
mod world;
