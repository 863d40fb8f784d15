//! Scopes: the path from a run down to what an event is about.

use serde::{Deserialize, Serialize};

/// The sort of thing that has work of its own inside of a run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    /// A release of a stack.
    Release,
    /// A step of a runbook.
    Step,
}

/// One part of the path: a node of the graph above, in which an engine works.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Scope {
    pub kind: ScopeKind,
    /// The id of the node in the run above.
    pub name: String,
}

impl Scope {
    /// A release by its id.
    pub fn release(id: impl Into<String>) -> Self {
        Self { kind: ScopeKind::Release, name: id.into() }
    }

    /// A step by its name.
    pub fn step(name: impl Into<String>) -> Self {
        Self { kind: ScopeKind::Step, name: name.into() }
    }
}
