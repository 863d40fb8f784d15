//! Removes what only a rollout needed, found by its labels.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use slipway_manifest::{Gvk, ObjectId, ObjectRef};
use slipway_source::RenderedSource;

use super::labels::{BASELINE, OWNED_BY_RUN, RELEASE};
use super::rollout::Scene;
use super::run::StepError;
use crate::error::UnitError;

/// Every kind a rollout makes objects of. Workloads come last: what leads to their pods goes first.
const KINDS: [(&str, &str, &str); 7] = [
    ("networking.k8s.io", "v1", "Ingress"),
    ("", "v1", "Service"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "PersistentVolumeClaim"),
];

impl Scene<'_> {
    /// Everything rollouts of the release made for themselves.
    pub(crate) async fn owned_objects(&self) -> Result<Vec<Value>, UnitError> {
        let mut found = Vec::new();
        for (group, version, kind) in KINDS {
            found.extend(self.list(&Gvk::new(group, version, kind), &self.owned_selector()).await?);
        }
        Ok(found)
    }

    /// Deletes everything rollouts made for themselves; gives what was deleted.
    pub(crate) async fn remove_owned(&self) -> Result<Vec<ObjectRef>, StepError> {
        let mut removed = Vec::new();
        for object in self.owned_objects().await? {
            let at = ObjectRef::of(&object);
            self.remove(&at).await?;
            removed.push(at);
        }
        Ok(removed)
    }

    /// Hands over what the release now has as its own, and deletes the rest.
    pub(crate) async fn hand_over(&self, rendered: &RenderedSource) -> Result<(), StepError> {
        let own: BTreeSet<ObjectId> =
            rendered.documents.iter().map(|document| self.identity(&document.object)).collect();
        for object in self.owned_objects().await? {
            let at = ObjectRef::of(&object);
            if own.contains(&ObjectId::of(&object)) {
                let patch = json!({"metadata": {
                    "labels": {OWNED_BY_RUN: null, RELEASE: null},
                    "annotations": {BASELINE: null},
                }});
                self.merge(&at, patch).await?;
            } else {
                self.remove(&at).await?;
            }
        }
        Ok(())
    }

    /// The identity of a rendered object, which may leave out the release's namespace.
    fn identity(&self, object: &Value) -> ObjectId {
        let id = ObjectId::of(object);
        if id.namespace.is_empty() { ObjectId { namespace: self.namespace.to_owned(), ..id } } else { id }
    }
}
