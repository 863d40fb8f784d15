//! Runbooks from the outside.

mod documents;
mod editors;
mod hashing;
mod substitution;
mod waiting;
