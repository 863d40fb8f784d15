//! Encrypted values and secret files in the format of werf and Nelm.

mod key;

pub use key::Key;
pub(crate) use key::{from_hex, to_hex};
