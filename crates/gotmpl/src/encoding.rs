//! JSON and TOML as Go's encoders write and read them: they encode template values, so they live here.

pub(crate) mod json;
pub(crate) mod toml;
