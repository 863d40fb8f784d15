//! A compiled expression.

use std::fmt;
use std::sync::Arc;

use crate::check::Node;
use crate::error::{CelError, CelErrorKind, EvalError};
use crate::eval::{Bindings, run, trace};
use crate::library::{Answer, CLOCK};
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

/// A value an expression reads, with what it compares it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// As it is written: `bundle.labels.team`, `schedule.in("Europe/Berlin").hour`, `now()`.
    pub text: String,
    /// The variable it begins with, or the function it is.
    pub variable: String,
    /// The fields, keys and arguments after that.
    pub path: Vec<String>,
    pub comparison: Option<Comparison>,
    pub(crate) offset: u32,
    /// The places of its parts.
    pub(crate) parts: Vec<u32>,
}

impl Leaf {
    /// Makes an error about this leaf of an expression.
    pub fn error(&self, source: &str, kind: CelErrorKind, message: impl Into<String>) -> CelError {
        let mut error = CelError::new(kind, self.offset as usize, message);
        error.locate(source);
        error
    }
}

/// A comparison of a leaf with a constant, the leaf to the left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub operator: ComparisonOperator,
    /// The constant as it is written.
    pub literal: String,
    /// The constant, if it is a whole number.
    pub whole: Option<i64>,
}

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl fmt::Display for ComparisonOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
        })
    }
}

/// A leaf that an evaluation came to.
#[derive(Clone, Debug)]
pub struct LeafRead<'a> {
    /// Its place in [`Program::leaves`].
    pub leaf: usize,
    /// The value; none if reading it failed.
    pub value: Option<Value<'a>>,
}

/// The result of an evaluation and the leaves it came to, in that order.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    pub result: Answer<'a>,
    pub reads: Vec<LeafRead<'a>>,
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
    pub(crate) leaves: Vec<Leaf>,
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

    /// The values it reads, in the order they are written; one that is written twice is there twice.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The leaf an error during evaluation is about.
    pub fn leaf_of(&self, error: &EvalError) -> Option<&Leaf> {
        let offset = error.offset?;
        self.leaves.iter().find(|leaf| leaf.parts.contains(&offset))
    }

    /// Returns true if its value may change by time alone.
    pub fn reads_clock(&self) -> bool {
        self.functions().any(|name| CLOCK.contains(&name))
    }

    /// Computes the value and tells which leaves it depends on: those that `&&`, `||` and `?:` did not pass over.
    pub fn trace<'a>(&self, bindings: &Bindings<'a>) -> Trace<'a> {
        trace(self, bindings)
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
