//! The cluster crate against the sandbox, in process.

mod helm;
mod objects;
mod world;
