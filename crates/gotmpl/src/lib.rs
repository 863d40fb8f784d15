//! Go `text/template` with Helm's functions, byte for byte.
//!
//! [`Value`] is Go's dynamic value; a [`FuncMap`] holds functions with their Go signatures; a
//! [`TemplateSet`] parses files once; a [`Renderer`] executes them as often as needed, within
//! [`Limits`] and with a [`Host`] for what lies outside. Output and error texts are those of Helm
//! 3.17 (Go 1.23). Nothing here reads files, the environment or the network.

mod builtin;
mod encoding;
mod exec;
pub mod fmt;
mod func;
mod helm;
mod host;
mod object;
mod parse;
mod serde;
mod set;
pub mod sprig;
mod str;
mod trace;
mod value;

pub use exec::{ExecError, Renderer, remove_no_value};
pub use func::{Args, Body, Ctx, Func, FuncError, FuncMap, FuncResult, Signature, Ty};
pub use host::{Host, Limits, NoHost};
pub use object::{Json, Object};
pub use parse::ParseError;
pub use serde::{Numbers, ValueSeed};
pub use set::TemplateSet;
pub use str::Str;
pub use trace::{Nested, Segment};
pub use value::{Kind, List, ListKind, MAX_VALUE_DEPTH, Map, MapKind, Value};
