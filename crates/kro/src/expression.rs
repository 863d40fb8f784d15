//! Expressions: compiled once for all Graphs that share them, evaluated at a moment.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value as Json;
use slipway_cel::{Bindings, CelError, Env, EvalError, EvalErrorKind, Limits, Program, Type, Value};

use crate::functions;

/// How much one expression may compute, and how long.
const COST: u64 = 1_000_000;
const TIME: Duration = Duration::from_millis(100);
/// How many expressions are kept compiled.
const KEPT: usize = 4096;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) source: String,
    pub(crate) program: Program,
}

/// Why an expression gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvaluationFailure {
    /// Something it reads is not there yet.
    Missing(String),
    /// It is wrong, or what it reads is.
    Wrong(String),
    /// It was not done in time. The budget bounds what an expression computes, so that this says more about a busy
    /// machine than about the expression: another time it may be done.
    Late(String),
}

impl Expression {
    /// The value at a moment.
    pub(crate) fn eval<'a>(
        &self,
        scope: &Bindings<'a>,
        now: Timestamp,
    ) -> Result<Value<'a>, EvaluationFailure> {
        let scope = scope.clone().now(now).deadline(Instant::now() + TIME);
        self.program.eval(&scope).map_err(|error| self.failure(&error))
    }

    /// Whether a condition holds; what cannot be read does not hold.
    pub(crate) fn holds(&self, scope: &Bindings<'_>, now: Timestamp) -> Result<bool, EvaluationFailure> {
        match self.eval(scope, now) {
            Ok(Value::Bool(truth)) => Ok(truth),
            Ok(other) => Err(EvaluationFailure::Wrong(format!(
                "`{}` gave {}, not true or false",
                self.source,
                other.type_name()
            ))),
            Err(EvaluationFailure::Missing(_)) => Ok(false),
            Err(wrong) => Err(wrong),
        }
    }

    fn failure(&self, error: &EvalError) -> EvaluationFailure {
        let message = format!("`{}`: {error}", self.source);
        match error.kind {
            EvalErrorKind::NoSuchKey { .. } | EvalErrorKind::Unbound(_) | EvalErrorKind::IndexOutOfBounds => {
                EvaluationFailure::Missing(message)
            }
            EvalErrorKind::Canceled => {
                EvaluationFailure::Late(format!("`{}` was not evaluated within {TIME:?}", self.source))
            }
            _ => EvaluationFailure::Wrong(message),
        }
    }

    /// Whether its value changes by time alone.
    pub(crate) fn is_volatile(&self) -> bool {
        self.program.reads_clock()
    }

    /// Whether it asks for the state of nodes.
    pub(crate) fn asks_for_state(&self) -> bool {
        self.program.functions().any(|name| functions::STATE.contains(&name))
    }

    /// The value as JSON; `None` for what is to be left out.
    pub(crate) fn json(
        &self,
        scope: &Bindings<'_>,
        now: Timestamp,
    ) -> Result<Option<Json>, EvaluationFailure> {
        let value = self.eval(scope, now)?;
        if functions::is_omitted(&value) {
            return Ok(None);
        }
        let json = value.to_json();
        let wrong = || EvaluationFailure::Wrong(format!("`{}` has no JSON form", self.source));
        json.map(Some).ok_or_else(wrong)
    }

    /// The value as a part of a text.
    pub(crate) fn text(&self, scope: &Bindings<'_>, now: Timestamp) -> Result<String, EvaluationFailure> {
        let value = self.eval(scope, now)?;
        match &value {
            Value::String(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Bool(_)
            | Value::Timestamp(_)
            | Value::Duration(_) => Ok(value.to_string()),
            other => Err(EvaluationFailure::Wrong(format!(
                "`{}` gave {}, which cannot stand within a text",
                self.source,
                other.type_name()
            ))),
        }
    }
}

/// The variables an expression may use.
#[derive(Clone)]
pub(crate) struct Names {
    env: Env,
    /// Tells environments apart that declare different variables.
    signature: u64,
    known: BTreeSet<String>,
}

impl Names {
    pub(crate) fn with(&self, name: &str, ty: Type) -> Self {
        let mut names = self.clone();
        names.declare(name, ty);
        names
    }

    pub(crate) fn declare(&mut self, name: &str, ty: Type) {
        let mut hasher = DefaultHasher::new();
        (self.signature, name, ty.to_string()).hash(&mut hasher);
        self.signature = hasher.finish();
        self.known.insert(name.to_owned());
        self.env = std::mem::take(&mut self.env).variable(name, ty);
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(String::as_str)
    }
}

/// Compiles expressions, each once for all Graphs whose nodes have the same names.
pub(crate) struct Expressions {
    base: Env,
    compiled: Mutex<HashMap<(u64, String), Arc<Expression>>>,
}

impl Expressions {
    pub(crate) fn new() -> Self {
        let limits = Limits { cost: COST, ..Limits::default() };
        Self { base: functions::add(Env::with_all_libraries()).limits(limits), compiled: Mutex::default() }
    }

    /// No variables at all.
    pub(crate) fn names(&self) -> Names {
        Names { env: self.base.clone(), signature: 0, known: BTreeSet::new() }
    }

    pub(crate) fn compile(&self, names: &Names, source: &str) -> Result<Arc<Expression>, Vec<CelError>> {
        let key = (names.signature, source.to_owned());
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(&key) {
            return Ok(known.clone());
        }
        let program = names.env.compile(source)?;
        let expression = Arc::new(Expression { source: source.to_owned(), program });
        if compiled.len() >= KEPT {
            compiled.retain(|_, kept| Arc::strong_count(kept) > 1);
        }
        if compiled.len() < KEPT {
            compiled.insert(key, expression.clone());
        }
        Ok(expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_was_not_done_in_time_is_not_wrong() {
        let expressions = Expressions::new();
        let expression = expressions.compile(&expressions.names(), "1 + 1 == 2").expect("compiles");
        let late = expression.program.eval(&Bindings::new().deadline(Instant::now())).expect_err("is late");
        assert!(matches!(expression.failure(&late), EvaluationFailure::Late(_)), "{late}");
    }
}
