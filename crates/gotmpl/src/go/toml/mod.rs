//! TOML as the library behind Helm's `toToml` and `fromToml` writes and reads it.

mod decode;
mod encode;

pub use decode::decode;
pub use encode::encode;
