//! The stack engine from files to outcomes.

mod bad_input;
mod compiling;
mod engine;
mod hostile_repository;
mod killing;
mod launching;
mod limits;
mod records;
mod running;
mod selecting;
mod support;
