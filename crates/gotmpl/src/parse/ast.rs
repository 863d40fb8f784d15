//! The tree of a template, and its parts printed as Go prints them in error messages.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::func::Func;
use crate::str::Str;

/// A byte offset in the text of the file.
pub(crate) type Pos = usize;

/// The text a tree was parsed from.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: Arc<[u8]>,
}

impl Source {
    /// Part of the text.
    pub(crate) fn slice(&self, place: &Range<Pos>) -> &[u8] {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// Line from 1 and byte column from 0, as Go counts them.
    pub(crate) fn line_column(&self, pos: Pos) -> (usize, usize) {
        let before = &self.text[..pos.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = match before.iter().rposition(|b| *b == b'\n') {
            Some(at) => before.len() - at - 1,
            None => before.len(),
        };
        (line, column)
    }
}

/// One named template.
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) source: Arc<Source>,
    /// Shared with the trees of files of the same text.
    pub(crate) root: Arc<Vec<Node>>,
}

impl Tree {
    /// Only space: such a body never replaces another of its name.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|n| matches!(n, Node::Text(place) if is_space(self.source.slice(place))))
    }
}

/// Go's TrimSpace leaves nothing?
pub(super) fn is_space(text: &[u8]) -> bool {
    match std::str::from_utf8(text) {
        Ok(text) => text.trim().is_empty(),
        Err(_) => false,
    }
}

pub(crate) enum Node {
    /// Where it stands in the source: text is not copied.
    Text(Range<Pos>),
    Action(Pos, Pipe),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template(Box<Call>),
    Break,
    Continue,
}

pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) list: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

/// `{{template "name" pipe}}`
pub(crate) struct Call {
    pub(crate) pos: Pos,
    pub(crate) name: String,
    pub(crate) pipe: Option<Pipe>,
}

pub(crate) struct Pipe {
    pub(crate) pos: Pos,
    pub(crate) decls: Vec<Variable>,
    pub(crate) assign: bool,
    pub(crate) commands: Vec<Command>,
}

pub(crate) struct Command {
    pub(crate) pos: Pos,
    pub(crate) args: Vec<Expr>,
}

pub(crate) struct Variable {
    pub(crate) pos: Pos,
    /// `$name.field.field`, as it is written.
    text: Box<str>,
    name: usize,
}

impl Variable {
    /// A variable from its text, of which the first `name` bytes are the name with its `$`.
    pub(super) fn new(pos: Pos, text: &str, name: usize) -> Self {
        Variable { pos, text: text.into(), name }
    }

    /// With its `$`.
    pub(crate) fn name(&self) -> &str {
        self.text.get(..self.name).unwrap_or_default()
    }

    /// What follows the name.
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields(self.text.get(self.name + 1..).unwrap_or_default())
    }
}

/// Names of fields with dots between, as they are written.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'t>(pub(crate) &'t str);

pub(crate) enum Expr {
    Ident(Pos, Arc<str>, Arc<Func>),
    Variable(Variable),
    /// Names with dots between.
    Field(Pos, Box<str>),
    Chain(Pos, Box<Expr>, Box<str>),
    Dot(Pos),
    Nil(Pos),
    Bool(Pos, bool),
    Number(Box<Number>),
    /// The value and the literal it was written as.
    String(Pos, Str, Written),
    Pipe(Box<Pipe>),
}

/// How the literal of a string looks.
pub(crate) enum Written {
    /// Like the string, between two of these.
    Between(u8),
    As(Str),
}

/// A numeric literal and everything it could be.
pub(crate) struct Number {
    pub(crate) pos: Pos,
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

impl Expr {
    pub(crate) fn pos(&self) -> Pos {
        match self {
            Expr::Ident(p, ..)
            | Expr::Field(p, _)
            | Expr::Chain(p, ..)
            | Expr::Dot(p)
            | Expr::Nil(p)
            | Expr::Bool(p, _)
            | Expr::String(p, ..) => *p,
            Expr::Variable(v) => v.pos,
            Expr::Number(n) => n.pos,
            Expr::Pipe(p) => p.pos,
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Ident(_, name, _) => f.write_str(name),
            Expr::Variable(v) => v.fmt(f),
            Expr::Field(_, fields) => write!(f, ".{fields}"),
            Expr::Chain(_, base, fields) => {
                match base.as_ref() {
                    Expr::Pipe(p) => write!(f, "({p})")?,
                    e => e.fmt(f)?,
                }
                write!(f, ".{fields}")
            }
            Expr::Dot(_) => f.write_str("."),
            Expr::Nil(_) => f.write_str("nil"),
            Expr::Bool(_, b) => write!(f, "{b}"),
            Expr::Number(n) => f.write_str(&n.text),
            Expr::String(_, _, Written::As(written)) => f.write_str(&written.lossy()),
            Expr::String(_, text, Written::Between(mark)) => {
                let mark = char::from(*mark);
                write!(f, "{mark}{}{mark}", text.lossy())
            }
            Expr::Pipe(p) => p.fmt(f),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            match arg {
                Expr::Pipe(p) => write!(f, "({p})")?,
                e => e.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, v) in self.decls.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            v.fmt(f)?;
        }
        if !self.decls.is_empty() {
            f.write_str(if self.assign { " = " } else { " := " })?;
        }
        for (i, c) in self.commands.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            c.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = slipway_go::strconv::quote(self.name.as_bytes());
        write!(f, "{{{{template {}", String::from_utf8_lossy(&name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}
