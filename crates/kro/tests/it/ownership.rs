//! Who owns what.

use serde_json::json;

use slipway_cluster::Cluster;
use slipway_kro::{ControllerOptions, WriteScope};

use crate::world::{World, at, graph_at, step};

#[tokio::test(flavor = "multi_thread")]
async fn the_second_graph_to_make_an_object_conflicts() {
    let world = World::new().await;
    world.graph("g", json!([step("a", json!({"n": 1}))])).await;
    world.until_state("g", "a", "Pending").await;
    world.graph("h", json!([step("a", json!({"n": 1}))])).await;
    world.until_state("h", "a", "Conflict").await;
    assert_eq!(world.condition("h", "Ready").await, ("False".into(), "Conflict".into()));
    assert_eq!(world.state("g", "a").await, "Pending", "the first one is as it was");
    // When the first one goes, the second one takes its place.
    world.delete(&graph_at("g")).await;
    world.until("the first Graph is gone", async || world.read_graph("g").await.is_none()).await;
    world.until_state("h", "a", "Pending").await;
    assert!(world.exists("Step", "a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_foreign_object_are_patched_and_given_back() {
    let world = World::new().await;
    let patch = json!({"id": "p", "patch": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"},
        "spec": {"ours": 1}, "status": {"seen": true}}});
    world.graph("g", json!([patch])).await;
    world.until_state("g", "p", "Pending").await;
    assert!(!world.exists("Bundle", "one").await, "a patch creates nothing");
    world.create("Bundle", "one", json!({"theirs": 1})).await;
    world.until_state("g", "p", "Ready").await;
    let live = world.get("Bundle", "one").await.unwrap();
    assert_eq!((&live["spec"], &live["status"]), (&json!({"theirs": 1, "ours": 1}), &json!({"seen": true})));
    // Another Graph that wants the same field conflicts, though it agrees.
    let same = json!({"id": "p", "patch": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}, "spec": {"ours": 1}}});
    world.graph("h", json!([same])).await;
    world.until_state("h", "p", "Conflict").await;
    world.delete(&graph_at("h")).await;
    world.delete(&graph_at("g")).await;
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    let live = world.get("Bundle", "one").await.unwrap();
    assert_eq!(live["spec"], json!({"theirs": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_allowed_is_not_asked_for() {
    use slipway_cluster::Cluster;
    use slipway_kro::{AllowedKinds, ControllerOptions};
    let mut world = World::without_controller().await;
    let only = [("test.io".to_owned(), "Gate".to_owned())].into();
    let options =
        ControllerOptions { allowed_kinds: AllowedKinds::Only(only), ..ControllerOptions::default() };
    world.start_with(Cluster::new(world.sandbox.client()), options);
    world.graph("g", json!([step("a", json!({"n": 1}))])).await;
    world.until_state("g", "a", "Error").await;
    assert!(world.cluster.get(&at("Step", "a")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_kept_to_its_namespace_writes_nowhere_else() {
    let mut world = World::without_controller().await;
    let options = ControllerOptions { write_scope: WriteScope::OwnNamespace, ..ControllerOptions::default() };
    world.start_with(Cluster::new(world.sandbox.client()), options);
    let mut elsewhere = step("a", json!({"n": 1}));
    elsewhere["template"]["metadata"]["namespace"] = "kube-system".into();
    world.graph("g", json!([elsewhere, step("b", json!({"n": 1}))])).await;
    world.until_state("g", "a", "Error").await;
    world.until_exists("Step", "b").await;
}
