//! Bundles that follow each other, and what becomes of the older ones.

use std::time::Duration;

use serde_json::json;
use slipway_promotion::kinds::{BundlePhase, BundleSpec, KindSpec, PipelineSpec, StepState, find_condition};

use super::world::{NAMESPACE, POLICY, World};
use crate::forge::PullState;

const MINUTE: Duration = Duration::from_secs(60);

/// C01: a newer bundle takes over from one that waits for its merge.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_bundle_supersedes_one_that_waits() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "always", "prod", "true").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.advance(Duration::from_secs(2));
    world.bundle("app-2", "1.30.0").await;
    let gone = async || world.graph("app-1").await.is_none() && world.step("app-1", "prod").await.is_none();
    world.pass(10 * MINUTE, "the older one is cleaned up", gone).await;
    let waits = async || world.state("app-2", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(10 * MINUTE, "the newer one has its pull request", waits).await;
    let older = world.read_bundle("app-1").await;
    assert_eq!(
        (older.phase(), older.status.superseded_by.as_deref()),
        (BundlePhase::Superseded, Some("app-2"))
    );
    assert!(older.status.environments["dev"].evidence.is_some(), "what happened stays on record");
    let pulls = world.forge.pulls();
    let states: Vec<PullState> = pulls.iter().map(|pull| pull.state).collect();
    assert_eq!(states, [PullState::Closed, PullState::Open]);
    assert!(pulls[0].comments.iter().any(|(_, text)| text.contains("app-2")), "{:?}", pulls[0].comments);
    assert!(!world.forge.branches().contains(&pulls[0].head));
    let cleaned = async || {
        let bundle = world.read_bundle("app-1").await;
        find_condition(&bundle.status.conditions, "CleanupPending").is_some_and(|one| one.reason == "Removed")
    };
    world.pass(MINUTE, "nothing is left of it", cleaned).await;
    assert!(world.gates(POLICY).await.iter().all(|gate| gate.spec.bundle_ref.as_deref() == Some("app-2")));
}

/// C02: a pinned bundle goes on; the environment takes one at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_bundle_is_not_superseded() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world
        .patch(
            &BundleSpec::at(NAMESPACE, "app-1"),
            json!({"metadata": {"annotations": {"kardinal.io/pin": "true"}}}),
        )
        .await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.advance(Duration::from_secs(2));
    world.bundle("app-2", "1.30.0").await;
    let waits = async || world.state("app-2", "prod").await == Some(StepState::Pending);
    world.pass(5 * MINUTE, "the newer one waits for the environment", waits).await;
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
    world.merge("app-1", "prod").await;
    let next = async || world.state("app-2", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(5 * MINUTE, "its turn comes", next).await;
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Verified);
}

/// C03: a bundle that goes less far leaves the older one alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_with_a_narrower_target_supersedes_nothing() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.advance(Duration::from_secs(2));
    world.bundle_with("app-2", "1.30.0", json!({}), json!({"intent": {"target": "dev"}})).await;
    world.until_phase("app-2", BundlePhase::Verified).await;
    world.settle().await;
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::WaitingForMerge));
}

/// C03: configuration and versions do not take over from each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_of_configuration_supersedes_no_version() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.advance(Duration::from_secs(2));
    world.forge.person("config", "First", &[("config/limits.yaml", "cpu: 1\n")]);
    let sha = world.forge.person("config", "More", &[("config/more.yaml", "memory: 1\n")]);
    world.config_bundle("conf-1", &sha, json!([])).await;
    world.until_state("conf-1", "dev", StepState::Verified).await;
    world.pass_time(5 * MINUTE).await;
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
    assert_eq!(world.forge.pulls()[0].state, PullState::Open);
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let next = async || world.state("conf-1", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(5 * MINUTE, "its turn comes", next).await;
    world.merge("conf-1", "prod").await;
    world.until_phase("conf-1", BundlePhase::Verified).await;
}

/// C08: history has a limit; what runs and what could be rolled back to stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_bundles_go_beyond_the_limit() {
    let world = World::new(&["dev"]).await;
    world.pipeline_with(json!([{"name": "dev"}]), json!({"historyLimit": 3})).await;
    for number in 1..=6 {
        let name = format!("app-{number}");
        world.bundle(&name, &format!("1.{number}.0")).await;
        world.until_phase(&name, BundlePhase::Verified).await;
        world.advance(Duration::from_secs(2));
    }
    let left = async || {
        let mut left = Vec::new();
        for number in 1..=6 {
            if world.has_bundle(&format!("app-{number}")).await {
                left.push(number);
            }
        }
        left
    };
    world.pass(MINUTE, "three are left", async || left().await == [4, 5, 6]).await;
    let gone = async || world.graph("app-1").await.is_none();
    world.pass(MINUTE, "Graphs go with their bundles", gone).await;
}

/// D11: a Graph somebody deletes is made again; nothing outside happens twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_graph_deleted_by_hand_is_made_again() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "always", "prod", "true").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let first = world.graph("app-1").await.unwrap()["metadata"]["uid"].clone();
    world.delete(&World::graph_at("app-1")).await;
    let again = async || {
        let graph = world.graph("app-1").await;
        graph.is_some_and(|graph| graph["metadata"]["uid"] != first)
            && world.state("app-1", "prod").await == Some(StepState::WaitingForMerge)
    };
    world.pass(10 * MINUTE, "the Graph is there again", again).await;
    assert_eq!(world.forge.promotion_commits(), 2, "one an environment");
    let open = world.forge.pulls().iter().filter(|pull| pull.state == PullState::Open).count();
    assert_eq!(open, 1);
}

/// A bundle that has failed stays so when somebody deletes its Graph: its steps are gone, which is no new beginning.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_bundle_whose_graph_is_deleted_is_not_promoted_again() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let step = world.step("app-1", "prod").await.expect("the step exists");
    world.forge.close(step.status.pr_number.expect("has a pull request"));
    world.controller().nudge_step(NAMESPACE, step.name());
    world.until_phase("app-1", BundlePhase::Failed).await;
    world.settle().await;
    world.delete(&World::graph_at("app-1")).await;
    let gone = async || world.graph("app-1").await.is_none() && world.step("app-1", "prod").await.is_none();
    world.pass(10 * MINUTE, "the Graph is gone", gone).await;
    world.pass_time(10 * MINUTE).await;
    let bundle = world.read_bundle("app-1").await;
    assert_eq!(bundle.phase(), BundlePhase::Failed, "{:?}", bundle.status);
    assert_eq!((world.graph("app-1").await, world.forge.pulls().len()), (None, 1));
}

/// D12: an edit of the pipeline is for the next bundle.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_pipeline_leaves_running_bundles_alone() {
    let world = World::new(&["dev", "prod", "dr"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let none = json!({"type": "none"});
    let environments = json!([{"name": "dev", "health": none}, {"name": "prod", "health": none}, {"name": "dr", "health": none}]);
    world.patch(&PipelineSpec::at(NAMESPACE, "app"), json!({"spec": {"environments": environments}})).await;
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert!(world.step("app-1", "dr").await.is_none());
    world.advance(Duration::from_secs(2));
    world.bundle("app-2", "1.30.0").await;
    world.until_phase("app-2", BundlePhase::Verified).await;
    assert!(world.step("app-2", "dr").await.is_some());
}

/// C10: a bundle deleted on its way closes its pull request before its objects go.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_bundle_closes_its_pull_request() {
    let world = World::new(&["prod"]).await;
    world.gate(POLICY, "always", "prod", "true").await;
    world.pipeline(json!([{"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.delete(&BundleSpec::at(NAMESPACE, "app-1")).await;
    let gone = async || {
        !world.has_bundle("app-1").await
            && world.graph("app-1").await.is_none()
            && world.step("app-1", "prod").await.is_none()
            && world.gates(POLICY).await.is_empty()
    };
    world.pass(10 * MINUTE, "everything goes", gone).await;
    assert_eq!(world.forge.pulls()[0].state, PullState::Closed);
}

/// C10: a namespace that is deleted with promotions in it goes, and the gate instances of the organisation with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_deleted_with_what_is_in_flight() {
    let world = World::new(&["prod"]).await;
    world.namespace("shop").await;
    world.gate(POLICY, "always", "prod", "true").await;
    let metadata = json!({"name": "app", "namespace": "shop"});
    world.pipeline_at(metadata, json!([{"name": "prod", "approval": "pr-review"}]), json!({})).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": "app-1", "namespace": "shop", "labels": {"kardinal.io/pipeline": "app"}},
            "spec": {"artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:1.29.0"}]}}}))
        .await;
    world.until("the pull request is open", async || world.forge.pulls().len() == 1).await;
    world.settle().await;
    let at =
        slipway_manifest::ObjectRef::new(slipway_manifest::Gvk::new("", "v1", "Namespace"), None, "shop");
    world.delete(&at).await;
    let gone = async || world.cluster.get(&at).await.expect("is read").is_none();
    world.pass(10 * MINUTE, "the namespace is gone", gone).await;
    let cleaned = async || world.gates(POLICY).await.is_empty();
    world.pass(10 * MINUTE, "the gates of the org's namespace go too", cleaned).await;
}

/// C04: a version that fails after its merge is taken back by a bundle of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_version_is_taken_back() {
    let world = World::new(&["prod"]).await;
    let deployment = |image: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "app"}}, "template": {
                "metadata": {"labels": {"app": "app"}}, "spec": {"containers": [{"name": "app", "image": image}]}}}})
    };
    let at = slipway_manifest::ObjectRef::of(&deployment(""));
    world.create(deployment("ghcr.io/acme/app:1.28.0")).await;
    // Stands for whoever syncs the repository: the image, and how it went.
    let sync = async |image: &str, available: &str| {
        let containers = json!([{"name": "app", "image": image}]);
        world.patch(&at, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
        let live = world.cluster.get(&at).await.unwrap().unwrap();
        let replicas = if available == "True" { 1 } else { 0 };
        let status = json!({"status": {"observedGeneration": live["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": replicas, "availableReplicas": replicas, "unavailableReplicas": 1 - replicas,
            "conditions": [{"type": "Available", "status": available, "reason": "Test"}]}});
        let patch = slipway_cluster::ObjectPatch::Merge(status);
        world
            .cluster
            .patch(&at, &patch, &slipway_cluster::WriteOptions::default(), Some("status"))
            .await
            .unwrap();
    };
    let health =
        json!({"type": "resource", "timeout": "5m", "resource": {"name": "app", "namespace": "default"}});
    world.pipeline(json!([{"name": "prod", "health": health}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    sync("ghcr.io/acme/app:1.29.0", "True").await;
    let verified = async |bundle: &str| world.read_bundle(bundle).await.phase() == BundlePhase::Verified;
    world.pass(5 * MINUTE, "the first one is verified", async || verified("app-1").await).await;

    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::HealthChecking).await;
    sync("ghcr.io/acme/app:1.30.0", "False").await;
    let failed = async || {
        world
            .read_bundle("app-2")
            .await
            .status
            .environments
            .get("prod")
            .is_some_and(|record| record.rolled_back_by.is_some())
    };
    world.pass(20 * MINUTE, "the second one fails and is taken back", failed).await;
    let failed_at = world.read_bundle("app-2").await.status.environments["prod"].failed_at.unwrap();
    assert!(world.now().duration_since(failed_at).as_secs() < 5, "at once");
    world.until_phase("app-2", BundlePhase::Failed).await;
    let second = world.read_bundle("app-2").await;
    let rollback = second.status.environments["prod"].rolled_back_by.clone().unwrap();
    assert_eq!(world.read_bundle(&rollback).await.spec.version(), "1.29.0");
    world.until_state(&rollback, "prod", StepState::HealthChecking).await;
    sync("ghcr.io/acme/app:1.29.0", "True").await;
    world.pass(10 * MINUTE, "production runs the version before", async || verified(&rollback).await).await;
    // C07: the version does not come back by itself.
    world.bundle("app-3", "1.30.0").await;
    let held = async || {
        let bundle = world.read_bundle("app-3").await;
        find_condition(&bundle.status.conditions, "Ready")
            .is_some_and(|one| one.reason == "HeldAfterRollback")
    };
    world.pass(MINUTE, "the version that was taken back is held", held).await;
}

/// C04: an environment is taken back at once, also when the version goes on elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_taken_back_while_the_rest_goes_on() {
    let world = World::new(&["dev", "us", "eu"]).await;
    let unchecked = json!({"type": "none"});
    let environments = |health: serde_json::Value, approval: &str| {
        json!([{"name": "dev", "health": unchecked}, {"name": "us", "dependsOn": ["dev"], "health": health},
            {"name": "eu", "dependsOn": ["dev"], "approval": approval, "health": unchecked}])
    };
    world.pipeline(environments(unchecked.clone(), "auto")).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let absent =
        json!({"type": "resource", "timeout": "5m", "resource": {"name": "absent", "namespace": "default"}});
    world.pipeline_edit(environments(absent, "pr-review")).await;
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "eu", StepState::WaitingForMerge).await;
    let has = |environment: &str, version: &str| {
        let file = world.forge.file("main", &format!("environments/{environment}/kustomization.yaml"));
        file.is_some_and(|text| text.contains(version))
    };
    let restored = async || {
        let record = world.read_bundle("app-2").await.status.environments["us"].clone();
        record.rolled_back_by.is_some() && has("us", "1.29.0")
    };
    world.pass(20 * MINUTE, "what failed is taken back", restored).await;
    assert_eq!(world.read_bundle("app-2").await.phase(), BundlePhase::Promoting);
    assert_eq!(world.state("app-2", "eu").await, Some(StepState::WaitingForMerge));
    assert!(has("dev", "1.30.0"));
    // The rest is taken back once nothing goes on any more.
    world.merge("app-2", "eu").await;
    world.until_phase("app-2", BundlePhase::Failed).await;
    let all_restored = async || has("dev", "1.29.0");
    world.pass(20 * MINUTE, "the rest is taken back", all_restored).await;
}
