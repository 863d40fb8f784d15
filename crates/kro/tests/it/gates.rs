//! Output gates and input gates.

use serde_json::json;

use crate::world::{World, at, step};

fn chain() -> serde_json::Value {
    json!([
        step("a", json!({"n": 1})),
        step("b", json!({"from": "${a.status.state}"})),
        step("c", json!({"from": "${b.status.state}"})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_opens_one_output_gate_at_a_time() {
    let world = World::new().await;
    world.graph("g", chain()).await;
    world.until_state("g", "a", "Pending").await;
    assert!(world.exists("Step", "a").await && !world.exists("Step", "b").await);
    world.status("Step", "a", json!({"state": "Running"})).await;
    world.status("Step", "a", json!({"state": "Verified"})).await;
    world.until_exists("Step", "b").await;
    world.until_state("g", "c", "Pending").await;
    assert!(!world.exists("Step", "c").await);
    assert_eq!(world.get("Step", "b").await.unwrap()["spec"]["from"], "Verified");
    world.status("Step", "b", json!({"state": "Verified"})).await;
    world.until_exists("Step", "c").await;
    world.status("Step", "c", json!({"state": "Verified"})).await;
    world.until("the Graph is ready", async || world.condition("g", "Ready").await.0 == "True").await;
    assert_eq!(world.condition("g", "Compiled").await, ("True".into(), "Compiled".into()));
    assert_eq!(world.condition("g", "Accepted").await, ("True".into(), "Compiled".into()));
}

async fn with_c_made(world: &World) {
    world.graph("g", chain()).await;
    for name in ["a", "b"] {
        world.until_exists("Step", name).await;
        world.status("Step", name, json!({"state": "Verified"})).await;
    }
    world.until_exists("Step", "c").await;
    world.until_state("g", "c", "Pending").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_closes_leaves_dependents_as_they_are() {
    let world = World::new().await;
    with_c_made(&world).await;
    let before = world.get("Step", "c").await.unwrap();
    world.status("Step", "b", json!({"state": "Failed"})).await;
    world.until_state("g", "b", "Held").await;
    assert_eq!(world.get("Step", "c").await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_survives_a_restart() {
    let mut world = World::new().await;
    with_c_made(&world).await;
    world.stop().await;
    let before = world.get("Step", "c").await.unwrap();
    world.status("Step", "b", json!({"state": "Failed"})).await;
    world.start();
    world.until_state("g", "b", "Held").await;
    assert_eq!(world.get("Step", "c").await.unwrap(), before);
    // Its own readiness is still followed.
    world.status("Step", "c", json!({"state": "Verified"})).await;
    world.until_state("g", "c", "Ready").await;
    // And once more, when the gate opens again, nothing is written anew.
    let writes = world.get("Step", "c").await.unwrap()["metadata"]["generation"].clone();
    world.status("Step", "b", json!({"state": "Verified"})).await;
    world.until_state("g", "b", "Ready").await;
    assert_eq!(world.get("Step", "c").await.unwrap()["metadata"]["generation"], writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_about_another_node_holds_the_node_itself_back() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({})).await;
    let waits = json!({
        "id": "late", "propagateWhen": ["${early.status.state == 'Verified'}"],
        "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "late"},
                     "spec": {"of": "${early.metadata.name}"}},
    });
    let early = json!({"id": "early", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}});
    world.graph("g", json!([early, waits])).await;
    world.until_state("g", "late", "Pending").await;
    assert!(!world.exists("Step", "late").await);
    world.status("Bundle", "one", json!({"state": "Verified"})).await;
    world.until_exists("Step", "late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_of_another_node_can_be_asked_for() {
    let world = World::new().await;
    let first = json!({
        "id": "first", "readyWhen": ["${first.status.ok == true}"],
        "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "first"}, "spec": {"n": 1}},
    });
    let second = json!({
        "id": "second", "propagateWhen": ["${second.dependencies().all(d, d.ready())}"],
        "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "second"},
                     "spec": {"of": "${first.metadata.name}"}},
    });
    world.graph("g", json!([first, second])).await;
    world.until_state("g", "second", "Pending").await;
    assert!(!world.exists("Step", "second").await);
    world.status("Step", "first", json!({"ok": true})).await;
    world.until_exists("Step", "second").await;
    let made = world.cluster.get(&at("Step", "second")).await.unwrap().unwrap();
    assert_eq!(made["spec"], json!({"of": "first"}));
}
