//! Choosing the adapter of an environment, and finding the objects it looks at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_cluster::{Cluster, ErrorClass, ListOptions, ServedKind};
use slipway_manifest::{Gvk, ObjectRef};

use super::adapters::{self, GRACE, adapter_name};
use super::error::HealthError;
use super::target::{HealthProof, HealthTarget};
use crate::kinds::HealthType;

/// Time between two looks at what a cluster serves.
const REDISCOVERY: SignedDuration = SignedDuration::from_mins(5);

/// The adapter of an environment, and the objects it looks at.
pub(super) struct Selection {
    pub(super) health_type: HealthType,
    pub(super) origin: SelectionOrigin,
    pub(super) objects: Vec<FoundObject>,
}

/// An object to look at.
pub(super) struct FoundObject {
    pub(super) at: ObjectRef,
    pub(super) value: Option<Value>,
}

/// Why an adapter was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SelectionOrigin {
    Explicit,
    Detected,
    /// The tool is installed or was asked for, but knows nothing of the environment.
    Fallback(String),
}

impl Selection {
    /// The adapter as evidence shows it.
    pub(super) fn adapter_text(&self) -> String {
        match self.origin {
            SelectionOrigin::Fallback(_) => format!("{}(fallback)", adapter_name(self.health_type)),
            _ => adapter_name(self.health_type).to_owned(),
        }
    }

    fn is_empty(&self) -> bool {
        self.objects.iter().all(|object| object.value.is_none())
    }
}

/// Remembers when each cluster was last asked what it serves.
#[derive(Default)]
pub(super) struct Discovery(Mutex<BTreeMap<String, Timestamp>>);

impl Discovery {
    /// Finds the first kind a cluster serves; asks again every five minutes where there was none.
    async fn find(
        &self,
        cluster: &NamedCluster,
        kinds: &[Gvk],
        now: Timestamp,
    ) -> Result<Option<Arc<ServedKind>>, HealthError> {
        for gvk in kinds {
            if let Some(kind) = cluster.cluster.find_kind(gvk).await? {
                return Ok(Some(kind));
            }
        }
        let is_due = {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let last = asked.insert(cluster.name.clone(), now);
            let is_due = last.is_some_and(|last| now.duration_since(last) >= REDISCOVERY);
            if let (Some(last), false) = (last, is_due) {
                asked.insert(cluster.name.clone(), last);
            }
            is_due
        };
        if !is_due {
            return Ok(None);
        }
        cluster.cluster.invalidate_kinds().await;
        for gvk in kinds {
            if let Some(kind) = cluster.cluster.find_kind(gvk).await? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }
}

/// A cluster with the name it goes by in specs; empty for the local one.
#[derive(Clone)]
pub(super) struct NamedCluster {
    pub(super) name: String,
    pub(super) cluster: Cluster,
}

/// Chooses the adapter: the one asked for, or the first tool that knows the environment, or its workload.
pub(super) async fn select(
    discovery: &Discovery,
    cluster: &NamedCluster,
    target: &HealthTarget,
    proof: &HealthProof<'_>,
    now: Timestamp,
) -> Result<Selection, HealthError> {
    let finder = Finder { discovery, cluster, target, now };
    if let Some(health_type) = target.health.adapter {
        let selection = finder.find_objects(health_type, SelectionOrigin::Explicit).await?;
        let missing = proof.before.and_then(|before| before.missing_since);
        let is_gone = missing.is_some_and(|since| now.duration_since(since) >= GRACE);
        if health_type == HealthType::ArgoCd && selection.is_empty() && is_gone {
            let why = format!("{} does not exist", finder.shown_object(health_type));
            return finder.find_objects(HealthType::Resource, SelectionOrigin::Fallback(why)).await;
        }
        return Ok(selection);
    }
    let mut installed = Vec::new();
    for health_type in [HealthType::ArgoCd, HealthType::Flux] {
        let Some(kind) = finder.served(health_type).await? else { continue };
        if let Some(selection) = finder.detect(health_type, &kind).await? {
            return Ok(selection);
        }
        installed.push(finder.shown_object(health_type));
    }
    let origin = match installed.is_empty() {
        true => SelectionOrigin::Detected,
        false => SelectionOrigin::Fallback(format!("{} does not exist", installed.join(", "))),
    };
    finder.find_objects(HealthType::Resource, origin).await
}

struct Finder<'a> {
    discovery: &'a Discovery,
    cluster: &'a NamedCluster,
    target: &'a HealthTarget,
    now: Timestamp,
}

impl Finder<'_> {
    fn kinds(&self, health_type: HealthType) -> Vec<Gvk> {
        adapters::adapter(health_type).map(adapters::Adapter::kinds).unwrap_or_default()
    }

    async fn served(&self, health_type: HealthType) -> Result<Option<Arc<ServedKind>>, HealthError> {
        self.discovery.find(self.cluster, &self.kinds(health_type), self.now).await
    }

    fn shown_object(&self, health_type: HealthType) -> String {
        let gvk = self.kinds(health_type).into_iter().next().unwrap_or_else(|| Gvk::new("", "v1", "Object"));
        self.target.object(health_type, gvk).to_string()
    }

    /// Finds the objects an adapter looks at. Whatever does not exist is listed without a value.
    async fn find_objects(
        &self,
        health_type: HealthType,
        origin: SelectionOrigin,
    ) -> Result<Selection, HealthError> {
        let kind = match health_type {
            HealthType::Resource => self.workload_kind().await?,
            _ => self.served(health_type).await?,
        };
        let objects = match (kind, self.target.selector()) {
            // The kind itself is not there (yet).
            (None, _) => {
                let gvk = match health_type {
                    HealthType::Resource => Gvk::new("", "", self.workload_name()),
                    _ => self.kinds(health_type).swap_remove(0),
                };
                vec![FoundObject { at: self.target.object(health_type, gvk), value: None }]
            }
            (Some(kind), Some(selector)) => {
                let place = self.target.object(health_type, kind.gvk.clone());
                let options = ListOptions::with_labels(selector);
                let list = self.cluster.cluster.list(&kind, place.namespace.as_deref(), &options).await?;
                let found = |value| FoundObject { at: ObjectRef::of(&value), value: Some(value) };
                let mut objects: Vec<FoundObject> = list.items.into_iter().map(found).collect();
                objects.sort_by(|one, other| one.at.name.cmp(&other.at.name));
                objects
            }
            (Some(kind), None) => {
                let at = self.target.object(health_type, kind.gvk.clone());
                let value = self.get(&at).await?;
                vec![FoundObject { at, value }]
            }
        };
        Ok(Selection { health_type, origin, objects })
    }

    /// Takes a tool that knows the environment: by the usual name, or by the path of its files.
    async fn detect(
        &self,
        health_type: HealthType,
        kind: &Arc<ServedKind>,
    ) -> Result<Option<Selection>, HealthError> {
        let has_path = match health_type {
            HealthType::ArgoCd => adapters::application_has_path,
            _ => adapters::kustomization_has_path,
        };
        let origin = SelectionOrigin::Detected;
        if self.target.selector().is_some() {
            let selection = self.find_objects(health_type, origin).await?;
            return Ok((!selection.is_empty()).then_some(selection));
        }
        let at = self.target.object(health_type, kind.gvk.clone());
        if let Some(value) = self.get(&at).await? {
            let objects = vec![FoundObject { at, value: Some(value) }];
            return Ok(Some(Selection { health_type, origin, objects }));
        }
        let list = self.cluster.cluster.list(kind, at.namespace.as_deref(), &ListOptions::default()).await?;
        let mut fitting = list.items.into_iter().filter(|value| has_path(value, &self.target.path));
        let Some(value) = fitting.next() else { return Ok(None) };
        let objects = vec![FoundObject { at: ObjectRef::of(&value), value: Some(value) }];
        Ok(Some(Selection { health_type, origin, objects }))
    }

    async fn get(&self, at: &ObjectRef) -> Result<Option<Value>, HealthError> {
        match self.cluster.cluster.get(at).await {
            Err(error) if error.class == ErrorClass::NoKind => Ok(None),
            result => Ok(result?),
        }
    }

    fn workload_name(&self) -> &str {
        self.target
            .health
            .resource
            .as_ref()
            .and_then(|resource| resource.kind.as_deref())
            .unwrap_or("Deployment")
    }

    /// The kind of the workload a user named.
    async fn workload_kind(&self) -> Result<Option<Arc<ServedKind>>, HealthError> {
        let name = self.workload_name();
        if matches!(name, "Deployment" | "StatefulSet" | "DaemonSet") {
            return self.discovery.find(self.cluster, &[Gvk::new("apps", "v1", name)], self.now).await;
        }
        Ok(self.cluster.cluster.served_kinds().await?.by_name(name).cloned())
    }
}
