//! Runbooks: read, run, resumed, undone.

mod documents;
mod editors;
mod hashing;
mod scenarios;
mod substitution;
mod waiting;
mod world;
