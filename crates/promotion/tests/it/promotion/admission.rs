//! Bundles that may not start, or not yet.

use std::time::Duration;

use serde_json::json;
use slipway_promotion::kinds::{
    BundlePhase, BundleSpec, ConditionStatus, KindSpec, PipelineSpec, StepState, find_condition,
};

use super::world::{NAMESPACE, POLICY, World};

const MINUTE: Duration = Duration::from_secs(60);

async fn condition(world: &World, bundle: &str, kind: &str) -> Option<(ConditionStatus, String)> {
    let bundle = world.read_bundle(bundle).await;
    find_condition(&bundle.status.conditions, kind).map(|found| (found.status, found.reason.clone()))
}

/// A05: a target ends the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_ends_the_way() {
    let world = World::new(&["dev", "staging", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod"}])).await;
    world.bundle_with("app-1", "1.29.0", json!({}), json!({"intent": {"target": "staging"}})).await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let bundle = world.read_bundle("app-1").await;
    assert_eq!(bundle.status.environments.keys().collect::<Vec<_>>(), ["dev", "staging"]);
    assert!(world.step("app-1", "prod").await.is_none());
}

/// A06: what cannot be promoted fails with its reason, has no Graph, and is looked at again when the pipeline changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_cannot_be_promoted_fails_until_its_pipeline_changes() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}])).await;
    world.bundle_with("app-1", "1.29.0", json!({}), json!({"intent": {"target": "prod"}})).await;
    world.until_phase("app-1", BundlePhase::Failed).await;
    assert_eq!(
        condition(&world, "app-1", "InvalidSpec").await,
        Some((ConditionStatus::True, "UnknownTarget".to_owned()))
    );
    assert!(world.graph("app-1").await.is_none());
    let environments =
        json!([{"name": "dev", "health": {"type": "none"}}, {"name": "prod", "health": {"type": "none"}}]);
    world.patch(&PipelineSpec::at(NAMESPACE, "app"), json!({"spec": {"environments": environments}})).await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert_eq!(
        condition(&world, "app-1", "InvalidSpec").await,
        Some((ConditionStatus::False, "Valid".to_owned()))
    );
}

/// A06: each way to be wrong has its reason, and no Graph.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_that_leads_nowhere_fails_its_bundles_with_the_reason() {
    let two = json!([{"name": "dev"}, {"name": "prod"}]);
    let circle = json!([{"name": "dev", "dependsOn": ["prod"]}, {"name": "prod", "dependsOn": ["dev"]}]);
    for (environments, intent, reason) in [
        (circle, json!({}), "CircularDependency"),
        (two.clone(), json!({"skip": ["dev", "prod"]}), "AllEnvironmentsSkipped"),
        (two, json!({"target": "nowhere"}), "UnknownTarget"),
    ] {
        let world = World::new(&["dev", "prod"]).await;
        world.pipeline(environments).await;
        world.bundle_with("app-1", "1.29.0", json!({}), json!({"intent": intent})).await;
        world.until_phase("app-1", BundlePhase::Failed).await;
        let told = condition(&world, "app-1", "InvalidSpec").await;
        assert_eq!(told, Some((ConditionStatus::True, reason.to_owned())));
        world.settle().await;
        assert!(world.graph("app-1").await.is_none(), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_tells_all_its_problems() {
    let world = World::new(&["a"]).await;
    world
        .pipeline(json!([
            {"name": "a", "dependsOn": ["b"]}, {"name": "b", "dependsOn": ["a"], "steps": [{"uses": "make-coffee"}]},
        ]))
        .await;
    let told = async || world.read_pipeline().await.status.conditions.iter().any(|one| one.kind == "Ready");
    world.until("the pipeline is checked", told).await;
    let status = world.read_pipeline().await.status;
    let ready = find_condition(&status.conditions, "Ready").unwrap();
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "CircularDependency"));
    assert!(
        ready.message.contains("a → b → a") && ready.message.contains("make-coffee"),
        "{}",
        ready.message
    );
}

/// B05 and B06: an org gate forbids a skip unless a permission of the org allows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_skip_needs_permission_where_an_org_gate_applies() {
    let world = World::new(&["dev", "staging", "prod"]).await;
    world.gate(POLICY, "soak", "staging", "true").await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod"}])).await;
    // A permission a team gives itself counts for nothing (B04).
    let permission = |namespace: &str, expression: &str| {
        json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "allow", "namespace": namespace, "labels": {
                "kardinal.io/scope": "org", "kardinal.io/type": "skip-permission", "kardinal.io/applies-to": "staging"}},
            "spec": {"expression": expression, "message": "Hotfix bundles may skip staging"}})
    };
    world.create(permission(NAMESPACE, "true")).await;
    world.create(permission(POLICY, "bundle.labels.hotfix == true")).await;
    let skip = json!({"intent": {"skip": ["staging"]}});
    world.bundle_with("app-1", "1.29.0", json!({}), skip.clone()).await;
    world.until_phase("app-1", BundlePhase::SkipDenied).await;
    let bundle = world.read_bundle("app-1").await;
    let denied = find_condition(&bundle.status.conditions, "SkipPermitted").unwrap();
    assert!(denied.status == ConditionStatus::False && denied.message.contains("soak"), "{}", denied.message);
    assert!(world.graph("app-1").await.is_none());

    world.bundle_with("app-2", "1.29.1", json!({"hotfix": "true"}), skip).await;
    world.until_phase("app-2", BundlePhase::Verified).await;
    let bundle = world.read_bundle("app-2").await;
    assert!(bundle.status.environments["staging"].skipped);
    assert!(world.step("app-2", "staging").await.is_none());
    let prod = world.step("app-2", "prod").await.unwrap();
    assert_eq!(
        (prod.spec.upstream_environments, prod.spec.required_gates.len()),
        (vec!["dev".to_owned()], 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bundles_wait_when_too_many_are_promoted() {
    let world = World::new(&["dev"]).await;
    world
        .pipeline_with(
            json!([{"name": "dev", "approval": "pr-review"}]),
            json!({"maxConcurrentPromotions": 1, "supersede": "Never"}),
        )
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::WaitingForMerge).await;
    world.advance(Duration::from_secs(2));
    world.bundle("app-2", "1.30.0").await;
    let queued = async || {
        condition(&world, "app-2", "Ready").await == Some((ConditionStatus::False, "Queued".to_owned()))
    };
    world.until("the second one waits", queued).await;
    world.merge("app-1", "dev").await;
    world.until_state("app-2", "dev", StepState::WaitingForMerge).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_outlives_its_pipeline_for_a_minute() {
    let world = World::new(&["dev"]).await;
    world.bundle("app-1", "1.29.0").await;
    let missing = async || condition(&world, "app-1", "PipelineMissing").await.is_some();
    world.until("the pipeline is missed", missing).await;
    world.pass_time(Duration::from_secs(30)).await;
    assert!(world.has_bundle("app-1").await);
    world.pass(MINUTE, "the bundle goes", async || !world.has_bundle("app-1").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_names_its_pipeline_in_its_spec_is_labelled() {
    let world = World::new(&["dev"]).await;
    world.pipeline(json!([{"name": "dev"}])).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "older", "namespace": NAMESPACE},
            "spec": {"pipeline": "app", "images": [{"repository": "ghcr.io/acme/app", "tag": "1.30.0"}]}}))
        .await;
    world.until_phase("older", BundlePhase::Verified).await;
    let bundle = world.read_bundle("older").await;
    assert_eq!(
        (bundle.metadata.label("kardinal.io/pipeline"), bundle.spec.version().as_str()),
        (Some("app"), "1.30.0")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spec_of_a_bundle_never_changes() {
    let world = World::new(&["dev"]).await;
    world.bundle("app-1", "1.29.0").await;
    let patch = slipway_cluster::ObjectPatch::Merge(json!({"spec": {"intent": {"target": "prod"}}}));
    let at = BundleSpec::at(NAMESPACE, "app-1");
    let refused =
        world.cluster.patch(&at, &patch, &slipway_cluster::WriteOptions::default(), None).await.unwrap_err();
    assert!(refused.to_string().contains("never changes"), "{refused}");
}
