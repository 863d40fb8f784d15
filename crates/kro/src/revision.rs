//! Revisions: every spec that was carried out, kept until nothing of it is left.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, DeleteOptions, Error, ErrorClass, ListOptions, ObjectPatch, WriteOptions};
use slipway_manifest::{ObjectRef, object};

use crate::api::{ApiGroup, GraphSpec};
use crate::names::{self, GraphId};
use crate::queue::lock;

/// The manager of what the controller writes about Graphs themselves.
pub(crate) const MANAGER: &str = "graph-controller.internal.kro.run";

/// A revision as far as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revision {
    pub(crate) name: String,
    pub(crate) generation: i64,
    pub(crate) hash: String,
}

/// The revisions of every Graph, read once; nobody else writes them.
pub(crate) struct Revisions {
    cluster: Cluster,
    group: ApiGroup,
    known: Mutex<HashMap<String, Vec<Revision>>>,
}

impl Revisions {
    pub(crate) fn new(cluster: Cluster, group: ApiGroup) -> Self {
        Self { cluster, group, known: Mutex::default() }
    }

    /// Reads every revision there is, without their specs.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let gvk = self.group.revision();
        let kind = self.cluster.find_kind(&gvk).await?.ok_or_else(|| {
            let message = format!("the cluster serves no kind {} in {}", gvk.kind, gvk.api_version());
            Error::new(ErrorClass::NoKind, "read revisions of Graphs", message)
        })?;
        let options = ListOptions { metadata_only: true, ..ListOptions::default() };
        let listed = self.cluster.list(&kind, None, &options).await?;
        let mut known = lock(&self.known);
        for item in &listed.items {
            let owner = item["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
            let label = |key| object::label(item, key).unwrap_or_default();
            known.entry(owner.to_owned()).or_default().push(Revision {
                name: object::name(item).unwrap_or_default().to_owned(),
                generation: label(names::REVISION_GENERATION).parse().unwrap_or(0),
                hash: label(names::REVISION_HASH).to_owned(),
            });
        }
        Ok(())
    }

    /// The revisions of a Graph, oldest first.
    pub(crate) fn of(&self, uid: &str) -> Vec<Revision> {
        let mut revisions = lock(&self.known).get(uid).cloned().unwrap_or_default();
        revisions.sort_by_key(|revision| revision.generation);
        revisions
    }

    fn at(&self, graph: &GraphId, name: &str) -> ObjectRef {
        ObjectRef::new(self.group.revision(), Some(&graph.namespace), name)
    }

    /// Makes sure that the present spec has a revision. One with the same content only moves on.
    pub(crate) async fn store(
        &self,
        graph: &GraphId,
        uid: &str,
        generation: i64,
        nodes: &Value,
    ) -> Result<(), Error> {
        let hash = format!("{:016x}", crate::project::hash_value(nodes));
        let latest = self.of(uid).pop();
        let options = WriteOptions::for_manager(MANAGER);
        if let Some(latest) = latest.filter(|latest| latest.hash == hash) {
            if latest.generation < generation {
                let labels = json!({names::REVISION_GENERATION: generation.to_string()});
                let patch = ObjectPatch::Merge(json!({"metadata": {"labels": labels}}));
                self.cluster.patch(&self.at(graph, &latest.name), &patch, &options, None).await?;
                self.remember(uid, Revision { generation, ..latest });
            }
            return Ok(());
        }
        let name = names::revision(&graph.name, generation);
        let at = self.at(graph, &name);
        let manifest = json!({
            "apiVersion": at.gvk.api_version(), "kind": at.gvk.kind,
            "metadata": {
                "name": name, "namespace": graph.namespace, "finalizers": [self.group.finalizer()],
                "labels": {
                    names::REVISION_GENERATION: generation.to_string(),
                    names::REVISION_GRAPH: names::label_value(&graph.name),
                    names::REVISION_HASH: hash,
                },
                "ownerReferences": [{
                    "apiVersion": at.gvk.api_version(), "kind": "Graph", "name": graph.name, "uid": uid,
                    "controller": true, "blockOwnerDeletion": false,
                }],
            },
            "spec": {"nodes": nodes},
        });
        match self.cluster.create(&at, &manifest, &options).await {
            Ok(_) => {}
            // Written before the controller was ended, or left by a Graph of the same name that is still going.
            Err(error) if error.class == ErrorClass::AlreadyExists => {
                let live = self.cluster.get(&at).await?;
                let owner =
                    live.as_ref().and_then(|live| live["metadata"]["ownerReferences"][0]["uid"].as_str());
                if owner != Some(uid) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        self.remember(uid, Revision { name, generation, hash });
        Ok(())
    }

    fn remember(&self, uid: &str, revision: Revision) {
        let mut known = lock(&self.known);
        let revisions = known.entry(uid.to_owned()).or_default();
        revisions.retain(|other| other.name != revision.name);
        revisions.push(revision);
    }

    /// Reads the spec of a revision.
    pub(crate) async fn spec(&self, graph: &GraphId, name: &str) -> Result<Option<GraphSpec>, Error> {
        let live = self.cluster.get(&self.at(graph, name)).await?;
        Ok(live.and_then(|live| serde_json::from_value(live["spec"].clone()).ok()))
    }

    /// Lets a revision go.
    pub(crate) async fn remove(&self, graph: &GraphId, uid: &str, name: &str) -> Result<(), Error> {
        let at = self.at(graph, name);
        let release = ObjectPatch::Merge(json!({"metadata": {"finalizers": null}}));
        match self.cluster.patch(&at, &release, &WriteOptions::for_manager(MANAGER), None).await {
            Ok(_) => {
                self.cluster.delete(&at, &DeleteOptions::default()).await?;
            }
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
        let mut known = lock(&self.known);
        if let Some(revisions) = known.get_mut(uid) {
            revisions.retain(|revision| revision.name != name);
            if revisions.is_empty() {
                known.remove(uid);
            }
        }
        Ok(())
    }

    /// Says on a revision that everything it asks for is there.
    pub(crate) async fn mark_ready(&self, graph: &GraphId, name: &str, time: &str) -> Result<(), Error> {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": time,
        });
        let patch = ObjectPatch::Merge(json!({"status": {"conditions": [condition]}}));
        let options = WriteOptions::for_manager(MANAGER);
        self.cluster.patch(&self.at(graph, name), &patch, &options, Some("status")).await.map(|_| ())
    }
}
