//! Sprig 3.3 and Helm's data functions.
//!
//! [`functions`] gives them all with their Go signatures; the engine checks arguments against these.
//! Everything random or timed goes through the [`TemplateHost`](crate::TemplateHost), everything a template chooses
//! the size of through the [limits](crate::Limits).

mod cast;
mod crypto;
mod dates;
mod dicts;
mod encode;
mod lists;
mod logic;
mod numbers;
mod paths;
mod random;
mod reflect;
mod regex;
mod semver;
mod strings;

pub use crypto::CertificatePair;
pub use dates::TimeObject;

use crate::func::{FuncError, FuncMap};

/// Every function of Sprig that Helm offers, and Helm's own for YAML, JSON and TOML.
pub fn functions() -> FuncMap {
    let mut map = FuncMap::new();
    strings::add(&mut map);
    numbers::add(&mut map);
    logic::add(&mut map);
    lists::add(&mut map);
    dicts::add(&mut map);
    encode::add(&mut map);
    reflect::add(&mut map);
    paths::add(&mut map);
    regex::add(&mut map);
    dates::add(&mut map);
    semver::add(&mut map);
    random::add(&mut map);
    crypto::add(&mut map);
    map
}

/// A Go string for a message.
fn quoted(text: &[u8]) -> String {
    String::from_utf8_lossy(&slipway_go::strconv::quote(text)).into_owned()
}

/// Go's text for a runtime panic.
fn runtime_error(text: impl std::fmt::Display) -> FuncError {
    FuncError::new(format!("runtime error: {text}"))
}
