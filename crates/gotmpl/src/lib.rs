//! Go `text/template` with Helm's functions, byte for byte.
//!
//! [`GoValue`] is Go's dynamic value; a [`FuncMap`] holds functions with their Go signatures; a
//! [`TemplateSet`] parses files once; a [`TemplateRenderer`] executes them as often as needed, within
//! [`RenderLimits`] and with a [`TemplateHost`] for what lies outside. Output and error texts are those of Helm
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

pub use exec::{ExecError, TemplateRenderer, remove_no_value};
pub use func::{
    FuncArgs, FuncBody, FuncContext, FuncError, FuncMap, FuncResult, FuncSignature, GoType, TemplateFunc,
};
pub use host::{NoHost, RenderLimits, TemplateHost};
pub use object::{GoObject, ObjectJson};
pub use parse::ParseError;
pub use serde::{ValueSeed, WholeNumbers};
pub use set::TemplateSet;
pub use str::GoString;
pub use trace::{NestedText, TextSegment};
pub use value::{GoKind, GoList, GoMap, GoValue, ListKind, MAX_VALUE_DEPTH, MapKind};
