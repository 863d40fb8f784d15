//! The tree of an expression as it was written.

use std::sync::Arc;

/// A part of an expression and where it stands: operators at the operator, calls at the bracket.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub(crate) offset: u32,
    /// Number of levels below it, itself included.
    pub(crate) height: u32,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A name; with a leading dot when absolute.
    Ident(Arc<str>),
    /// `a.b`, `a.?b`
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        optional: bool,
    },
    /// `a[b]`, `a[?b]`
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// `f(x)`, `a.f(x)`
    Call {
        target: Option<Box<Expr>>,
        name: Arc<str>,
        args: Vec<Expr>,
    },
    /// `-a`, `!a`
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a && b && c`, `a || b`
    Logic(Logic, Vec<Expr>),
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    List(Vec<Element>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Negate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Binary {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }

    /// The name error messages use.
    pub(crate) fn name(self) -> String {
        match self {
            Self::In => "@in".to_owned(),
            _ => format!("_{}_", self.text()),
        }
    }

    /// Returns how tightly it binds.
    pub(crate) fn level(self) -> u8 {
        match self {
            Self::Add | Self::Subtract => 2,
            Self::Multiply | Self::Divide | Self::Modulo => 3,
            _ => 1,
        }
    }
}

impl Expr {
    pub(crate) fn new(offset: u32, kind: Kind) -> Self {
        let below = match &kind {
            Kind::Select { operand, .. } | Kind::Unary(_, operand) => operand.height,
            Kind::Index { operand: a, index: b, .. } | Kind::Binary(_, a, b) => a.height.max(b.height),
            Kind::Call { target, args, .. } => {
                let target = target.as_ref().map_or(0, |target| target.height);
                args.iter().map(|arg| arg.height).fold(target, u32::max)
            }
            Kind::Logic(_, terms) => terms.iter().map(|term| term.height).max().unwrap_or(0),
            Kind::Ternary(a, b, c) => a.height.max(b.height).max(c.height),
            Kind::List(items) => items.iter().map(|item| item.value.height).max().unwrap_or(0),
            Kind::Map(entries) => {
                entries.iter().map(|entry| entry.key.height.max(entry.value.height)).max().unwrap_or(0)
            }
            _ => 0,
        };
        Self { offset, height: below + 1, kind }
    }

    /// The dotted name it is, if it is nothing but names and dots.
    pub(crate) fn dotted(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.trim_start_matches('.').to_owned()),
            Kind::Select { operand, field, optional: false } => {
                Some(format!("{}.{field}", operand.dotted()?))
            }
            _ => None,
        }
    }
}
