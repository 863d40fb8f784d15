//! Revisions: what is kept of every spec.

use serde_json::{Value, json};
use slipway_cluster::ListOptions;
use slipway_kro::ApiGroup;

use crate::world::{World, graph_at, step};

async fn revisions(world: &World) -> Vec<String> {
    let kind = world.cluster.find_kind(&ApiGroup::Experimental.revision()).await.unwrap().unwrap();
    let listed = world.cluster.list(&kind, Some("default"), &ListOptions::default()).await.unwrap();
    let mut names: Vec<String> =
        listed.items.iter().map(|one: &Value| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_that_does_not_compile_leaves_the_last_one_working() {
    let mut world = World::new().await;
    world
        .graph("g", json!([step("a", json!({"n": 1})), step("b", json!({"of": "${a.status.state}"}))]))
        .await;
    world.until_exists("Step", "a").await;
    world
        .graph("g", json!([step("a", json!({"n": 1})), step("b", json!({"of": "${nobody.status.state}"}))]))
        .await;
    world.until("it is reported", async || world.condition("g", "Compiled").await.0 == "False").await;
    assert_eq!(world.condition("g", "Compiled").await, ("False".into(), "ExpressionError".into()));
    assert_eq!(revisions(&world).await, ["g-g00001"]);
    // The old one goes on, even for a controller that never saw it.
    world.stop().await;
    world.start();
    world.status("Step", "a", json!({"state": "Verified"})).await;
    world.until_exists("Step", "b").await;
    world.graph("g", json!([step("a", json!({"n": 2}))])).await;
    world.until("it compiles again", async || world.condition("g", "Compiled").await.0 == "True").await;
    world.until_gone("Step", "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_revision_goes_with_its_last_object() {
    let world = World::new().await;
    world.graph("g", json!([step("a", json!({"n": 1})), step("b", json!({"n": 1}))])).await;
    world.until_exists("Step", "b").await;
    world.graph("g", json!([step("a", json!({"n": 1}))])).await;
    world.until_gone("Step", "b").await;
    world.until("the revision goes", async || revisions(&world).await == ["g-g00002"]).await;
    world.delete(&graph_at("g")).await;
    world.until("the Graph is gone", async || world.read_graph("g").await.is_none()).await;
    world.until("its revisions are gone", async || revisions(&world).await.is_empty()).await;
}
