//! Nodes repeated for collections.

use serde_json::json;

use crate::world::{World, at};

fn regions(propagate: serde_json::Value) -> serde_json::Value {
    json!({
        "id": "prod", "forEach": {"region": "${bundle.spec.regions}"},
        "readyWhen": ["${prod.status.state == 'Verified'}"], "propagateWhen": propagate,
        "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "prod-${region}"},
                     "spec": {"region": "${region}", "v": "${bundle.spec.v}"}},
    })
}

fn bundle() -> serde_json::Value {
    json!({"id": "bundle", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_repeated_and_lets_its_data_out_when_all_gates_are_open() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({"regions": ["eu", "us"], "v": 1})).await;
    let after = json!({"id": "after", "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "after"},
        "spec": {"states": "${prod.map(s, s.status.state)}"}}});
    let gate = json!(["${prod.status.state == 'Verified'}"]);
    world.graph("g", json!([bundle(), regions(gate), after])).await;
    world.until_exists("Step", "prod-us").await;
    world.status("Step", "prod-eu", json!({"state": "Verified"})).await;
    world.until_state("g", "prod", "Pending").await;
    assert!(!world.exists("Step", "after").await);
    world.status("Step", "prod-us", json!({"state": "Verified"})).await;
    world.until_exists("Step", "after").await;
    assert_eq!(world.get("Step", "after").await.unwrap()["spec"]["states"], json!(["Verified", "Verified"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_taken_out_takes_its_object_along() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({"regions": ["eu", "us"], "v": 1})).await;
    world.graph("g", json!([bundle(), regions(json!([]))])).await;
    world.until_exists("Step", "prod-us").await;
    let kept = world.get("Step", "prod-eu").await.unwrap();
    world.patch(&at("Bundle", "one"), json!({"spec": {"regions": ["eu"]}})).await;
    world.until_gone("Step", "prod-us").await;
    assert_eq!(world.get("Step", "prod-eu").await.unwrap(), kept);
    world.patch(&at("Bundle", "one"), json!({"spec": {"regions": []}})).await;
    world.until_gone("Step", "prod-eu").await;
    world.until_state("g", "prod", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_give_the_same_object_are_an_error() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({"regions": ["eu", "eu"], "v": 1})).await;
    world.graph("g", json!([bundle(), regions(json!([]))])).await;
    world.until_state("g", "prod", "Error").await;
    assert!(!world.exists("Step", "prod-eu").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_node_paces_its_own_changes() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({"regions": ["eu", "us"], "v": 1})).await;
    let pace = json!(["${prod.filter(p, p.updated() && !p.ready()).size() < 1}"]);
    world.graph("g", json!([bundle(), regions(pace)])).await;
    world.until_exists("Step", "prod-eu").await;
    world.until_state("g", "prod", "NotReady").await;
    assert!(!world.exists("Step", "prod-us").await, "one at a time");
    world.status("Step", "prod-eu", json!({"state": "Verified"})).await;
    world.until_exists("Step", "prod-us").await;
}
