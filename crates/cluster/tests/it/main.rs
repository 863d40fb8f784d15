//! The cluster crate against the sandbox, in process.

mod election;
mod helm;
mod lock;
mod objects;
mod track;
mod watch;
mod world;
