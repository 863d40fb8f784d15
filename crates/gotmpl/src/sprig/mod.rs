//! Sprig 3.3 and Helm's data functions.
//!
//! [`functions`] gives them all with their Go signatures; the engine checks arguments against these.
//! Everything random or timed goes through the [`TemplateHost`](crate::TemplateHost), everything a template chooses
//! the size of through the [limits](crate::RenderLimits).

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
    strings::add_functions(&mut map);
    numbers::add_functions(&mut map);
    logic::add_functions(&mut map);
    lists::add_functions(&mut map);
    dicts::add_functions(&mut map);
    encode::add_functions(&mut map);
    reflect::add_functions(&mut map);
    paths::add_functions(&mut map);
    regex::add_functions(&mut map);
    dates::add_functions(&mut map);
    semver::add_functions(&mut map);
    random::add_functions(&mut map);
    crypto::add_functions(&mut map);
    map
}

/// A Go string for a message.
fn go_quoted(text: &[u8]) -> String {
    String::from_utf8_lossy(&slipway_go::strconv::quote(text)).into_owned()
}

/// Go's text for a runtime panic.
fn runtime_error(text: impl std::fmt::Display) -> FuncError {
    FuncError::new(format!("runtime error: {text}"))
}
