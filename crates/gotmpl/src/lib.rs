//! Go `text/template` with Helm's functions, byte for byte.
//!
//! [`Value`] is Go's dynamic value; a [`FuncMap`] holds functions with their Go signatures.

mod builtin;
pub mod fmt;
mod func;
mod host;
mod object;
mod serde;
mod str;
pub mod strconv;
mod value;

pub use func::{Args, Body, Ctx, Func, FuncError, FuncMap, FuncResult, Signature, Ty};
pub use host::{Host, Limits, NoHost};
pub use object::{Json, Object};
pub use serde::{Numbers, ValueSeed};
pub use str::Str;
pub use value::{Kind, List, ListKind, MAX_VALUE_DEPTH, Map, MapKind, Value};
