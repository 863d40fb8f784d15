//! What a controller does besides promoting: Events, drift, orphaned pull requests, and another controller beside it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use slipway_promotion::kinds::{BundlePhase, StepState};

use super::world::{NAMESPACE, POLICY, World};
use crate::forge::PullState;

const MINUTE: Duration = Duration::from_secs(60);

/// Each transition has one Event, whoever saw it and however often.
#[tokio::test(flavor = "multi_thread")]
async fn a_transition_has_one_event() {
    let mut world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    // Events are written in their own time; what a watch has not told by the end of a controller is not told later.
    world.until_told("PromotionStep", ("Normal", "WaitingForMerge", "app-1-prod")).await;
    world.stop().await;
    world.start();
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    world.bundle_with("app-2", "1.30.0", json!({}), json!({"intent": {"target": "nowhere"}})).await;
    world.until_phase("app-2", BundlePhase::Failed).await;
    for (kind, event) in [
        ("Pipeline", ("Warning", "UnknownTarget", "app")),
        ("Bundle", ("Warning", "UnknownTarget", "app-2")),
        ("Bundle", ("Normal", "PromotionStarted", "app-1")),
        ("Bundle", ("Normal", "PromotionSucceeded", "app-1")),
        ("PromotionStep", ("Normal", "PromotionStarted", "app-1-dev")),
        ("PromotionStep", ("Normal", "Verified", "app-1-dev")),
        ("PromotionStep", ("Normal", "WaitingForMerge", "app-1-prod")),
        ("PromotionStep", ("Normal", "Verified", "app-1-prod")),
    ] {
        world.until_told(kind, event).await;
    }
    world.settle().await;
    for kind in ["Bundle", "PromotionStep", "Pipeline"] {
        let events = world.events(kind).await;
        let distinct: BTreeSet<_> = events.iter().collect();
        assert_eq!(distinct.len(), events.len(), "{events:?}");
    }
    let passed =
        async || world.events("PolicyGate").await.iter().any(|(_, reason, _)| reason == "GatePassed");
    world.until("the gate is told of", passed).await;
}

/// A lease can be held by two for a moment: what both do is done once.
#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_at_once_do_everything_once() {
    let mut world = World::new(&["dev", "staging", "prod"]).await;
    let other = world.launch();
    world.gate(POLICY, "always", "prod", "true").await;
    world
        .pipeline(json!([{"name": "dev"}, {"name": "staging", "pr": true}, {"name": "prod", "approval": "pr-review"}]))
        .await;
    for (bundle, version) in [("app-1", "1.29.0"), ("app-2", "1.30.0")] {
        world.bundle(bundle, version).await;
        let waits = async || {
            other.controller.clock_moved();
            world.settle_one(&other.controller).await;
            world.state(bundle, "prod").await == Some(StepState::WaitingForMerge)
        };
        world.pass(30 * MINUTE, "production waits for its merge", waits).await;
        world.merge(bundle, "prod").await;
        let verified = async || {
            other.controller.clock_moved();
            world.settle_one(&other.controller).await;
            world.read_bundle(bundle).await.phase() == BundlePhase::Verified
        };
        world.pass(30 * MINUTE, "the bundle is verified", verified).await;
    }
    other.stop().await;
    let heads: Vec<String> = world.forge.pulls().iter().map(|pull| pull.head.clone()).collect();
    let distinct: BTreeSet<&String> = heads.iter().collect();
    assert_eq!((heads.len(), distinct.len()), (4, 4), "{heads:?}");
    assert!(world.forge.pulls().iter().all(|pull| pull.state == PullState::Merged));
    let promoted = |environment: &str, version: &str| {
        let subject = format!("[kardinal] Promote app {version} to {environment}");
        world.forge.subjects("main").into_iter().filter(|known| *known == subject).count()
    };
    for version in ["1.29.0", "1.30.0"] {
        for environment in ["dev", "staging", "prod"] {
            assert_eq!(promoted(environment, version), 1, "{version} in {environment}");
        }
    }
    assert_eq!(world.forge.violations(), Vec::<String>::new());
    let events = world.events("PromotionStep").await;
    assert_eq!(events.iter().collect::<BTreeSet<_>>().len(), events.len(), "{events:?}");
}

/// A merge that happened while nobody listened is seen at the start, before any poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_looks_at_open_pull_requests_at_once() {
    let mut world = World::new(&["prod"]).await;
    world.pipeline(json!([{"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let number = world.step("app-1", "prod").await.expect("exists").status.pr_number.expect("has one");
    world.stop().await;
    world.forge.merge(number, "merge", "alice");
    world.start();
    world.until_phase("app-1", BundlePhase::Verified).await;
}

/// A pull request nobody is behind any more is closed, with the reason; one of another installation is not touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_whose_step_is_gone_is_closed() {
    let mut world = World::new(&["prod"]).await;
    world.pipeline(json!([{"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.stop().await;
    // Everything goes at once, by hand.
    for at in [
        world.step("app-1", "prod").await.expect("exists").reference(),
        World::graph_at("app-1"),
        world.read_bundle("app-1").await.reference(),
    ] {
        world.patch(&at, json!({"metadata": {"finalizers": []}})).await;
        world.delete(&at).await;
        world.patch_if_there(&at, json!({"metadata": {"finalizers": []}})).await;
    }
    let theirs = world.forge.foreign_pull("kardinal/app");
    assert_eq!(world.forge.pulls()[0].state, PullState::Open);
    world.start();
    let closed = async || {
        world.settle().await;
        world.forge.pulls()[0].state == PullState::Closed
    };
    world.pass(MINUTE, "the pull request is closed", closed).await;
    assert!(world.forge.branches().iter().all(|branch| !branch.starts_with("kardinal/app/prod")));
    let pulls = world.forge.pulls();
    assert_eq!(pulls.iter().find(|pull| pull.number == theirs).expect("is there").state, PullState::Open);
}

/// An edit by hand is told in the pipeline's status and closes a gate that asks for it, until it is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_by_hand_is_drift() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(NAMESPACE, "no-drift", "prod", "!targetDrift.unreconciled").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let path = "environments/prod/kustomization.yaml";
    let text = format!("{}\n", world.forge.file("main", path).expect("is there"));
    world.pass_time(6 * MINUTE).await;
    let drift = async || {
        let status = world.read_pipeline().await.status;
        status.environments.into_iter().find(|known| known.name == "prod").expect("is listed")
    };
    assert!(!drift().await.drift);
    world.forge.person("main", "By hand", &[(path, &text.replace("1.29.0", "1.29.1"))]);
    world.pass(6 * MINUTE, "drift is found", async || drift().await.drift).await;
    assert!(drift().await.drift_details[0].contains(path), "{:?}", drift().await);
    let told = async || world.events("Pipeline").await.iter().any(|(_, reason, _)| reason == "DriftFound");
    world.until("the drift is told", told).await;
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "dev", StepState::Verified).await;
    world.pass_time(2 * MINUTE).await;
    assert!(world.step("app-2", "prod").await.is_none(), "the gate holds production");
    world.forge.person("main", "As it was", &[(path, &text)]);
    let verified = async || world.read_bundle("app-2").await.phase() == BundlePhase::Verified;
    world.pass(15 * MINUTE, "production goes on", verified).await;
    assert!(!drift().await.drift || world.read_bundle("app-2").await.phase() == BundlePhase::Verified);
}

/// A gate made while a bundle is on its way is for the next one; the gates of a bundle are no templates for another.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_came_later_binds_the_next_bundle() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "first", "prod", "true").await;
    world.pipeline(json!([{"name": "dev", "approval": "pr-review"}, {"name": "prod"}])).await;
    world.advance(Duration::from_secs(5));
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::WaitingForMerge).await;
    world.advance(Duration::from_secs(5));
    world.gate(POLICY, "second", "prod", "true").await;
    world.gate(NAMESPACE, "third", "prod", "true").await;
    world.merge("app-1", "dev").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let gates =
        async |bundle: &str| world.step(bundle, "prod").await.expect("exists").spec.required_gates.len();
    assert_eq!(gates("app-1").await, 1);
    for (bundle, version) in [("app-2", "1.30.0"), ("app-3", "1.31.0"), ("app-4", "1.32.0")] {
        world.advance(Duration::from_secs(5));
        world.bundle(bundle, version).await;
        world.until_state(bundle, "dev", StepState::WaitingForMerge).await;
        world.merge(bundle, "dev").await;
        world.until_phase(bundle, BundlePhase::Verified).await;
        assert_eq!(gates(bundle).await, 3, "{bundle}");
    }
}

/// A pause lets what was merged settle, opens nothing and calls nobody; it holds environments without gates too.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_what_is_in_flight() {
    let world = World::new(&["staging", "prod"]).await;
    world
        .pipeline(
            json!([{"name": "staging", "approval": "pr-review"}, {"name": "prod", "approval": "pr-review"}]),
        )
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "staging", StepState::WaitingForMerge).await;
    let freeze = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "freeze-app", "namespace": NAMESPACE, "labels": {"kardinal.io/freeze": "true",
            "kardinal.io/scope": "team", "kardinal.io/type": "gate", "kardinal.io/pipeline": "app"}},
        "spec": {"expression": "false", "message": "release freeze", "recheckInterval": "30s", "appliesTo": ["*"]}});
    let at = slipway_manifest::ObjectRef::of(&freeze);
    world.create(freeze).await;
    world.settle().await;
    world.merge("app-1", "staging").await;
    world.until_state("app-1", "staging", StepState::Verified).await;
    world.pass_time(5 * MINUTE).await;
    assert_eq!(world.forge.pulls().len(), 1, "nothing is opened while the pipeline is paused");
    let prod = world.step("app-1", "prod").await.map(|step| (step.state(), step.status.reason));
    assert!(matches!(prod, None | Some((StepState::Pending, _))), "{prod:?}");
    world.delete(&at).await;
    let waits = async || world.state("app-1", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(5 * MINUTE, "production goes on", waits).await;
}
