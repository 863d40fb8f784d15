//! Errors of expressions: before evaluation, and during it.

use std::borrow::Cow;
use std::fmt;

use slipway_problem::Problem;

/// The kind of an error in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CelErrorKind {
    /// It does not follow the grammar.
    Syntax,
    /// It is too long or nested too deep.
    Limit,
    /// A name that is not declared.
    Undeclared,
    /// A function or operator with arguments it does not take.
    NoOverload,
    /// An object has no such field.
    UndefinedField,
    /// Something has another type than its place asks for.
    Mismatch,
    /// The whole expression has another type than the caller asked for.
    ResultType,
    /// A constant that its function cannot read: a pattern, a duration, a time.
    Constant,
}

/// An error found before evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CelError {
    pub kind: CelErrorKind,
    pub message: String,
    /// The place, in bytes from the start of the expression.
    pub offset: usize,
    /// The place as people count: from 1, columns in characters.
    pub line: u32,
    pub column: u32,
    pub hint: Option<String>,
}

impl CelError {
    pub(crate) fn new(kind: CelErrorKind, offset: usize, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), offset, line: 0, column: 0, hint: None }
    }

    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = self.hint.or(hint);
        self
    }

    /// Fills in line and column.
    pub(crate) fn locate(&mut self, text: &str) {
        let mut end = self.offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        self.line = before.bytes().filter(|&byte| byte == b'\n').count() as u32 + 1;
        self.column = before[start..].chars().count() as u32 + 1;
    }

    /// The error as Kubernetes prints it: the message, the line of the expression, a mark below.
    pub fn render(&self, text: &str) -> String {
        let line = text.lines().nth(self.line.saturating_sub(1) as usize).unwrap_or_default();
        let dots = ".".repeat(self.column.saturating_sub(1) as usize);
        format!("ERROR: <input>:{}:{}: {}\n | {line}\n | {dots}^", self.line, self.column, self.message)
    }

    /// The error as a problem, for the caller to place in the user's file.
    pub fn problem(&self) -> Problem {
        let problem = Problem::error(format!("expression, {}:{}: {}", self.line, self.column, self.message));
        match &self.hint {
            Some(hint) => problem.hint(hint.clone()),
            None => problem,
        }
    }
}

impl fmt::Display for CelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for CelError {}

/// The kind of an error during evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// A map has no such key, an object no such field.
    NoSuchKey {
        key: String,
        nearest: Option<String>,
    },
    /// A variable that was declared is not bound.
    Unbound(String),
    NoSuchOverload,
    DivisionByZero,
    Overflow,
    IndexOutOfBounds,
    /// A value that a function cannot use or convert.
    Invalid,
    /// The budget is used up.
    CostLimit,
    /// The deadline has passed or the caller cancelled.
    Canceled,
}

/// An error during evaluation; the texts are those of the reference implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    pub kind: EvalErrorKind,
    pub message: Cow<'static, str>,
    /// The place in the expression, in bytes from its start, when known.
    pub offset: Option<u32>,
}

impl EvalError {
    fn of(kind: EvalErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), offset: None }
    }

    /// A value a function cannot use.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(EvalErrorKind::Invalid, message)
    }

    /// No overload takes these arguments.
    pub fn no_overload() -> Self {
        Self::of(EvalErrorKind::NoSuchOverload, "no such overload")
    }

    /// A map without the key.
    pub fn no_such_key(key: impl Into<String>) -> Self {
        let key = key.into();
        let message = format!("no such key: {key}");
        Self::of(EvalErrorKind::NoSuchKey { key, nearest: None }, message)
    }

    pub(crate) fn nearest(mut self, found: Option<&str>) -> Self {
        if let EvalErrorKind::NoSuchKey { nearest, .. } = &mut self.kind {
            *nearest = found.map(str::to_owned);
        }
        self
    }

    pub(crate) fn unbound(name: &str) -> Self {
        Self::of(EvalErrorKind::Unbound(name.to_owned()), format!("no such attribute(s): {name}"))
    }

    pub(crate) fn division() -> Self {
        Self::of(EvalErrorKind::DivisionByZero, "division by zero")
    }

    pub(crate) fn modulus() -> Self {
        Self::of(EvalErrorKind::DivisionByZero, "modulus by zero")
    }

    pub(crate) fn overflow(what: &str) -> Self {
        Self::of(EvalErrorKind::Overflow, format!("{what} overflow"))
    }

    pub(crate) fn index(at: impl fmt::Display) -> Self {
        Self::of(EvalErrorKind::IndexOutOfBounds, format!("index out of bounds: {at}"))
    }

    pub(crate) fn cost() -> Self {
        Self::of(EvalErrorKind::CostLimit, "operation cancelled: actual cost limit exceeded")
    }

    pub(crate) fn canceled() -> Self {
        Self::of(EvalErrorKind::Canceled, "operation interrupted")
    }

    pub(crate) fn at(mut self, offset: u32) -> Self {
        self.offset = self.offset.or(Some(offset));
        self
    }

    /// Returns true if the evaluation as a whole must end, so that `&&` and `||` do not absorb it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.kind, EvalErrorKind::CostLimit | EvalErrorKind::Canceled)
    }

    /// Returns a suggestion, when there is a near name.
    pub fn hint(&self) -> Option<String> {
        match &self.kind {
            EvalErrorKind::NoSuchKey { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}
