//! Pieces of Go's standard library whose exact behaviour templates can observe.

pub mod decimal;
pub mod path;
pub mod regexp;
pub mod semver;
pub mod strings;
pub mod time;
pub mod unicode;
pub mod url;
