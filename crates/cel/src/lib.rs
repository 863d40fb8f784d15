//! The Common Expression Language: parsed, type-checked, evaluated within limits.
//!
//! An [`Env`] declares variables, functions and [`Library`]s; [`Env::compile`] turns text into a
//! [`Program`] or into every [`CelError`] of the text at once, each with its place and a hint. A program
//! knows its [`Type`] and the paths it [reads](Program::references), and is evaluated as often as needed
//! over [`Bindings`], which borrow JSON without copying it. Evaluation is bounded by a budget, a deadline
//! and a cancellation flag. Nothing here knows Kubernetes' API, reads files or asks for the time.

mod check;
mod deep;
mod env;
mod error;
mod eval;
mod lex;
mod library;
mod parse;
mod program;
mod types;
mod value;

pub use env::{Env, Limits};
pub use error::{CelError, CelErrorKind, EvalError, EvalErrorKind};
pub use eval::{Bindings, Meter};
pub use library::{Answer, Library, Overload};
pub use parse::{Expr, is_reserved, parse, print};
pub use program::{Comparison, ComparisonOperator, Leaf, LeafRead, Program, Reference, Trace};
pub use types::{Field, ObjectType, Type, escape_field};
pub use value::{Key, List, Map, Opaque, Str, Value};
