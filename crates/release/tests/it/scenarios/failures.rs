//! What happens when something goes wrong.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::Cluster;
use slipway_cluster::helm::{Driver, Status, Storage};
use slipway_release::{Failure, apply};
use slipway_sandbox::{Fault, FaultLayer, Rule};
use tokio_util::sync::CancellationToken;
use tower::Layer;

use super::{World, annotated, config_map, deployment, job};

/// An image the sandbox cannot pull.
const BAD_IMAGE: &str = "sandbox.invalid/missing:404";

/// Something that never becomes ready: it waits for what never comes.
fn never(name: &str) -> serde_json::Value {
    annotated(config_map(name, "1"), json!({"x.external-dependency.werf.io/resource": "secrets/never"}))
}

fn failing() -> World {
    let mut world = World::new();
    world.apply.presence_timeout = Some(Duration::from_millis(50));
    world
}

/// Scenario 24: what a failed revision did not delete the next one does.
#[tokio::test]
async fn s24_failed_revisions_do_not_leak() {
    let world = failing();
    world.deployed(&[config_map("a", "1"), config_map("x", "1")]).await;
    world.apply(&[config_map("a", "1"), never("b")]).await.expect_err("fails");
    assert!(world.get("ConfigMap", "x").await.is_some());
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "x").await.is_none());
    assert_eq!(world.statuses().await, [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)]);
}

/// Scenario 29: a failure is recorded, and the last good revision stays the deployed one.
#[tokio::test]
async fn s29_failures_are_recorded() {
    let world = failing();
    world.deployed(&[config_map("a", "1")]).await;
    let failure = world.apply(&[config_map("a", "2"), never("b")]).await.expect_err("fails");
    let report = failure.report().expect("it ran");
    assert_eq!(report.status, "failed");
    assert_eq!(report.canceled_operations, ["create: ConfigMap/b"]);
    assert_eq!(world.statuses().await, [(1, Status::Deployed), (2, Status::Failed)]);
    let history = world.history().await;
    assert!(
        history.releases[1].info.description.contains("never"),
        "{}",
        history.releases[1].info.description
    );
}

/// Scenario 30: rolling back by itself.
#[tokio::test]
async fn s30_auto_rollback() {
    let mut world = failing();
    world.apply.auto_rollback = true;
    world.deployed(&[config_map("a", "1")]).await;
    let early = annotated(config_map("extra", "1"), json!({"werf.io/weight": "-1"}));
    let failure = world.apply(&[config_map("a", "2"), early, never("b")]).await.expect_err("fails");
    assert!(failure.report().and_then(|report| report.rollback.as_ref()).is_some(), "{failure}");
    let expected = [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)];
    assert_eq!(world.statuses().await, expected);
    assert_eq!(super::text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
    assert!(world.get("ConfigMap", "extra").await.is_none());
}

/// Scenarios 31 and 32: stopping and timing out leave nothing pending, and the lock free.
#[tokio::test]
async fn s31_s32_stopped_runs_are_recorded() {
    let mut world = World::new();
    let cancel = CancellationToken::new();
    let (objects, token) = ([config_map("a", "1"), never("b")], cancel.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel();
    });
    let request = world.request(&objects);
    let failure = apply(&world.cluster, &request, &world.apply, &world.events, cancel).await;
    assert!(matches!(failure, Err(Failure::Cancelled { .. })), "{failure:?}");
    assert_eq!(world.statuses().await, [(1, Status::Failed)]);
    world.apply.timeout = Some(Duration::from_millis(200));
    let failure = world.apply(&objects).await.expect_err("takes too long").to_string();
    assert!(failure.contains("timeout"), "{failure}");
    assert_eq!(world.statuses().await, [(1, Status::Failed), (2, Status::Failed)]);
}

/// Scenario 31, second half: a revision a killed run left pending is taken over.
#[tokio::test]
async fn s31_abandoned_revisions_are_taken_over() {
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let storage = Storage::new(world.cluster.clone(), Driver::Secret, "t1");
    let mut abandoned = world.history().await.releases[0].clone();
    abandoned.version = 2;
    abandoned.info.status = Status::PendingUpgrade;
    storage.create(&abandoned).await.expect("stores");
    world.deployed(&[config_map("a", "2")]).await;
    let expected = [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)];
    assert_eq!(world.statuses().await, expected);
    assert!(world.history().await.releases[1].info.description.contains("taken over by revision 3"));
}

/// Scenario 35: two runs of one release follow each other.
#[tokio::test]
async fn s35_runs_of_one_release_follow_each_other() {
    let world = World::new();
    world.deployed(&[config_map("a", "0")]).await;
    let one = [config_map("a", "1")];
    let two = [config_map("a", "2")];
    let (first, second) = tokio::join!(world.apply(&one), world.apply(&two));
    let mut revisions = [first.expect("runs").revision, second.expect("runs").revision];
    revisions.sort_unstable();
    assert_eq!(revisions, [2, 3]);
}

/// Scenario 16: a hook that fails fails the release, and goes if it asked for that.
#[tokio::test]
async fn s16_failed_hooks() {
    let world = World::new();
    let plan = world.plan(&[bad_hook("hook-failed")]).await.expect("plans");
    assert!(plan.items[0].visits[0].follow.delete_on_failure);
    let plan = world.plan(&[bad_hook("before-hook-creation")]).await.expect("plans");
    assert!(!plan.items[0].visits[0].follow.delete_on_failure);
}

fn bad_hook(policy: &str) -> serde_json::Value {
    let note = json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy});
    annotated(job("bad", BAD_IMAGE), note)
}

/// With one request in twenty refused or lost every install succeeds.
#[tokio::test]
async fn installs_bear_faults() {
    for seed in 0..6 {
        let world = World::new();
        let faults = FaultLayer::new(seed);
        for fault in [
            Fault::TooManyRequests { retry_after: 0 },
            Fault::ServerError(500),
            Fault::ServerError(503),
            Fault::Reset,
        ] {
            faults.add(Rule::new(fault).probability(0.0125));
        }
        let client = kube::Client::new(faults.layer(world.sandbox.service()), "default");
        let world = World { cluster: Cluster::new(client), ..world };
        let objects = [config_map("a", "1"), config_map("b", "1"), deployment("web", "nginx")];
        let report = world.apply(&objects).await.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(report.status, "deployed");
    }
}

/// Scenario 34: who may not watch or read pods and events can still deploy.
#[tokio::test]
async fn s34_watching_may_be_forbidden() {
    let world = World::new();
    let faults = FaultLayer::new(1);
    for part in ["/pods", "/events", "watch=", "/replicasets"] {
        faults.add(Rule::new(Fault::ServerError(403)).path_contains(part));
    }
    let client = kube::Client::new(faults.layer(world.sandbox.service()), "default");
    let world = World { cluster: Cluster::new(client), ..world };
    let report =
        world.apply(&[deployment("web", "nginx")]).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.status, "deployed");
}

/// Scenario 33: watches that break do not break a deploy.
#[tokio::test]
async fn s33_watches_may_break() {
    let world = World::new();
    let faults = FaultLayer::new(1);
    faults.add(Rule::new(Fault::DropWatch { after: 1 }));
    let client = kube::Client::new(faults.layer(world.sandbox.service()), "default");
    let world = World { cluster: Cluster::new(client), ..world };
    let report =
        world.apply(&[deployment("web", "nginx")]).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.status, "deployed");
}
