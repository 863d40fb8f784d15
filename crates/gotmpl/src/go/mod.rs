//! Pieces of Go's standard library whose exact behaviour templates can observe.

pub mod binary;
pub mod decimal;
pub mod json;
pub mod path;
pub mod regexp;
pub mod semver;
pub mod strings;
pub mod time;
pub mod toml;
pub mod unicode;
pub mod url;
