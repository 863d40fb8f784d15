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
pub(crate) use generate::generate_schema;
pub(crate) use kinds::{ChildType, FieldScalar, FieldType, KindTypes, ValueForm};
pub(crate) use overlay::{TextFormat, constraint_of};
pub(crate) use trace::UsageTracer;
