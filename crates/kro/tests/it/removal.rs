//! Prune and teardown.

use serde_json::json;

use crate::world::{World, at, graph_at, step};

fn plain(id: &str, spec: serde_json::Value) -> serde_json::Value {
    json!({"id": id, "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": id}, "spec": spec}})
}

/// Holds an object until the test lets it go.
fn held(mut node: serde_json::Value) -> serde_json::Value {
    node["template"]["metadata"]["finalizers"] = json!(["test.io/hold"]);
    node
}

async fn release(world: &World, name: &str) {
    world.patch(&at("Step", name), json!({"metadata": {"finalizers": null}})).await;
}

async fn is_going(world: &World, name: &str) -> bool {
    world.get("Step", name).await.is_none_or(|one| one["metadata"]["deletionTimestamp"].is_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn exclusion_removes_an_object_after_its_dependents() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({"on": true})).await;
    let bundle = json!({"id": "bundle", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}});
    let mut a = plain("a", json!({"n": 1}));
    a["includeWhen"] = json!(["${bundle.spec.on}"]);
    let b = held(plain("b", json!({"of": "${a.metadata.name}"})));
    world.graph("g", json!([bundle, a, b])).await;
    world.until_exists("Step", "b").await;
    world.patch(&at("Bundle", "one"), json!({"spec": {"on": false}})).await;
    world.until("b goes", async || is_going(&world, "b").await).await;
    world.until_state("g", "a", "Excluded").await;
    world.until_state("g", "b", "Excluded").await;
    assert!(!is_going(&world, "a").await, "a waits for b");
    release(&world, "b").await;
    world.until_gone("Step", "a").await;
    world.until("the Graph is ready", async || world.condition("g", "Ready").await.0 == "True").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn teardown_waits_for_finalizers_and_lets_go_last() {
    let world = World::new().await;
    let b = held(plain("b", json!({"of": "${a.metadata.name}"})));
    let c = plain("c", json!({"of": "${b.metadata.name}"}));
    world.graph("g", json!([plain("a", json!({"n": 1})), b, c])).await;
    world.until_exists("Step", "c").await;
    world.delete(&graph_at("g")).await;
    world.until("b goes", async || is_going(&world, "b").await).await;
    assert!(!world.exists("Step", "c").await, "c went before b");
    assert!(!is_going(&world, "a").await, "a waits for b");
    assert!(world.read_graph("g").await.is_some());
    release(&world, "b").await;
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    assert!(!world.exists("Step", "a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn teardown_goes_on_after_a_restart() {
    let mut world = World::new().await;
    let b = held(plain("b", json!({"of": "${a.metadata.name}"})));
    world.graph("g", json!([plain("a", json!({"n": 1})), b])).await;
    world.until_exists("Step", "b").await;
    world.delete(&graph_at("g")).await;
    world.until("b goes", async || is_going(&world, "b").await).await;
    world.stop().await;
    release(&world, "b").await;
    world.start();
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    assert!(!world.exists("Step", "a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_status_do_not_block_teardown() {
    let world = World::new().await;
    world
        .graph("g", json!([step("a", json!({"n": 1})), step("b", json!({"of": "${a.status.state}"}))]))
        .await;
    for name in ["a", "b"] {
        world.until_exists("Step", name).await;
        world.status("Step", name, json!({"state": "Verified", "by": "their-controller"})).await;
    }
    world.until_state("g", "b", "Ready").await;
    world.delete(&graph_at("g")).await;
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    assert!(!world.exists("Step", "a").await && !world.exists("Step", "b").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_taken_out_of_the_spec_is_removed() {
    let world = World::new().await;
    world
        .graph("g", json!([plain("a", json!({"n": 1})), plain("b", json!({"of": "${a.metadata.name}"}))]))
        .await;
    world.until_exists("Step", "b").await;
    world.graph("g", json!([plain("b", json!({"of": "nothing"}))])).await;
    world.until_gone("Step", "a").await;
    assert_eq!(world.get("Step", "b").await.unwrap()["spec"]["of"], "nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_runs_while_its_target_is_there() {
    let world = World::new().await;
    let mut snapshot = plain("snapshot", json!({"of": "${a.spec.n}"}));
    snapshot["finalizes"] = json!("a");
    snapshot["readyWhen"] = json!(["${snapshot.status.done == true}"]);
    world.graph("g", json!([plain("a", json!({"n": 1})), snapshot])).await;
    world.until("the Graph is ready", async || world.condition("g", "Ready").await.0 == "True").await;
    assert!(!world.exists("Step", "snapshot").await, "it does not exist in normal operation");
    world.delete(&graph_at("g")).await;
    world.until_exists("Step", "snapshot").await;
    world.until("teardown waits", async || world.condition("g", "TeardownBlocked").await.0 == "True").await;
    assert!(!is_going(&world, "a").await);
    assert_eq!(world.get("Step", "snapshot").await.unwrap()["spec"]["of"], 1);
    world.status("Step", "snapshot", json!({"done": true})).await;
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    assert!(!world.exists("Step", "a").await && !world.exists("Step", "snapshot").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_again_while_the_owner_is_being_deleted() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({})).await;
    world.patch(&at("Bundle", "one"), json!({"metadata": {"finalizers": ["test.io/hold"]}})).await;
    world.graph("g", json!([plain("a", json!({"n": 1}))])).await;
    world.until_exists("Step", "a").await;
    let uid = world.get("Bundle", "one").await.unwrap()["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "test.io/v1", "kind": "Bundle", "name": "one", "uid": uid, "controller": true}]);
    world.patch(&graph_at("g"), json!({"metadata": {"ownerReferences": owner}})).await;
    world.delete(&at("Bundle", "one")).await;
    world.until_gone("Step", "a").await;
    assert!(world.read_graph("g").await.is_some(), "the Graph itself is for its owner to delete");
}
