//! Nodes of a run's graph, as events name them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of a node: stable, and unique in the graph of its run. Nobody reads anything out of its text.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct NodeId(String);

impl NodeId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn text_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for NodeId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl From<String> for NodeId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl From<&slipway_graph::Id> for NodeId {
    fn from(id: &slipway_graph::Id) -> Self {
        Self(id.to_string())
    }
}

impl PartialEq<str> for NodeId {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for NodeId {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

/// The work a node does.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A release of a stack.
    Release,
    /// A step of a runbook.
    Step,
    /// Creates, updates or recreates an object.
    Deploy,
    /// Deletes an object.
    Delete,
    TrackReadiness,
    TrackPresence,
    TrackAbsence,
    /// Writes a record of a release.
    Record,
    /// The start or end of a stage; nothing is done there.
    Boundary,
    /// A command of a shell.
    Command,
    /// Anything else, and kinds of later versions.
    #[default]
    #[serde(other)]
    Other,
}

impl NodeKind {
    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// A node as the events about it name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeName {
    #[serde(rename = "node")]
    pub id: NodeId,
    #[serde(rename = "nodeKind", default, skip_serializing_if = "NodeKind::is_other")]
    pub kind: NodeKind,
    /// The text for people, where it is another than the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl NodeName {
    /// Names a node by its id, which people read as well.
    pub fn new(kind: NodeKind, id: impl Into<NodeId>) -> Self {
        Self { id: id.into(), kind, label: None }
    }

    /// Gives the node another text for people.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(crate) fn edit_texts(&mut self, edit: &mut dyn FnMut(&mut String)) {
        edit(self.id.text_mut());
        self.label.iter_mut().for_each(edit);
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label.as_deref().unwrap_or(self.id.as_str()))
    }
}
