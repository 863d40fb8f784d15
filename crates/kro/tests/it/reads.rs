//! What nodes read: references, collections, values, text.

use serde_json::json;

use crate::world::{World, at, graph_at, step};

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_object_is_read_as_soon_as_it_exists() {
    let world = World::new().await;
    let reference = json!({"id": "bundle", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}});
    world.graph("g", json!([reference, step("a", json!({"bundle": "${bundle.metadata.name}"}))])).await;
    world.until_state("g", "bundle", "Pending").await;
    assert!(!world.exists("Step", "a").await);
    world.create("Bundle", "one", json!({})).await;
    world.until_exists("Step", "a").await;
    assert_eq!(world.get("Step", "a").await.unwrap()["spec"]["bundle"], "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_escaped_expression_passes_through() {
    let world = World::new().await;
    let spec = json!({"message": "say $${x} and $$${y}", "cost": "$5", "n": "${1 + 1}", "t": "n=${1 + 1}"});
    world.graph("g", json!([step("a", spec)])).await;
    world.until_exists("Step", "a").await;
    let made = world.get("Step", "a").await.unwrap();
    assert_eq!(made["spec"], json!({"message": "say ${x} and $${y}", "cost": "$5", "n": 2, "t": "n=2"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_with_an_identity_alone_is_never_written_or_deleted() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({"v": 1})).await;
    let before = world.get("Bundle", "one").await.unwrap();
    let bundle = json!({"id": "bundle", "template": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}});
    world.graph("g", json!([bundle, step("a", json!({"bundle": "${bundle.metadata.name}"}))])).await;
    world.until_exists("Step", "a").await;
    world.delete(&graph_at("g")).await;
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    assert!(!world.exists("Step", "a").await);
    assert_eq!(world.get("Bundle", "one").await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_and_collections_are_read() {
    let world = World::new().await;
    for (name, team) in [("one", "a"), ("two", "b"), ("three", "a")] {
        let manifest = json!({"apiVersion": "test.io/v1", "kind": "Bundle",
            "metadata": {"name": name, "labels": {"team": team}}, "spec": {}});
        let options = slipway_cluster::WriteOptions::default();
        world.cluster.create(&at("Bundle", name), &manifest, &options).await.unwrap();
    }
    let nodes = json!([
        {"id": "naming", "def": {"team": "a"}},
        {"id": "bundles", "watch": {"apiVersion": "test.io/v1", "kind": "Bundle", "selector": {"team": "${naming.team}"}}},
        {"id": "sum", "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "sum"},
            "spec": {"names": "${bundles.map(b, b.metadata.name)}", "gone": "${omit()}"}}},
    ]);
    world.graph("g", nodes).await;
    world.until_exists("Step", "sum").await;
    assert_eq!(world.get("Step", "sum").await.unwrap()["spec"], json!({"names": ["one", "three"]}));
    world.delete(&at("Bundle", "one")).await;
    let holds = async || world.get("Step", "sum").await.unwrap()["spec"]["names"] == json!(["three"]);
    world.until("the collection is smaller", holds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_read_does_not_wait() {
    let world = World::new().await;
    let reference = json!({"id": "bundle", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}});
    world.graph("g", json!([reference, step("a", json!({"n": "${bundle.?status.?n.orValue(0)}"}))])).await;
    world.until_exists("Step", "a").await;
    assert_eq!(world.get("Step", "a").await.unwrap()["spec"]["n"], 0);
    world.create("Bundle", "one", json!({})).await;
    world.status("Bundle", "one", json!({"n": 7})).await;
    let holds = async || world.get("Step", "a").await.unwrap()["spec"]["n"] == 7;
    world.until("the value arrives", holds).await;
}
