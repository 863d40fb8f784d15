//! The work of steps on objects: patch, create, delete, wait until they are gone, select.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{
    DeleteOptions, DeleteOutcome, DeletePropagation, Error, ErrorClass, ListOptions, ObjectPatch, ServedKind,
    WriteOptions,
};
use slipway_manifest::{Gvk, ObjectRef};
use tokio::time::Instant;

use super::{MANAGER, StepContext, shown};
use crate::error::{AttemptError, ErrorKind};
use crate::model::Selection;

/// The number of times a write that met another one is sent again.
const CONFLICTS: u32 = 5;
/// The pause before a kind that is not served is asked for again.
const REFRESH: Duration = Duration::from_secs(10);

impl StepContext<'_> {
    /// Patches an object; whoever writes it at the same moment is waited out.
    pub(crate) async fn patch(&self, at: &ObjectRef, patch: &ObjectPatch) -> Result<Value, Error> {
        let mut turn = 0;
        loop {
            match self.cluster().patch(at, patch, &WriteOptions::for_manager(MANAGER), None).await {
                Err(error) if error.class == ErrorClass::Conflict && turn < CONFLICTS => {
                    self.pause(&mut turn).await;
                }
                answer => return answer,
            }
        }
    }

    /// Makes sure a namespace is there; one that is being deleted is waited for and made anew.
    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<(), AttemptError> {
        let at = ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, name);
        let mut turn = 0;
        loop {
            match self.cluster().get(&at).await {
                Ok(Some(live)) if live["metadata"]["deletionTimestamp"].is_string() => {
                    self.awaits(format!("waiting for namespace/{name} to be gone"), vec![live]);
                    self.pause(&mut turn).await;
                }
                Ok(Some(_)) => return Ok(()),
                // Who may not read namespaces may still be allowed to create one.
                Ok(None) => break,
                Err(error) if error.class == ErrorClass::Forbidden => break,
                Err(error) => return Err(error.into()),
            }
        }
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.cluster().create(&at, &manifest, &WriteOptions::for_manager(MANAGER)).await {
            Ok(_) => Ok(()),
            Err(error) if error.class == ErrorClass::AlreadyExists => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The kind of an object to write: waits for one that a definition of this run brings.
    pub(crate) async fn kind(&self, gvk: &Gvk) -> Result<Arc<ServedKind>, AttemptError> {
        let mut turn = 0;
        loop {
            if let Some(kind) = self.world.kind(gvk).await? {
                return Ok(kind);
            }
            if !self.world.is_defined(gvk) {
                let message = format!("the cluster serves no kind {gvk}");
                return Err(AttemptError::new(ErrorKind::NotFound, message)
                    .hint("is its definition applied in a step before, and is the version right?"));
            }
            self.awaits(format!("waiting for the kind {gvk} to be served"), Vec::new());
            self.pause(&mut turn).await;
        }
    }

    /// Deletes an object and waits until it, not merely one of its name, is gone. Says whether it was there.
    pub(crate) async fn delete(
        &self,
        at: &ObjectRef,
        live: &Value,
        propagation: DeletePropagation,
    ) -> Result<(), AttemptError> {
        self.begin_delete(at, propagation).await?;
        self.gone(at, live["metadata"]["uid"].as_str()).await
    }

    pub(crate) async fn begin_delete(
        &self,
        at: &ObjectRef,
        propagation: DeletePropagation,
    ) -> Result<DeleteOutcome, AttemptError> {
        let propagation = if at.gvk.kind == "Job" { DeletePropagation::Foreground } else { propagation };
        Ok(self.cluster().delete(at, &DeleteOptions { propagation, ..DeleteOptions::default() }).await?)
    }

    pub(crate) async fn gone(&self, at: &ObjectRef, uid: Option<&str>) -> Result<(), AttemptError> {
        let mut turn = 0;
        loop {
            match self.cluster().get(at).await {
                Ok(None) => return Ok(()),
                Ok(Some(live)) if live["metadata"]["uid"].as_str() != uid => return Ok(()),
                Ok(Some(live)) => {
                    self.awaits(format!("waiting for {} to be gone", shown(at)), vec![live]);
                }
                Err(error) if error.is_absent() => return Ok(()),
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(&mut turn).await;
        }
    }

    /// The objects a selection means now; `None` when nobody serves the kind.
    pub(crate) async fn select(
        &self,
        selection: &Selection,
        last: &mut Option<Instant>,
    ) -> Result<Found, Error> {
        let fresh = last.is_none_or(|last| last.elapsed() >= REFRESH.min(self.world.place.poll * 5));
        let kinds = self.cluster().served_kinds().await?;
        let kind = match kinds.by_name(&selection.kind) {
            Some(kind) => Some(Arc::clone(kind)),
            None if fresh => {
                *last = Some(Instant::now());
                self.world.named(&selection.kind).await?
            }
            None => None,
        };
        let Some(kind) = kind else { return Ok(Found::NoKind) };
        let namespace = selection.namespace.as_deref().unwrap_or("default");
        let namespace = (kind.namespaced && !selection.all_namespaces).then_some(namespace);
        if let Some(name) = &selection.name {
            let at = ObjectRef::new(kind.gvk.clone(), namespace, name.as_str());
            return match self.cluster().get(&at).await {
                Ok(found) => Ok(Found::Objects(kind, found.into_iter().collect())),
                Err(error) if error.is_absent() => Ok(Found::Objects(kind, Vec::new())),
                Err(error) => Err(error),
            };
        }
        let options = ListOptions {
            labels: selection.selector.clone().unwrap_or_default(),
            fields: selection.field_selector.clone().unwrap_or_default(),
            metadata_only: false,
        };
        match self.cluster().list(&kind, namespace, &options).await {
            Ok(listed) => Ok(Found::Objects(kind, listed.items)),
            Err(error) if error.is_absent() => Ok(Found::Objects(kind, Vec::new())),
            Err(error) => Err(error),
        }
    }
}

/// Tells that a loop that looks again anyway may overlook an answer.
pub(crate) fn passes(error: &Error) -> bool {
    error.is_transient() || error.is_expired()
}

/// The objects a selection found.
pub(crate) enum Found {
    NoKind,
    Objects(Arc<ServedKind>, Vec<Value>),
}
