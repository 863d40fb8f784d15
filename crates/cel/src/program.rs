//! A compiled expression.

use std::sync::Arc;

use crate::check::Node;
use crate::error::EvalError;
use crate::eval::{Bindings, run};
use crate::types::Type;
use crate::value::Value;

/// A path an expression reads: a variable and the fields that are known before evaluation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub variable: String,
    pub path: Vec<String>,
    /// True if it is only read where its absence does no harm (`a.?b`, `has(a.b)`).
    pub optional: bool,
}

/// A compiled expression: compiled once, evaluated as often as needed, from any thread.
#[derive(Debug)]
pub struct Program {
    pub(crate) node: Node,
    pub(crate) ty: Type,
    /// The variables it uses; nodes name them by place.
    pub(crate) variables: Vec<Arc<str>>,
    pub(crate) locals: usize,
    pub(crate) references: Vec<Reference>,
    pub(crate) functions: Vec<Arc<str>>,
    pub(crate) cost: u64,
}

impl Program {
    /// The type of the result.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The variables and paths it reads, sorted, each once.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The names of the functions it calls, sorted, each once; operators and macros are none.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|name| &**name)
    }

    /// Computes the value.
    pub fn eval<'a>(&self, bindings: &Bindings<'a>) -> Result<Value<'a>, EvalError> {
        run(self, bindings)
    }

    /// Computes the value of an expression that must be true or false.
    pub fn eval_bool(&self, bindings: &Bindings<'_>) -> Result<bool, EvalError> {
        match self.eval(bindings)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(EvalError::invalid(format!("expected bool, got {}", other.type_name()))),
        }
    }
}
