//! The content of a patch file.

use std::fmt;

use crate::template::{ParamPath, Template};
use crate::val::{ValuePos, WrittenValue};

/// A whole patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchFile {
    pub groups: Vec<PatchGroup>,
}

impl PatchFile {
    /// The number of statements; a strategic, merge or JSON patch counts as one.
    pub fn statements(&self) -> usize {
        self.groups
            .iter()
            .map(|group| match &group.body {
                GroupBody::Statements(statements) => statements.len(),
                _ => 1,
            })
            .sum()
    }
}

/// A header and what follows it.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchGroup {
    pub header: GroupHeader,
    pub body: GroupBody,
}

/// The changes to the objects of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupBody {
    Statements(Vec<Statement>),
    /// A partial object, merged with the list keys of Kubernetes.
    Strategic(WrittenValue),
    /// A partial object, merged as RFC 7386 says.
    Merge(WrittenValue),
    /// A list of RFC 6902 operations.
    Json(WrittenValue),
}

/// The objects a group changes, and the place in them.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupHeader {
    pub scope: ObjectScope,
    pub steps: Vec<PathStep>,
    /// Builds one new list element from the statements: append, before or after.
    pub builder: Option<PatchOp>,
    /// No match is no mistake.
    pub optional: bool,
    /// No header stands there: the statements before the first one.
    pub implicit: bool,
    pub pos: ValuePos,
}

/// Selects objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectScope {
    /// `*` or no header: every object.
    pub all: bool,
    pub namespace: Option<NameGlob>,
    /// Lower case; `None` is any kind.
    pub kind: Option<String>,
    pub group: Option<String>,
    pub version: Option<String>,
    pub name: NameGlob,
    pub pos: ValuePos,
}

/// A pattern for names: text, `*`, and references taken literally.
#[derive(Clone, Debug, PartialEq)]
pub struct NameGlob(pub Vec<GlobPiece>);

/// A piece of a [`NameGlob`].
#[derive(Clone, Debug, PartialEq)]
pub enum GlobPiece {
    Text(String),
    Any,
    Reference(ParamPath),
}

impl NameGlob {
    pub(crate) fn is_any(&self) -> bool {
        matches!(self.0.as_slice(), [GlobPiece::Any])
    }

    pub(crate) fn has_star(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, GlobPiece::Any))
    }
}

impl fmt::Display for NameGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            GlobPiece::Text(text) => f.write_str(text),
            GlobPiece::Any => f.write_str("*"),
            GlobPiece::Reference(path) => write!(f, "${{{path}}}"),
        })
    }
}

impl ObjectScope {
    /// Every object.
    pub(crate) fn everything(pos: ValuePos) -> Self {
        Self {
            all: true,
            namespace: None,
            kind: None,
            group: None,
            version: None,
            name: NameGlob(vec![GlobPiece::Any]),
            pos,
        }
    }

    /// Returns true if it may match several objects.
    pub(crate) fn is_wild(&self) -> bool {
        self.all || self.kind.is_none() || self.name.has_star()
    }
}

impl fmt::Display for ObjectScope {
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
pub struct PathStep {
    pub kind: StepKind,
    pub pos: ValuePos,
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
    Match(Vec<MatchTerm>),
}

/// `field.path=value` inside a selector.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchTerm {
    pub field: Vec<String>,
    pub value: Template,
}

/// The element an insertion stands next to, or the one deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementAnchor {
    Index(usize),
    Match(Vec<MatchTerm>),
}

/// The elements `[delete=…]` removes.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletedChildren {
    Anchor(ElementAnchor),
    /// A key of a map or a plain value of a list.
    Named(Template),
}

/// The change a statement makes at the end of its path.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchOp {
    Set,
    Append,
    Before(ElementAnchor),
    After(ElementAnchor),
    /// The node itself, or one of its children.
    Delete(Option<DeletedChildren>),
    Replace,
}

/// One line: a path, an operation and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub steps: Vec<PathStep>,
    pub op: PatchOp,
    pub optional: bool,
    /// `None`: nothing stands after the colon.
    pub value: Option<WrittenValue>,
    /// `enabled: …` right below a header without a path: switches the object.
    pub switches: bool,
    pub pos: ValuePos,
}

pub(crate) fn show_terms(terms: &[MatchTerm]) -> String {
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
pub(crate) fn show_steps(steps: &[PathStep]) -> String {
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
