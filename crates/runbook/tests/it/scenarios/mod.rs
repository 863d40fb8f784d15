//! The acceptance scenarios of the specification, in process on the sandbox; names carry their numbers.

mod bad_input;
mod examples;
mod killing;
mod objects;
mod previews;
mod releases;
mod scheduling;
mod states;
mod waits;
