//! The difference between two builds: two sets of values, or two versions of a package.

use std::collections::BTreeMap;

use slipway_manifest::ObjectId;

use crate::build::{BuiltObject, PackageBuild};
use crate::compare::{FieldChange, changes};

/// The differences between two builds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuildDiff {
    pub added: Vec<ObjectId>,
    pub removed: Vec<ObjectId>,
    /// Objects both have, with the fields that differ.
    pub changed: Vec<(ObjectId, Vec<FieldChange>)>,
}

impl BuildDiff {
    /// Returns true if both are the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl PackageBuild {
    /// The differences of `other` from this build, object by object and field by field.
    pub fn diff(&self, other: &PackageBuild) -> BuildDiff {
        let index = |build: &PackageBuild| -> BTreeMap<ObjectId, BuiltObject> {
            build.objects.iter().map(|object| (object.id.clone(), object.clone())).collect()
        };
        let (old, new) = (index(self), index(other));
        let mut diff = BuildDiff::default();
        for object in &self.objects {
            match new.get(&object.id) {
                None => diff.removed.push(object.id.clone()),
                Some(now) => {
                    let fields = changes(&object.value, &now.value);
                    if !fields.is_empty() {
                        diff.changed.push((object.id.clone(), fields));
                    }
                }
            }
        }
        diff.added = other
            .objects
            .iter()
            .map(|object| &object.id)
            .filter(|id| !old.contains_key(id))
            .cloned()
            .collect();
        diff
    }
}
