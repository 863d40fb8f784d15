//! The content of a patch file.

use std::fmt;

use crate::template::{ParamPath, Template};
use crate::val::{Pos, Val};

/// A whole patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchFile {
    pub groups: Vec<Group>,
}

impl PatchFile {
    /// The number of statements; a strategic, merge or JSON patch counts as one.
    pub fn statements(&self) -> usize {
        self.groups
            .iter()
            .map(|group| match &group.body {
                Body::Statements(statements) => statements.len(),
                _ => 1,
            })
            .sum()
    }
}

/// A header and what follows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub header: Header,
    pub body: Body,
}

/// The changes to the objects of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Statements(Vec<Statement>),
    /// A partial object, merged with the list keys of Kubernetes.
    Strategic(Val),
    /// A partial object, merged as RFC 7386 says.
    Merge(Val),
    /// A list of RFC 6902 operations.
    Json(Val),
}

/// The objects a group changes, and the place in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    pub scope: Scope,
    pub steps: Vec<Step>,
    /// Builds one new list element from the statements: append, before or after.
    pub builder: Option<Op>,
    /// No match is no mistake.
    pub optional: bool,
    /// No header stands there: the statements before the first one.
    pub implicit: bool,
    pub pos: Pos,
}

/// Selects objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// `*` or no header: every object.
    pub all: bool,
    pub namespace: Option<Glob>,
    /// Lower case; `None` is any kind.
    pub kind: Option<String>,
    pub group: Option<String>,
    pub version: Option<String>,
    pub name: Glob,
    pub pos: Pos,
}

/// A pattern for names: text, `*`, and references taken literally.
#[derive(Clone, Debug, PartialEq)]
pub struct Glob(pub Vec<GlobPiece>);

/// A piece of a [`Glob`].
#[derive(Clone, Debug, PartialEq)]
pub enum GlobPiece {
    Text(String),
    Any,
    Reference(ParamPath),
}

impl Glob {
    pub(crate) fn is_any(&self) -> bool {
        matches!(self.0.as_slice(), [GlobPiece::Any])
    }

    pub(crate) fn has_star(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, GlobPiece::Any))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            GlobPiece::Text(text) => f.write_str(text),
            GlobPiece::Any => f.write_str("*"),
            GlobPiece::Reference(path) => write!(f, "${{{path}}}"),
        })
    }
}

impl Scope {
    /// Every object.
    pub(crate) fn everything(pos: Pos) -> Self {
        Self {
            all: true,
            namespace: None,
            kind: None,
            group: None,
            version: None,
            name: Glob(vec![GlobPiece::Any]),
            pos,
        }
    }

    /// Returns true if it may match several objects.
    pub(crate) fn is_wild(&self) -> bool {
        self.all || self.kind.is_none() || self.name.has_star()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.all {
            return f.write_str("*");
        }
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(self.kind.as_deref().unwrap_or("*"))?;
        match (&self.group, &self.version) {
            (Some(group), Some(version)) => write!(f, "@\"{group}/{version}\"")?,
            (Some(group), None) => write!(f, "@\"{group}\"")?,
            _ => {}
        }
        write!(f, ".{}", self.name)
    }
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub kind: StepKind,
    pub pos: Pos,
}

/// The kind of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// A key of a map.
    Key(Template),
    /// An element of a list, or the key of that name of a map.
    Index(usize),
    /// Every element or every value.
    All,
    /// The one element all of whose terms hold.
    Match(Vec<Term>),
}

/// `field.path=value` inside a selector.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub field: Vec<String>,
    pub value: Template,
}

/// The element an insertion stands next to, or the one deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Anchor {
    Index(usize),
    Match(Vec<Term>),
}

/// The elements `[delete=…]` removes.
#[derive(Clone, Debug, PartialEq)]
pub enum Children {
    Anchor(Anchor),
    /// A key of a map or a plain value of a list.
    Named(Template),
}

/// The change a statement makes at the end of its path.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Set,
    Append,
    Before(Anchor),
    After(Anchor),
    /// The node itself, or one of its children.
    Delete(Option<Children>),
    Replace,
}

/// One line: a path, an operation and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub steps: Vec<Step>,
    pub op: Op,
    pub optional: bool,
    /// `None`: nothing stands after the colon.
    pub value: Option<Val>,
    /// `enabled: …` right below a header without a path: switches the object.
    pub switches: bool,
    pub pos: Pos,
}

pub(crate) fn show_terms(terms: &[Term]) -> String {
    let shown: Vec<String> =
        terms.iter().map(|term| format!("{}={}", term.field.join("."), term.value)).collect();
    shown.join(",")
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => {
                let text = key.to_string();
                if text.contains(['.', '[', ' ']) { write!(f, "[{text:?}]") } else { f.write_str(&text) }
            }
            Self::Index(index) => write!(f, "[{index}]"),
            Self::All => f.write_str("*"),
            Self::Match(terms) => write!(f, "[{}]", show_terms(terms)),
        }
    }
}

/// Writes a path as statements do.
pub(crate) fn show_steps(steps: &[Step]) -> String {
    let mut out = String::new();
    for step in steps {
        let shown = step.kind.to_string();
        if !out.is_empty() && !shown.starts_with('[') {
            out.push('.');
        }
        out.push_str(&shown);
    }
    out
}
