//! The objects of a plan, each with everything that is known about it, and the typed positions operations refer to
//! them by.

use serde::Serialize;
use serde_json::Value;

use slipway_manifest::{Gvk, ObjectRef};

use crate::decide::{FollowUp, KeptReason, ObjectChange};
use crate::owners::OwnerRepair;
use crate::resource::{DeletePolicy, Resource};
use crate::stage::Stage;

/// The position of an object among those a plan deploys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIndex(pub(crate) usize);

/// The position of an object among those a plan deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeletionIndex(pub(crate) usize);

/// The position of something outside of the release that a plan waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalIndex(pub(crate) usize);

/// One visit of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitIndex {
    pub object: ObjectIndex,
    /// The number of the object's visit, from 0.
    pub visit: usize,
}

/// Lists that are read by a typed position.
pub trait Indexed {
    type Index: Copy;
    type Item;

    fn at(&self, index: Self::Index) -> &Self::Item;
    fn at_mut(&mut self, index: Self::Index) -> &mut Self::Item;
    fn indexed(&self) -> impl DoubleEndedIterator<Item = (Self::Index, &Self::Item)> + Clone;
}

macro_rules! indexed {
    ($item:ty, $index:ident $(, $life:lifetime)?) => {
        impl<$($life)?> Indexed for [$item] {
            type Index = $index;
            type Item = $item;

            fn at(&self, index: $index) -> &$item {
                &self[index.0]
            }

            fn at_mut(&mut self, index: $index) -> &mut $item {
                &mut self[index.0]
            }

            fn indexed(&self) -> impl DoubleEndedIterator<Item = ($index, &$item)> + Clone {
                self.iter().enumerate().map(|(position, item)| ($index(position), item))
            }
        }
    };
}
pub(crate) use indexed;

indexed!(PlannedObject, ObjectIndex);
indexed!(PlannedDeletion, DeletionIndex);
indexed!(ExternalDependency, ExternalIndex);

/// An object to deploy, with what was found out about it.
#[derive(Clone, Debug)]
pub struct PlannedObject {
    pub resource: Resource,
    pub at: ObjectRef,
    /// The object as it is in the cluster.
    pub live: Option<Value>,
    /// The object as it will be, as far as the server could say.
    pub predicted: Option<Value>,
    pub repair: Option<OwnerRepair>,
    /// Fields left as others set them.
    pub left_alone: Vec<String>,
    /// The server's words about a webhook it could not reach when the object was tried.
    pub unreachable_webhook: Option<String>,
    /// Dependencies outside of the release.
    pub externals: Vec<ExternalIndex>,
    pub visits: Vec<PlannedVisit>,
}

impl PlannedObject {
    /// An object about which nothing else is known.
    pub fn new(resource: Resource, at: ObjectRef, visits: Vec<PlannedVisit>) -> Self {
        Self {
            resource,
            at,
            live: None,
            predicted: None,
            repair: None,
            left_alone: Vec::new(),
            unreachable_webhook: None,
            externals: Vec::new(),
            visits,
        }
    }

    /// The change the first visit makes.
    pub fn first_change(&self) -> Option<&ObjectChange> {
        self.visits.first().map(|visit| &visit.change)
    }
}

/// One time an object is deployed: in one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedVisit {
    pub stage: Stage,
    /// Counts from 0 when one object is deployed in several stages.
    pub iteration: u32,
    pub change: ObjectChange,
    pub follow: FollowUp,
    /// Something waits for it to be ready, so its failure counts whatever its annotations say.
    pub must_be_ready: bool,
}

impl PlannedVisit {
    /// The visits of a resource at its stages, given what was decided for the first.
    pub fn in_stages(
        resource: &Resource,
        stages: &[Stage],
        change: &ObjectChange,
        follow: FollowUp,
    ) -> Vec<PlannedVisit> {
        let mut visits: Vec<PlannedVisit> = Vec::with_capacity(stages.len());
        let recreates = resource.settings.has_delete_policy(DeletePolicy::BeforeCreation);
        for (iteration, stage) in stages.iter().enumerate() {
            let change = match visits.last() {
                Some(before) if !change.is_none() && before.follow.delete_on_success => ObjectChange::Create,
                Some(_) if !change.is_none() && recreates => {
                    ObjectChange::Recreate { reason: "delete policy before-creation".to_owned() }
                }
                _ => change.clone(),
            };
            visits.push(PlannedVisit {
                stage: *stage,
                iteration: iteration as u32,
                change,
                follow,
                must_be_ready: false,
            });
        }
        visits
    }
}

/// The deletion of an object the release no longer has.
#[derive(Clone, Debug)]
pub struct PlannedDeletion {
    pub resource: Resource,
    pub at: ObjectRef,
    pub live: Value,
    pub stage: Stage,
    /// Still in the release, but not deployed by this type of deploy.
    pub excluded: bool,
}

/// Something outside of the release that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalDependency {
    pub gvk: Gvk,
    /// Empty for the release's own.
    pub namespace: String,
    pub name: String,
}

/// An object of an earlier revision that stays.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct KeptObject {
    pub object: String,
    #[serde(flatten)]
    pub why: KeptReason,
}
