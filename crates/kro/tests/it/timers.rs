//! What happens by time alone.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, step};

#[tokio::test(flavor = "multi_thread")]
async fn a_freshness_clause_ends_by_time_alone() {
    let world = World::new().await;
    let gate = json!({
        "id": "gate", "readyWhen": ["${gate.status.ready == true}"],
        "propagateWhen": ["${gate.status.ready == true}",
                          "${timestamp(gate.status.lastEvaluatedAt) > now() - duration('10m')}"],
        "template": {"apiVersion": "test.io/v1", "kind": "Gate", "metadata": {"name": "gate"}, "spec": {"n": 1}},
    });
    world.graph("g", json!([gate, step("a", json!({"gate": "${gate.metadata.name}"}))])).await;
    world.until_exists("Gate", "gate").await;
    let now = world.now();
    world.status("Gate", "gate", json!({"ready": true, "lastEvaluatedAt": now.to_string()})).await;
    world.until_state("g", "gate", "Ready").await;
    world.settle().await;
    assert_eq!(world.controller().next_due(), now.checked_add(Duration::from_secs(600)).ok());
    world.advance(Duration::from_secs(599));
    world.advance(Duration::from_secs(1));
    world.until_state("g", "gate", "Held").await;
    world.status("Gate", "gate", json!({"lastEvaluatedAt": world.now().to_string()})).await;
    world.until_state("g", "gate", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_opens_at_its_moment_without_any_change() {
    let world = World::new().await;
    let monday = "${now() >= timestamp('2026-04-13T00:00:00Z') && a.metadata.name != ''}";
    let mut a = step("a", json!({"n": 1}));
    a["propagateWhen"] = json!([monday]);
    a["readyWhen"] = json!([]);
    world.graph("g", json!([a, step("b", json!({"of": "${a.metadata.name}"}))])).await;
    world.until_state("g", "a", "Pending").await;
    world.settle().await;
    let before = world.calls();
    world.advance(Duration::from_secs(59 * 3600));
    world.advance(Duration::from_secs(3600));
    world.until_exists("Step", "b").await;
    world.settle().await;
    assert_eq!(world.calls().since(&before).count_of(slipway_cluster::RequestVerb::Apply), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_can_ask_to_be_looked_at_again() {
    let world = World::new().await;
    let mut a = step("a", json!({"n": 1}));
    a["recheckAfter"] = json!("1m");
    world.graph("g", json!([a])).await;
    world.until_state("g", "a", "Pending").await;
    world.settle().await;
    assert_eq!(world.controller().next_due(), world.now().checked_add(Duration::from_secs(60)).ok());
}
