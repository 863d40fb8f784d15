//! A GitOps tool in a few lines: brings what was merged to the environment's workload.

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ErrorClass, ObjectPatch, WriteOptions};
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::{Bundle, ImageArtifact};

use crate::RehearsalError;

/// The field manager of what is synced.
const MANAGER: &str = "rehearsal-sync";

/// Whether a workload gets well with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitOpsSync {
    Healthy,
    /// The new version never serves.
    Unhealthy,
    /// Only the version is written; the cluster's own controllers say how the workload is.
    Unobserved,
}

impl GitOpsSync {
    /// Brings the workload of an environment to the images of a bundle.
    pub async fn apply(
        self,
        cluster: &Cluster,
        pipeline: &str,
        environment: &str,
        bundle: &Bundle,
    ) -> Result<(), RehearsalError> {
        let object = workload(pipeline, environment, bundle);
        let at = ObjectRef::of(&object);
        let refused = |source| RehearsalError::Object { object: at.to_string(), source };
        let options = WriteOptions::for_manager(MANAGER);
        let live = match cluster.create(&at, &object, &options).await {
            Err(error) if error.class == ErrorClass::AlreadyExists => {
                let patch = ObjectPatch::Merge(json!({"spec": {"template": object["spec"]["template"]}}));
                cluster.patch(&at, &patch, &options, None).await.map_err(refused)?
            }
            made => made.map_err(refused)?,
        };
        let serving = match self {
            Self::Unobserved => return Ok(()),
            Self::Healthy => 1,
            Self::Unhealthy => 0,
        };
        let available = if serving == 1 { "True" } else { "False" };
        let status = json!({"status": {
            "observedGeneration": live["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": serving, "availableReplicas": serving, "unavailableReplicas": 1 - serving,
            "conditions": [{"type": "Available", "status": available, "reason": "Rehearsed",
                "message": if serving == 1 { "the version serves" } else { "the version does not serve" }}]}});
        cluster.patch(&at, &ObjectPatch::Merge(status), &options, Some("status")).await.map_err(refused)?;
        Ok(())
    }
}

fn workload(pipeline: &str, environment: &str, bundle: &Bundle) -> Value {
    let images = &bundle.spec.artifacts.images;
    let container = |(index, image): (usize, &ImageArtifact)| {
        let reference = if image.reference.is_empty() { &image.name } else { &image.reference };
        let image = match &image.digest {
            Some(digest) => format!("{reference}@{digest}"),
            None => reference.clone(),
        };
        json!({"name": format!("app-{index}"), "image": image})
    };
    let containers: Vec<Value> = images.iter().enumerate().map(container).collect();
    let containers =
        if containers.is_empty() { vec![json!({"name": "app-0", "image": "app"})] } else { containers };
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": pipeline, "namespace": environment},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": pipeline}}, "template": {
            "metadata": {"labels": {"app": pipeline}, "annotations": {"slipway.dev/bundle": bundle.name()}}, "spec": {"containers": containers}}}})
}
