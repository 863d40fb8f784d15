//! The acceptance scenarios of the specification, in process on the sandbox; names carry their numbers.

mod bad_input;
mod calls;
mod examples;
mod http;
mod killing;
mod limits;
mod objects;
mod previews;
mod reading;
mod releases;
mod scheduling;
mod secrets;
mod states;
mod waits;
