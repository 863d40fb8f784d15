//! What a release is made of: objects with what their annotations ask for.

pub mod annotations;
pub mod depends;
mod doubles;
pub mod settings;
pub mod text;
pub mod transform;

use serde_json::Value;
use slipway_manifest::{Gvk, ObjectId};

pub use settings::{
    DeletePolicy, DeployType, ExternalNeed, ExternalTarget, FailMode, NeedState, ObjectNeed, ObjectSelector,
    Ownership, Propagation, ResourceSettings, TrackingSettings,
};
pub use slipway_source::{Document, Origin, Stored};

use crate::stage::Stage;

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    Namespaced,
    Cluster,
    /// Neither the cluster nor the release says.
    Unknown,
}

/// One object of a release.
#[derive(Clone, Debug)]
pub struct Resource {
    /// As it is to be applied, without the namespace when that is the release's.
    pub object: Value,
    pub gvk: Gvk,
    /// With an empty namespace for the release's own and for the whole cluster's.
    pub id: ObjectId,
    pub stored: Stored,
    pub origin: Origin,
    pub settings: ResourceSettings,
}

impl Resource {
    /// Whether it defines a kind.
    pub fn is_crd(&self) -> bool {
        is_crd(&self.gvk)
    }

    /// The stages it takes part in at a moment, in order.
    pub fn stages(&self, moment: DeployType) -> Vec<Stage> {
        let mut stages: Vec<Stage> = self
            .settings
            .deploy_on
            .iter()
            .filter(|(when, _)| *when == moment)
            .map(|(_, stage)| *stage)
            .collect();
        stages.sort_unstable();
        stages.dedup();
        stages
    }
}

pub fn is_crd(gvk: &Gvk) -> bool {
    gvk.group == "apiextensions.k8s.io" && gvk.kind == "CustomResourceDefinition"
}

pub fn is_namespace(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && gvk.kind == "Namespace"
}

pub fn is_webhook_configuration(gvk: &Gvk) -> bool {
    gvk.group == "admissionregistration.k8s.io"
        && matches!(gvk.kind.as_str(), "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
}

/// Settles where an object lives: takes out a namespace that is the release's own or means nothing, and
/// gives the identity.
pub fn normalise(object: &mut Value, release_namespace: &str, scope: KindScope) -> ObjectId {
    let id = identify(object, release_namespace, scope);
    if id.namespace.is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.shift_remove("namespace");
    }
    id
}

/// What an object is called in a release: without a namespace in the release's own, or if its kind has none.
pub fn identify(object: &Value, release_namespace: &str, scope: KindScope) -> ObjectId {
    let mut id = ObjectId::of(object);
    if scope == KindScope::Cluster || id.namespace == release_namespace {
        id.namespace.clear();
    }
    id
}
