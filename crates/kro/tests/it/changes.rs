//! What causes writes, and what does not.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::{Cluster, RequestVerb};
use slipway_kro::ControllerOptions;
use slipway_sandbox::{Fault, FaultLayer, FaultRule};
use tower::Layer;

use crate::world::{World, at, step};

#[tokio::test(flavor = "multi_thread")]
async fn a_field_nobody_reads_causes_no_write() {
    let world = World::new().await;
    world.create("Bundle", "one", json!({})).await;
    world.status("Bundle", "one", json!({"touched": "before"})).await;
    let bundle = json!({"id": "bundle", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": "one"}}});
    let gate = json!({"id": "gate", "readyWhen": ["${gate.status.ready == true}"], "propagateWhen": ["${gate.status.ready == true}"],
        "template": {"apiVersion": "test.io/v1", "kind": "Gate", "metadata": {"name": "gate"}, "spec": {"of": "${bundle.metadata.name}"}}});
    world
        .graph(
            "g",
            json!([
                bundle,
                gate,
                step("a", json!({"gate": "${gate.metadata.name}"})),
                step("b", json!({"n": "${bundle.status.flip}"}))
            ]),
        )
        .await;
    world.until_exists("Gate", "gate").await;
    world.status("Gate", "gate", json!({"ready": true})).await;
    world.until_exists("Step", "a").await;
    let reported = async |id: &str| {
        let nodes = world.read_graph("g").await.unwrap()["status"]["nodes"].clone();
        nodes.as_array().into_iter().flatten().any(|node| node["id"] == id && !node["resource"].is_null())
    };
    world.until("the report of a", async || reported("a").await).await;
    world.settle().await;
    let before = world.calls();
    for round in 0..500 {
        world.status("Bundle", "one", json!({"touched": round})).await;
        world.status("Gate", "gate", json!({"ready": true, "lastEvaluatedAt": round})).await;
    }
    // What is seen after a thousand touches was seen after all of them.
    world.status("Bundle", "one", json!({"flip": 1})).await;
    world.until_exists("Step", "b").await;
    // A call is counted when its answer is here, which may be after others see what it did.
    world.settle().await;
    assert!(reported("b").await);
    let sent = world.calls().since(&before);
    assert_eq!(
        (sent.count_of(RequestVerb::Apply), sent.count_of(RequestVerb::Patch), sent.write_count()),
        (1, 1, 2),
        "{sent}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_apply_and_status_loses_nothing() {
    let mut world = World::without_controller().await;
    // Everything goes through but the status of the Graph.
    let faults = FaultLayer::new(1);
    faults.add(FaultRule::new(Fault::ServerError(500)).path_contains("/graphs/g/status"));
    let troubled = Cluster::new(kube::Client::new(faults.layer(world.sandbox.service()), "default"));
    world.start_with(troubled, ControllerOptions::default());
    world
        .graph("g", json!([step("a", json!({"n": 1})), step("b", json!({"of": "${a.status.state}"}))]))
        .await;
    world.until_exists("Step", "a").await;
    world.kill().await;
    let uid = world.get("Step", "a").await.unwrap()["metadata"]["uid"].clone();
    world.status("Step", "a", json!({"state": "Verified"})).await;
    world.start();
    world.until_exists("Step", "b").await;
    world.until_state("g", "a", "Ready").await;
    world.settle().await;
    assert_eq!(world.get("Step", "a").await.unwrap()["metadata"]["uid"], uid);
    assert_eq!(world.calls().count_of(RequestVerb::Apply), 1, "only b was applied: {}", world.calls());
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_corrected_at_the_resync_and_costs_nothing_otherwise() {
    let world = World::new().await;
    world.graph("g", json!([step("a", json!({"n": 1}))])).await;
    world.until_exists("Step", "a").await;
    world.until_state("g", "a", "Pending").await;
    world.settle().await;
    let before = world.calls();
    world.patch(&at("Step", "a"), json!({"spec": {"m": 2}})).await;
    world.settle().await;
    world.advance(Duration::from_secs(40 * 60));
    world.status("Step", "a", json!({"state": "Verified"})).await;
    world.until_state("g", "a", "Ready").await;
    world.settle().await;
    assert_eq!(
        world.calls().since(&before).count_of(RequestVerb::Apply),
        0,
        "a field of somebody else is no drift"
    );
    world.patch(&at("Step", "a"), json!({"spec": {"n": null}})).await;
    let is_back = async || world.get("Step", "a").await.unwrap()["spec"]["n"] == 1;
    // A resync before the patch is seen finds nothing to correct.
    world.settle().await;
    world.advance(Duration::from_secs(40 * 60));
    world.until("the field is back", is_back).await;
    assert_eq!(world.get("Step", "a").await.unwrap()["spec"]["m"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_made_by_one_graph_wakes_another_that_reads_it() {
    let world = World::new().await;
    let reads =
        json!({"id": "r", "ref": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": "a"}}});
    let after = step("b", json!({"n": "${r.spec.n}"}));
    world.graph("h", json!([reads, after])).await;
    world.until_state("h", "r", "Pending").await;
    world.graph("g", json!([step("a", json!({"n": 1}))])).await;
    world.until_exists("Step", "b").await;
    world.graph("g", json!([step("a", json!({"n": 2}))])).await;
    world.until("the change arrives", async || world.get("Step", "b").await.unwrap()["spec"]["n"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_object_is_made_again() {
    let world = World::new().await;
    world.graph("g", json!([step("a", json!({"n": 1}))])).await;
    world.until_exists("Step", "a").await;
    let uid = world.get("Step", "a").await.unwrap()["metadata"]["uid"].clone();
    world.delete(&at("Step", "a")).await;
    let holds = async || world.get("Step", "a").await.is_some_and(|made| made["metadata"]["uid"] != uid);
    world.until("it is made again", holds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_of_the_server_is_shown_and_tried_again() {
    let mut world = World::without_controller().await;
    let faults = FaultLayer::new(1);
    faults.add(FaultRule::new(Fault::ServerError(503)).path_contains("/steps/"));
    let troubled = Cluster::new(kube::Client::new(faults.layer(world.sandbox.service()), "default"));
    let patient = troubled.with_retry(slipway_cluster::RetryPolicy::never());
    world.start_with(patient, ControllerOptions::default());
    world
        .graph("g", json!([step("a", json!({"n": 1})), step("b", json!({"of": "${a.status.state}"}))]))
        .await;
    world.until_state("g", "a", "SystemError").await;
    world.until_state("g", "b", "Blocked").await;
    assert_eq!(world.condition("g", "Ready").await, ("False".into(), "SystemError".into()));
    // The time of the next try is set after the trouble was shown.
    world.settle().await;
    faults.clear();
    world.advance(Duration::from_secs(60));
    world.until_exists("Step", "a").await;
}
