//! The tests of the graph kernel, in one binary.

mod build;
mod dags;
mod export;
mod journal;
mod order;
mod reduce;
mod resume;
mod run;
