//! The definitions made from the types.

use std::time::Duration;

use slipway_cluster::{Cluster, WriteOptions, crd};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds;
use slipway_sandbox::Sandbox;

#[tokio::test]
async fn a_cluster_accepts_every_definition() {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts");
    let cluster = Cluster::new(sandbox.client());
    for definition in kinds::definitions() {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let name = definition["metadata"]["name"].as_str().expect("has a name");
        let created =
            cluster.create(&ObjectRef::new(gvk, None, name), &definition, &WriteOptions::default()).await;
        created.unwrap_or_else(|error| {
            panic!("{name}: {error}\n{}", serde_json::to_string_pretty(&definition).unwrap())
        });
        crd::wait_until_served(&cluster, &definition, Duration::from_secs(20)).await.expect("is served");
    }
}

#[test]
fn the_stored_definitions_are_fresh() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let mut made: Vec<String> = Vec::new();
    for definition in kinds::definitions() {
        let plural = definition["spec"]["names"]["plural"].as_str().expect("has a plural");
        let stored = std::fs::read_to_string(format!("{directory}/{plural}.yaml")).unwrap_or_default();
        let text = slipway_yaml::to_string(&definition).expect("has a YAML form");
        assert!(
            stored == text,
            "{plural}.yaml is stale\n  hint: run `cargo xtask docs` and commit the result"
        );
        made.push(format!("{plural}.yaml"));
    }
    made.sort();
    let mut stored: Vec<String> = std::fs::read_dir(directory)
        .expect("the directory is there")
        .map(|entry| entry.expect("is readable").file_name().to_string_lossy().into_owned())
        .collect();
    stored.sort();
    assert_eq!(stored, made);
}
