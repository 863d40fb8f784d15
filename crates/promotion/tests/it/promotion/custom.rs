//! Steps of one's own in whole promotions.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_promotion::kinds::{BundlePhase, StepState};

use super::world::{NAMESPACE, World};
use crate::steps::webhooks_out::Stub;

const MINUTE: Duration = Duration::from_secs(60);

fn steps_with(custom: Value) -> Value {
    json!([{"uses": "git-clone"}, {"uses": "kustomize-set-image"}, custom,
        {"uses": "git-commit"}, {"uses": "git-push"}, {"uses": "health-check"}])
}

/// Trouble is tried again after half a minute; the next environment begins when it is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_custom_step_in_trouble_is_asked_three_times() {
    let world = World::new(&["dev", "prod"]).await;
    let secret = data_encoding::BASE64.encode(b"k3y-of-hook");
    world
        .create(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook", "namespace": NAMESPACE},
            "data": {"hmacKey": secret}}),
        )
        .await;
    let stub = Stub::start(vec![(500, ""), (503, ""), (200, r#"{"success": true}"#)]).await;
    let own =
        json!({"uses": "run-tests", "config": {"url": stub.address, "timeout": "5s", "secretRef": "hook"}});
    world.pipeline(json!([{"name": "dev", "steps": steps_with(own)}, {"name": "prod"}])).await;
    let began = world.now();
    world.bundle("app-1", "1.29.0").await;
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(5 * MINUTE, "the bundle is verified", verified).await;
    let calls = stub.calls();
    assert_eq!(calls.len(), 3);
    let uid = world.step("app-1", "dev").await.expect("exists").metadata.uid;
    assert!(calls.iter().all(|call| call.delivery.starts_with(&format!("{uid}/2/"))));
    assert!(calls.iter().all(|call| !call.body.to_string().contains("k3y-of-hook")));
    let waited = world.step("app-1", "dev").await.expect("exists").status.verified_at.expect("has a time");
    assert!((60..=120).contains(&waited.duration_since(began).as_secs()), "{waited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_step_that_says_no_ends_the_bundle() {
    let world = World::new(&["dev", "prod"]).await;
    let stub = Stub::start(vec![(200, r#"{"success": false, "message": "2 of 9 tests failed"}"#)]).await;
    let own = json!({"uses": "run-tests", "config": {"url": stub.address}});
    world.pipeline(json!([{"name": "dev", "steps": steps_with(own)}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_phase("app-1", BundlePhase::Failed).await;
    let dev = world.step("app-1", "dev").await.expect("exists");
    assert_eq!(dev.status.reason.as_deref(), Some("CustomStepFailed"));
    assert_eq!((world.forge.promotion_commits(), world.step("app-1", "prod").await.is_some()), (0, false));
    assert_eq!(stub.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_after_the_merge_runs_before_the_next_environment() {
    let world = World::new(&["staging", "prod"]).await;
    let stub = Stub::start(vec![
        (200, r#"{"status": "pending", "retryAfterSeconds": 20}"#),
        (200, r#"{"success": true}"#),
    ])
    .await;
    let steps = json!([{"uses": "git-clone"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"},
        {"uses": "git-push"}, {"uses": "open-pr", "config": {"reviewers": ["alice"], "teamReviewers": ["platform"]}},
        {"uses": "wait-for-merge"}, {"uses": "announce", "config": {"url": stub.address}}, {"uses": "health-check"}]);
    world
        .pipeline(json!([{"name": "staging", "approval": "pr-review", "steps": steps}, {"name": "prod"}]))
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "staging", StepState::WaitingForMerge).await;
    assert!(stub.calls().is_empty());
    assert_eq!(world.forge.pulls()[0].asked, ["alice", "platform"]);
    world.merge("app-1", "staging").await;
    world.until("the step is asked", async || stub.calls().len() == 1).await;
    assert!(world.step("app-1", "prod").await.is_none());
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(2 * MINUTE, "the bundle is verified", verified).await;
    let merged = world.step("app-1", "staging").await.expect("exists").status.merge_sha.expect("is merged");
    assert_eq!(stub.calls().last().expect("was asked").body["outputs_so_far"]["mergeSHA"], merged);
}
