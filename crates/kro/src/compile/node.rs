//! A compiled node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slipway_manifest::Gvk;

use crate::expression::Expression;
use crate::names::Role;
use crate::project::FieldPath;
use crate::template::Template;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) body: Body,
    pub(crate) repeats: Vec<Repeat>,
    pub(crate) finalizes: Option<String>,
    pub(crate) include_when: Vec<Arc<Expression>>,
    pub(crate) ready_when: Vec<Arc<Expression>>,
    pub(crate) gate: Gate,
    /// Takes over what others own.
    pub(crate) is_forced: bool,
    pub(crate) recheck_after: Option<Duration>,
    /// By id.
    pub(crate) dependencies: BTreeMap<String, Dependency>,
    /// What body, `includeWhen`, `forEach` and the input gate read of other nodes.
    pub(crate) reads: Vec<Read>,
    /// What other nodes read of this one.
    pub(crate) exposed: Vec<FieldPath>,
    /// A hash of everything that decides what is rendered.
    pub(crate) hash: u64,
    /// Whether what is rendered changes by time alone.
    pub(crate) is_volatile: bool,
    pub(crate) asks_for_state: bool,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) kind: BodyKind,
    /// The kind of the object; values have none.
    pub(crate) gvk: Option<Gvk>,
    pub(crate) content: Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Template,
    Patch,
    Reference,
    Watch,
    Values,
}

impl BodyKind {
    /// What written objects are labelled with; `None` for what is only read.
    pub(crate) fn role(self) -> Option<Role> {
        match self {
            Self::Template => Some(Role::Template),
            Self::Patch => Some(Role::Patch),
            Self::Reference | Self::Watch | Self::Values => None,
        }
    }
}

/// A collection a node is repeated for.
#[derive(Debug)]
pub(crate) struct Repeat {
    pub(crate) variable: String,
    pub(crate) collection: Arc<Expression>,
}

/// What `propagateWhen` means for a node: dialects differ, and what it reads tells which one it is.
#[derive(Debug)]
pub(crate) enum Gate {
    Open,
    /// While it is closed, dependents do not see the node's data.
    Output(Vec<Arc<Expression>>),
    /// While it is closed, the node itself is not evaluated.
    Input(Vec<Arc<Expression>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// The node waits for it.
    Hard,
    /// Every read is optional: the node does not wait.
    Lazy,
}

/// One path of one node that is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Read {
    pub(crate) node: String,
    pub(crate) path: FieldPath,
}

impl Node {
    pub(crate) fn is_finalizer(&self) -> bool {
        self.finalizes.is_some()
    }

    pub(crate) fn hard_dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().filter(|(_, kind)| **kind == Dependency::Hard).map(|(id, _)| id.as_str())
    }
}
