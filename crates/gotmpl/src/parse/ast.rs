//! The tree of a template, and its parts printed as Go prints them in error messages.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::func::TemplateFunc;
use crate::str::GoString;

/// A byte offset in the text of the file.
pub(crate) type ByteOffset = usize;

/// The text a tree was parsed from.
pub(crate) struct SourceText {
    pub(crate) name: String,
    pub(crate) text: Arc<[u8]>,
}

impl SourceText {
    /// Part of the text.
    pub(crate) fn slice(&self, place: &Range<ByteOffset>) -> &[u8] {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// Line from 1 and byte column from 0, as Go counts them.
    pub(crate) fn line_column(&self, pos: ByteOffset) -> (usize, usize) {
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
pub(crate) struct ParseTree {
    pub(crate) name: String,
    pub(crate) source: Arc<SourceText>,
    /// Shared with the trees of files of the same text.
    pub(crate) root: Arc<Vec<TemplateNode>>,
}

impl ParseTree {
    /// Only space: such a body never replaces another of its name.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|n| matches!(n, TemplateNode::Text(place) if is_space(self.source.slice(place))))
    }
}

/// Go's TrimSpace leaves nothing?
pub(super) fn is_space(text: &[u8]) -> bool {
    match std::str::from_utf8(text) {
        Ok(text) => text.trim().is_empty(),
        Err(_) => false,
    }
}

pub(crate) enum TemplateNode {
    /// Where it stands in the source: text is not copied.
    Text(Range<ByteOffset>),
    Action(ByteOffset, PipeNode),
    If(Box<BranchNode>),
    With(Box<BranchNode>),
    Range(Box<BranchNode>),
    Template(Box<TemplateCall>),
    Break,
    Continue,
}

pub(crate) struct BranchNode {
    pub(crate) pipe: PipeNode,
    pub(crate) list: Vec<TemplateNode>,
    pub(crate) otherwise: Option<Vec<TemplateNode>>,
}

/// `{{template "name" pipe}}`
pub(crate) struct TemplateCall {
    pub(crate) pos: ByteOffset,
    pub(crate) name: String,
    pub(crate) pipe: Option<PipeNode>,
}

pub(crate) struct PipeNode {
    pub(crate) pos: ByteOffset,
    pub(crate) decls: Vec<VariableNode>,
    pub(crate) assign: bool,
    pub(crate) commands: Vec<CommandNode>,
}

pub(crate) struct CommandNode {
    pub(crate) pos: ByteOffset,
    pub(crate) args: Vec<Expr>,
}

pub(crate) struct VariableNode {
    pub(crate) pos: ByteOffset,
    /// `$name.field.field`, as it is written.
    text: Box<str>,
    name: usize,
}

impl VariableNode {
    /// A variable from its text, of which the first `name` bytes are the name with its `$`.
    pub(super) fn new(pos: ByteOffset, text: &str, name: usize) -> Self {
        VariableNode { pos, text: text.into(), name }
    }

    /// With its `$`.
    pub(crate) fn name(&self) -> &str {
        self.text.get(..self.name).unwrap_or_default()
    }

    /// What follows the name.
    pub(crate) fn fields(&self) -> FieldChain<'_> {
        FieldChain(self.text.get(self.name + 1..).unwrap_or_default())
    }
}

/// Names of fields with dots between, as they are written.
#[derive(Clone, Copy)]
pub(crate) struct FieldChain<'t>(pub(crate) &'t str);

pub(crate) enum Expr {
    Ident(ByteOffset, Arc<str>, Arc<TemplateFunc>),
    Variable(VariableNode),
    /// Names with dots between.
    Field(ByteOffset, Box<str>),
    Chain(ByteOffset, Box<Expr>, Box<str>),
    Dot(ByteOffset),
    Nil(ByteOffset),
    Bool(ByteOffset, bool),
    Number(Box<NumberLiteral>),
    /// The value and the literal it was written as.
    String(ByteOffset, GoString, StringLiteral),
    Pipe(Box<PipeNode>),
}

/// How the literal of a string looks.
pub(crate) enum StringLiteral {
    /// Like the string, between two of these.
    Between(u8),
    As(GoString),
}

/// A numeric literal and everything it could be.
pub(crate) struct NumberLiteral {
    pub(crate) pos: ByteOffset,
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

impl Expr {
    pub(crate) fn pos(&self) -> ByteOffset {
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

impl fmt::Display for VariableNode {
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
            Expr::String(_, _, StringLiteral::As(written)) => f.write_str(&written.lossy()),
            Expr::String(_, text, StringLiteral::Between(mark)) => {
                let mark = char::from(*mark);
                write!(f, "{mark}{}{mark}", text.lossy())
            }
            Expr::Pipe(p) => p.fmt(f),
        }
    }
}

impl fmt::Display for CommandNode {
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

impl fmt::Display for PipeNode {
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

impl fmt::Display for TemplateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = slipway_go::strconv::quote(self.name.as_bytes());
        write!(f, "{{{{template {}", String::from_utf8_lossy(&name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}
