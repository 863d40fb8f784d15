//! The conditions under which a step begins, is held, or ends early.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::{DeleteOptions, ObjectPatch, WriteOptions};
use slipway_promotion::Requeue;
use slipway_promotion::kinds::{
    BundleSpec, ConditionStatus, KindSpec, PolicyGateSpec, StepState, find_condition,
};

use super::world::{NAMESPACE, World, ended};
use crate::forge::PullState;

#[tokio::test(flavor = "multi_thread")]
async fn a_step_waits_for_upstreams_and_gates() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["upstreamStates"] = json!(["Verified", "HealthChecking"]);
    let step = world.step("late", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Pending, "UpstreamNotVerified"));

    let mut spec = world.spec("app-1", "staging");
    spec["requiredGates"] = json!(["soak"]);
    let step = world.step("gated", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Pending, "AwaitingGate"));
    world.gate("soak", false).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Pending, "AwaitingGate"));
    world.set_gate("soak", true).await;
    // A result that is too old counts as closed.
    world.clock.advance(Duration::from_secs(601));
    let waiting = world.settle(&step).await;
    assert_eq!(ended(&waiting), (StepState::Pending, "AwaitingGate"));
    let condition = find_condition(&waiting.status.conditions, "AwaitingGate").unwrap();
    assert_eq!(condition.status, ConditionStatus::True);
    world.set_gate("soak", true).await;
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    assert_eq!(world.forge.subjects("main").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_an_org_gate_does_not_begin() {
    let world = World::new().await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "no-weekends", "namespace": "platform",
                "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"}},
            "spec": {"expression": "true"}}))
        .await;
    world.bundle("app-1", "1.29.0").await;
    // A gate of the team's own that claims to be an instance of it.
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "forged", "namespace": NAMESPACE, "labels": {"kardinal.io/instance": "true"}},
            "spec": {"expression": "true", "templateRef": {"namespace": "platform", "name": "no-weekends"}}}))
        .await;
    world.set_gate("forged", true).await;
    let mut spec = world.spec("app-1", "prod");
    spec["requiredGates"] = json!(["forged"]);
    let step = world.step("by-hand", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Pending, "MissingOrgGate"));
    assert_eq!(world.forge.subjects("main"), ["first"]);
    // Other environments are not bound by it.
    let step = world.step("dev", world.spec("app-1", "dev")).await;
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_a_step_and_its_deadline() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let freeze = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "freeze-app", "namespace": NAMESPACE, "labels":
            {"kardinal.io/freeze": "true", "kardinal.io/pipeline": "app", "kardinal.io/scope": "team"}},
        "spec": {"expression": "false", "message": "release freeze", "appliesTo": ["*"]}});
    let resume = async || {
        let at = PolicyGateSpec::at(NAMESPACE, "freeze-app");
        world.cluster.delete(&at, &DeleteOptions::default()).await.unwrap();
    };
    world.create(freeze.clone()).await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    spec["waitForMergeTimeout"] = json!("1h");
    let step = world.step("app-1-prod", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Pending, "Paused"));
    assert!(world.forge.pulls().is_empty());
    resume().await;
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    let deadline = waiting.status.wait_for_merge_expiry.unwrap();

    world.create(freeze).await;
    let held = world.settle(&step).await;
    assert_eq!(find_condition(&held.status.conditions, "Held").unwrap().status, ConditionStatus::True);
    assert_eq!(world.forge.check("kardinal/gates").as_deref(), Some("failure"));
    world.clock.advance(Duration::from_secs(2 * 3_600));
    let held = world.settle(&step).await;
    assert_eq!(held.state(), StepState::WaitingForMerge, "a frozen deadline does not end the step");
    resume().await;
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    let moved = waiting.status.wait_for_merge_expiry.unwrap().duration_since(deadline);
    assert!(moved.as_secs() >= 2 * 3_600, "{moved}");
    assert_eq!(world.forge.check("kardinal/gates").as_deref(), Some("success"));
    world.clock.advance(Duration::from_secs(3 * 3_600));
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "MergeTimeout"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_step_closes_its_pull_request_and_names_the_newer_bundle() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    world.settle(&step).await;
    let superseded = json!({"phase": "Superseded", "supersededBy": "app-2"});
    world.patch_status(BundleSpec::at(NAMESPACE, "app-1"), superseded).await;
    let cancelled = world.settle(&step).await;
    assert_eq!(cancelled.state(), StepState::Cancelled);
    let pull = &world.forge.pulls()[0];
    assert_eq!(pull.state, PullState::Closed);
    assert!(pull.comments.iter().any(|(_, body)| body.contains("app-2")), "{:?}", pull.comments);
    assert_eq!(world.forge.branches(), ["main"]);
    assert!(cancelled.metadata.finalizers.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_step_closes_its_pull_request_before_it_goes() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    world.settle(&step).await;
    world.cluster.delete(&step, &DeleteOptions::default()).await.unwrap();
    assert!(world.find(&step).await.is_some(), "the finalizer holds it");
    assert_eq!(world.reconcile(&step).await, Requeue::Done);
    assert!(world.find(&step).await.is_none());
    assert_eq!(world.forge.pulls()[0].state, PullState::Closed);
    assert_eq!(world.forge.branches(), ["main"]);
    // A step whose Secret went first does not stay for ever.
    let mut spec = world.spec("app-1", "staging");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-staging", spec).await;
    world.settle(&step).await;
    let secret = slipway_manifest::ObjectRef::new(
        slipway_manifest::Gvk::new("", "v1", "Secret"),
        Some(NAMESPACE),
        "forge",
    );
    world.cluster.delete(&secret, &DeleteOptions::default()).await.unwrap();
    world.cluster.delete(&step, &DeleteOptions::default()).await.unwrap();
    world.reconcile(&step).await;
    assert!(world.find(&step).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_made_anew_finds_what_was_done() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut reviewed = world.spec("app-1", "prod");
    reviewed["approval"] = json!("pr-review");
    let direct = world.spec("app-1", "dev");
    let steps = [world.step("dev", direct.clone()).await, world.step("prod", reviewed.clone()).await];
    for step in &steps {
        world.settle(step).await;
        // The Graph is deleted by hand, and its steps with it.
        world.cluster.delete(step, &DeleteOptions::default()).await.unwrap();
        world.reconcile(step).await;
        assert!(world.find(step).await.is_none());
    }
    world.clock.advance(Duration::from_secs(60));
    let steps = [world.step("dev", direct).await, world.step("prod", reviewed).await];
    assert_eq!(world.settle(&steps[0]).await.state(), StepState::Verified);
    assert_eq!(world.settle(&steps[1]).await.state(), StepState::WaitingForMerge);
    assert_eq!(world.forge.subjects("main").len(), 2, "one commit");
    let pulls = world.forge.pulls();
    assert_eq!((pulls.len(), pulls[0].state), (1, PullState::Open), "one pull request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_bundle_is_gone_goes_too() {
    let world = World::new().await;
    let step = world.step("orphan", world.spec("nobody", "dev")).await;
    world.reconcile(&step).await;
    assert!(world.find(&step).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_steps_of_the_own_shard_are_carried_out() {
    let mut world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let labels = json!({"kardinal.io/pipeline": "app", "kardinal.io/shard": "eu"});
    let mut spec = world.spec("app-1", "dev");
    spec["shard"] = json!("eu");
    let mine = world.step_with("eu", labels, spec).await;
    assert_eq!(world.settle(&mine).await.status.state, None);
    world.options.promotion.shard = Some("eu".to_owned());
    world.restart();
    assert_eq!(world.settle(&mine).await.state(), StepState::Verified);
    let other = world.step("any", world.spec("app-1", "staging")).await;
    assert_eq!(world.settle(&other).await.status.state, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_environment_takes_one_step_at_a_time() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.bundle("app-2", "1.30.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let first = world.step("first", spec.clone()).await;
    world.settle(&first).await;
    spec["bundleRef"] = json!("app-2");
    let second = world.step("second", spec).await;
    assert_eq!(ended(&world.settle(&second).await), (StepState::Pending, "EnvironmentBusy"));
    world.forge.merge(2, "merge", "alice");
    world.reconciler().nudge(&first);
    assert_eq!(world.settle(&first).await.state(), StepState::Verified);
    assert_eq!(world.settle(&second).await.state(), StepState::WaitingForMerge);
    assert_eq!(world.forge.pulls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_somebody_else_has_written_counts() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    world.settle(&step).await;
    // A person annotates the step while it waits: that is no reason to give up.
    let note = ObjectPatch::Merge(json!({"metadata": {"annotations": {"note": "hello"}}}));
    world.cluster.patch(&step, &note, &WriteOptions::default(), None).await.unwrap();
    world.forge.merge(2, "merge", "alice");
    world.reconciler().nudge(&step);
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
}
