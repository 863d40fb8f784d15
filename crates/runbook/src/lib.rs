//! Runbooks: `khook.io/v1` documents that bootstrap a cluster, step by step.
//!
//! A document is text first: [`Variables`] are gathered from flags, files and the environment, and
//! [`substitute`] puts them into the text while remembering where every piece came from, so that
//! whatever is found wrong later is reported where the user wrote it.

mod text;
mod variables;

pub use text::{Origin, Reference, Substituted, substitute};
pub use variables::{Given, Inputs, Variable, Variables};
