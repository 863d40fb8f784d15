//! Objects of the kinds: metadata, spec and status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_manifest::{Gvk, ObjectRef};

use super::labels;

/// The `metadata` of an object, as far as promotion reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

impl Metadata {
    /// Names an object that is to be created.
    pub fn named(namespace: &str, name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: namespace.to_owned(), ..Self::default() }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    pub fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The moment of creation; the beginning of time for what was never created.
    pub fn created(&self) -> Timestamp {
        self.creation_timestamp.unwrap_or(Timestamp::MIN)
    }

    /// The controller that owns the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "is_false")]
    pub controller: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub block_owner_deletion: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    Namespaced,
    Cluster,
}

/// A kind, named by the type of its spec.
pub trait KindSpec:
    Clone + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    type Status: Clone
        + Default
        + PartialEq
        + Serialize
        + DeserializeOwned
        + JsonSchema
        + Send
        + Sync
        + 'static;

    const KIND: &'static str;
    const PLURAL: &'static str;
    const SCOPE: KindScope = KindScope::Namespaced;
    const SHORT_NAMES: &'static [&'static str] = &[];

    fn gvk() -> Gvk {
        Gvk::new(labels::GROUP, labels::VERSION, Self::KIND)
    }

    /// Refers to an object of the kind.
    fn at(namespace: &str, name: &str) -> ObjectRef {
        let namespace = (Self::SCOPE == KindScope::Namespaced).then_some(namespace);
        ObjectRef::new(Self::gvk(), namespace, name)
    }
}

/// An object of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Resource<S: KindSpec> {
    #[serde(default)]
    pub metadata: Metadata,
    pub spec: S,
    #[serde(default)]
    pub status: S::Status,
}

impl<S: KindSpec> Resource<S> {
    /// An object to create.
    pub fn new(metadata: Metadata, spec: S) -> Self {
        Self { metadata, spec, status: S::Status::default() }
    }

    pub fn reference(&self) -> ObjectRef {
        S::at(&self.metadata.namespace, &self.metadata.name)
    }

    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// A reference that makes this object the controller of another.
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: S::gvk().api_version(),
            kind: S::KIND.to_owned(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }

    /// The manifest that creates the object, without a status.
    pub fn manifest(&self) -> Result<Value, serde_json::Error> {
        Ok(json!({
            "apiVersion": S::gvk().api_version(),
            "kind": S::KIND,
            "metadata": serde_json::to_value(&self.metadata)?,
            "spec": serde_json::to_value(&self.spec)?,
        }))
    }
}
