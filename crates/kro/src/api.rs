//! The kinds: Graph and GraphRevision, served under one of two API groups.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_manifest::Gvk;

/// The version of both kinds.
pub const VERSION: &str = "v1alpha1";

/// The API group Graphs are served under.
///
/// Where another controller owns the experimental group, Graphs of ours stand in a group it does not look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ApiGroup {
    /// `experimental.kro.run`, as Graphs are written by hand.
    #[default]
    Experimental,
    /// `graph.kardinal.io`, beside another controller.
    Embedded,
}

impl ApiGroup {
    pub const ALL: [Self; 2] = [Self::Experimental, Self::Embedded];

    /// The group of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The name of the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::Experimental => "experimental.kro.run",
            Self::Embedded => "graph.kardinal.io",
        }
    }

    pub fn graph(self) -> Gvk {
        Gvk::new(self.name(), VERSION, "Graph")
    }

    pub fn revision(self) -> Gvk {
        Gvk::new(self.name(), VERSION, "GraphRevision")
    }

    /// The finalizer of Graphs and revisions.
    pub fn finalizer(self) -> String {
        format!("{}/graph-controller", self.name())
    }
}

/// The `spec` of a Graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphSpec {
    #[serde(default)]
    pub nodes: Vec<NodeSpec>,
}

/// One node as it is written: an id, exactly one body, and conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    pub id: String,
    /// An object the Graph owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Value>,
    /// Fields of an object somebody else owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// An object that is only read.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Value>,
    /// Objects that are only read, by selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Value>,
    /// Values without an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub def: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEach>,
    /// The node this one is created for when that is to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizes: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_when: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready_when: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub propagate_when: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Nodes to come after without reading them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// How often conditions are looked at again, as Go writes durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck_after: Option<String>,
}

/// The collections a node is repeated for: one variable, or several whose combinations count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ForEach {
    One(BTreeMap<String, String>),
    Many(Vec<BTreeMap<String, String>>),
}

/// How a node's object is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<ApplyMode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplyMode {
    /// Takes fields and objects over from others.
    Force,
}

/// The `status` of a Graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphStatus {
    #[serde(default)]
    pub observed_generation: i64,
    #[serde(default)]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub topological_order: Vec<String>,
    #[serde(default)]
    pub nodes: Vec<NodeStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub observed_generation: i64,
    pub last_transition_time: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// One node of `status.nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub id: String,
    pub state: NodeState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub since: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<NodeResource>,
}

/// The object of a node; the first one where it has several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResource {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeState {
    /// Applied or read, and its conditions hold.
    Ready,
    /// Applied or read, and a condition does not hold.
    NotReady,
    /// Something it reads is not there yet, or its output was never let out.
    #[default]
    Pending,
    /// Its output gate is closed; dependents keep what was let out before.
    Held,
    /// Left out by `includeWhen`, its own or that of a dependency.
    Excluded,
    /// A dependency is in an error state.
    Blocked,
    /// Somebody else owns the object or a field of it.
    Conflict,
    /// The object or an expression is wrong.
    Error,
    /// The server had trouble.
    SystemError,
}

impl NodeState {
    /// Whether dependents cannot go on because of it.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Blocked | Self::Conflict | Self::Error | Self::SystemError)
    }

    /// Its weight in the `Ready` condition: the heaviest state of a Graph is the one reported.
    pub(crate) fn severity(self) -> u8 {
        match self {
            Self::Ready | Self::Excluded => 0,
            Self::NotReady => 1,
            Self::Held | Self::Pending => 2,
            Self::Blocked => 3,
            Self::Conflict => 4,
            Self::Error => 5,
            Self::SystemError => 6,
        }
    }
}
