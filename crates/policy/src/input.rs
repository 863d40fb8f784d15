//! Everything a policy can ask about, as one plain value that each engine fills from its own plan.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use slipway_manifest::ObjectRef;
use slipway_manifest::pods::pod_containers;

/// The facts a policy is evaluated on.
#[derive(Clone, Debug)]
pub struct PolicyInput<'a> {
    pub target: PolicyTarget,
    /// The time rules and exceptions are held against.
    pub now: Timestamp,
    /// The objects as they are to be.
    pub objects: Vec<PolicyObject<'a>>,
    /// The changes the plan makes; none where only rendering is known.
    pub changes: Vec<PolicyChange>,
    /// Every image the objects' pods run.
    pub images: Vec<PolicyImage>,
    /// The providers that values take secrets from.
    pub secrets: Vec<SecretUse>,
    /// Set when what is deployed is a release unit.
    pub unit: Option<UnitFacts>,
}

/// The place a plan is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyTarget {
    #[serde(rename = "env")]
    pub environment: Option<String>,
    pub cluster: Option<String>,
    pub namespace: Option<String>,
}

/// An object as a plan wants it.
#[derive(Clone, Debug)]
pub struct PolicyObject<'a> {
    /// Without a namespace for objects of the whole cluster.
    pub reference: ObjectRef,
    pub object: &'a Value,
}

/// The change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    pub object: ObjectRef,
    pub action: ChangeAction,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeAction {
    Create,
    Update,
    /// Destroyed and created again.
    Replace,
    Destroy,
}

impl ChangeAction {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Destroy => "destroy",
        }
    }
}

/// An image that a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyImage {
    pub object: ObjectRef,
    pub container: String,
    /// The image's place in the object.
    pub path: String,
    /// The image as written.
    pub image: String,
}

/// The use of a provider of secrets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretUse {
    pub provider: String,
    /// The reference, which is no secret.
    pub reference: String,
}

/// Facts about a release unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFacts {
    /// Keys whose signatures were checked: `ed25519:…`.
    pub signed_by: Vec<String>,
    /// Environments in which its verification succeeded.
    pub verified_in: Vec<String>,
    pub created: Option<Timestamp>,
    /// Tells that it was made from a commit without uncommitted changes; `None` where that is unknown.
    pub clean_git: Option<bool>,
}

impl<'a> PolicyInput<'a> {
    /// The input of a plan that deploys `objects`; their images are read off their pods.
    pub fn new(target: PolicyTarget, now: Timestamp, objects: Vec<PolicyObject<'a>>) -> Self {
        let images = objects.iter().flat_map(images_of).collect();
        Self { target, now, objects, changes: Vec::new(), images, secrets: Vec::new(), unit: None }
    }
}

fn images_of(object: &PolicyObject<'_>) -> Vec<PolicyImage> {
    let containers = pod_containers(&object.reference.gvk, object.object);
    let images = containers.iter().filter_map(|container| {
        Some(PolicyImage {
            object: object.reference.clone(),
            container: container.name().to_owned(),
            path: format!("{}.image", container.path),
            image: container.image()?.to_owned(),
        })
    });
    images.collect()
}
