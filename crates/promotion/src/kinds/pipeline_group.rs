//! PipelineGroup: pipelines whose versions go together.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::{Artifacts, BundlePhase};
use super::conditions::{Condition, conditions_schema};
use super::resource::{KindSpec, Resource};

/// Pipelines whose versions go together. A bundle of the type `group` names it and has one version a member.
pub type PipelineGroup = Resource<PipelineGroupSpec>;

impl KindSpec for PipelineGroupSpec {
    type Status = PipelineGroupStatus;
    const KIND: &'static str = "PipelineGroup";
    const PLURAL: &'static str = "pipelinegroups";
    const SHORT_NAMES: &'static [&'static str] = &["pgrp"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineGroupSpec {
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["alias"]))]
    pub members: Vec<GroupMember>,
    /// Environments of one member that come before environments of another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub edges: Vec<GroupEdge>,
    #[serde(default)]
    pub mode: GroupMode,
    #[serde(default)]
    pub failure_policy: GroupFailurePolicy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// The name of the member within the group.
    #[schemars(regex(pattern = "^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$"))]
    pub alias: String,
    #[schemars(length(min = 1))]
    pub pipeline: String,
    /// The namespace of the group when absent; a pipeline elsewhere has to allow the group's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// An order between two members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupEdge {
    /// `alias/environment` that is verified first.
    #[schemars(with = "String", regex(pattern = "^[^/]+/[^/]+$"))]
    pub from: GroupPlace,
    /// `alias/environment` that waits for it.
    #[schemars(with = "String", regex(pattern = "^[^/]+/[^/]+$"))]
    pub to: GroupPlace,
}

/// An environment of a member: `alias/environment`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupPlace {
    pub alias: String,
    pub environment: String,
}

impl fmt::Display for GroupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.alias, self.environment)
    }
}

impl From<GroupPlace> for String {
    fn from(place: GroupPlace) -> Self {
        place.to_string()
    }
}

impl TryFrom<String> for GroupPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.split_once('/') {
            Some((alias, environment))
                if !alias.is_empty() && !environment.is_empty() && !environment.contains('/') =>
            {
                Ok(Self { alias: alias.to_owned(), environment: environment.to_owned() })
            }
            _ => Err(format!("`{text}` is not of the form alias/environment")),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupMode {
    /// Members wait for each other where an edge says so.
    #[default]
    Ordered,
    /// Members also leave an environment together: nobody goes on before all are verified there.
    Atomic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GroupFailurePolicy {
    /// The failure of one member holds every member.
    #[default]
    HaltAll,
    /// It holds those that wait for it.
    HaltDownstream,
}

/// The version of a member in a bundle of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVersion {
    /// A bundle of the member's pipeline whose artifacts are promoted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// The artifacts themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
}

/// How a member of a group's bundle stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupMemberStatus {
    pub namespace: String,
    pub bundle: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    /// The environments it is verified in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<String>,
}

impl PipelineGroup {
    pub fn member(&self, alias: &str) -> Option<&GroupMember> {
        self.spec.members.iter().find(|member| member.alias == alias)
    }

    /// The namespace of a member's pipeline.
    pub fn namespace_of<'g>(&'g self, member: &'g GroupMember) -> &'g str {
        member.namespace.as_deref().unwrap_or(self.namespace())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PipelineGroupStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The newest bundle of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, GroupMemberStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
