//! Pieces of Go's library (and of the libraries Helm builds on) whose exact behaviour users can observe.
//!
//! A module is named for the Go package it follows: [`strconv`], [`strings`], [`unicode`], [`time`],
//! [`path`], [`filepath`], [`regexp`], [`url`] (`net/url`), [`binary`] (`encoding`), [`decimal`]
//! (`shopspring/decimal`) and [`semver`] (`Masterminds/semver`). Texts are bytes where Go's strings may hold
//! invalid UTF-8. Nothing here knows templates, YAML or Kubernetes.

pub mod binary;
pub mod decimal;
mod error;
pub mod filepath;
pub mod path;
pub mod regexp;
pub mod semver;
pub mod strconv;
pub mod strings;
pub mod time;
pub mod unicode;
pub mod url;

pub use error::GoError;
