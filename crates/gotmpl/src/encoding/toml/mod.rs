//! TOML as the library behind Helm's `toToml` and `fromToml` writes and reads it.

mod decode;
mod encode;

pub(crate) use decode::decode_toml;
pub(crate) use encode::encode_toml;
