//! A sandbox, a cluster on it, and trouble between the two.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{ApplyOptions, Cluster};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_sandbox::{FaultLayer, Sandbox};
use tower::Layer;

/// A sandbox without workloads and a cluster on it.
pub(crate) fn bare() -> (Sandbox, Cluster) {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build().unwrap();
    let cluster = Cluster::new(sandbox.client());
    (sandbox, cluster)
}

/// A cluster on the sandbox through trouble.
pub(crate) fn troubled(sandbox: &Sandbox, faults: &FaultLayer) -> Cluster {
    Cluster::new(kube::Client::new(faults.layer(sandbox.service()), "default"))
}

pub(crate) fn at(api_version: &str, kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::from_api_version(api_version, kind), Some("default"), name)
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
}

pub(crate) fn helm() -> ApplyOptions {
    ApplyOptions::new("helm")
}

/// Tests wait for the sandbox's threads, never for longer than this.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), work).await.expect("takes far less than minutes")
}
