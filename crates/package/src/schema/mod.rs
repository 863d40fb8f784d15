//! Types of fields of Kubernetes objects, and the schema of parameters that follows from them.

mod check;
mod generate;
mod infer;
mod kinds;
mod overlay;
mod trace;
mod well_known;

pub(crate) use check::check_parameters;
pub use generate::ParameterSchema;
pub(crate) use generate::generate;
pub(crate) use kinds::{FieldScalar, FieldType, Form, Kinds, Next};
pub(crate) use overlay::{Format, constraint};
pub(crate) use trace::Tracer;
