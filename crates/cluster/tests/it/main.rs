//! The cluster crate against the sandbox, in process.

mod election;
mod helm;
mod lock;
mod objects;
mod track;
mod transport;
mod watch;
mod world;
