//! Pipelines that depend on each other: groups and contracts.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_promotion::kinds::{
    self, BundlePhase, BundleSpec, KindSpec as _, PipelineGroupSpec, PipelineSpec, PromotionContractSpec,
    PromotionStepSpec, StepState, find_condition,
};

use super::world::{NAMESPACE, World};
use crate::view::survey;

const MINUTE: Duration = Duration::from_secs(60);

/// Another pipeline of the namespace, with directories of its own.
async fn another_pipeline(world: &World, name: &str, environments: Value) {
    world.pipeline_at(json!({"name": name, "namespace": NAMESPACE}), environments, json!({})).await;
}

fn images(version: &str) -> Value {
    json!({"images": [{"name": "app", "reference": format!("ghcr.io/acme/app:{version}")}]})
}

async fn bundle_of(world: &World, pipeline: &str, name: &str, version: &str) {
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"pipeline": pipeline, "artifacts": images(version)}}))
        .await;
}

async fn group(world: &World, spec: Value) {
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PipelineGroup",
            "metadata": {"name": "shop", "namespace": NAMESPACE}, "spec": spec}))
        .await;
}

async fn group_bundle(world: &World, name: &str, members: Value) {
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"type": "group", "group": "shop", "members": members}}))
        .await;
}

/// F16: a contract holds its consumer until the provider runs what it needs, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_contract_holds_its_consumer_until_the_provider_fits() {
    let world = World::new(&["prod", "api"]).await;
    world.pipeline(json!([{"name": "prod"}])).await;
    another_pipeline(&world, "api", json!([{"name": "live", "path": "environments/api"}])).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionContract",
            "metadata": {"name": "needs-api", "namespace": NAMESPACE},
            "spec": {"consumer": {"pipeline": "app", "environment": "prod"},
                "provider": {"pipeline": "api", "environment": "live"},
                "require": "!provider.versionSemver.isLessThan(semver('2.0.0'))"}}))
        .await;
    let contract = async || {
        let found = kinds::get::<PromotionContractSpec>(&world.cluster, NAMESPACE, "needs-api").await;
        found.expect("is read").expect("is there").status
    };
    world.bundle("app-1", "1.29.0").await;
    world.until_phase("app-1", BundlePhase::Promoting).await;
    world.pass_time(2 * MINUTE).await;
    assert!(world.step("app-1", "prod").await.is_none(), "nothing is provided yet");
    bundle_of(&world, "api", "api-1", "1.9.0").await;
    world.until_phase("api-1", BundlePhase::Verified).await;
    world.settle().await;
    assert!(world.step("app-1", "prod").await.is_none(), "the version is too old");
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("contract-needs-api") && told.contains("[contract]"), "{told}");
    let status = contract().await;
    assert_eq!((status.satisfied, status.provider_version.as_deref()), (false, Some("1.9.0")));
    world.advance(Duration::from_secs(2));
    bundle_of(&world, "api", "api-2", "2.0.0").await;
    // The gate follows its provider: no timer has to pass.
    world.until_phase("app-1", BundlePhase::Verified).await;
    world.settle().await;
    let status = contract().await;
    assert_eq!((status.satisfied, status.provider_version.as_deref()), (true, Some("2.0.0")));
}

/// F16: the members of a group go in the order of its edges.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_promotes_its_members_in_order() {
    let world = World::new(&["prod", "api"]).await;
    world.pipeline(json!([{"name": "prod"}])).await;
    let back = json!([{"name": "prod", "path": "environments/api", "approval": "pr-review"}]);
    another_pipeline(&world, "api", back).await;
    let members = json!([{"alias": "front", "pipeline": "app"}, {"alias": "back", "pipeline": "api"}]);
    group(&world, json!({"members": members, "edges": [{"from": "back/prod", "to": "front/prod"}]})).await;
    let versions = json!({"front": {"artifacts": images("1.29.0")}, "back": {"artifacts": images("2.0.0")}});
    group_bundle(&world, "release-1", versions).await;
    world.until_state("release-1-back", "prod", StepState::WaitingForMerge).await;
    world.pass_time(2 * MINUTE).await;
    assert!(world.step("release-1-front", "prod").await.is_none(), "the other one goes first");
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("after-back-prod") && told.contains("[group]"), "{told}");
    assert_eq!(world.read_bundle("release-1").await.phase(), BundlePhase::Promoting);
    world.merge("release-1-back", "prod").await;
    world.until_phase("release-1", BundlePhase::Verified).await;
    assert_eq!(world.state("release-1-front", "prod").await, Some(StepState::Verified));
    world.settle().await;
    let status = kinds::get::<PipelineGroupSpec>(&world.cluster, NAMESPACE, "shop").await;
    let status = status.expect("is read").expect("is there").status;
    assert_eq!(
        (status.active_bundle.as_deref(), status.phase),
        (Some("release-1"), Some(BundlePhase::Verified))
    );
    assert_eq!(status.members["front"].verified, ["prod"]);
}

/// F16: the failure of one member holds the others, where the group says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_member_holds_the_others() {
    let world = World::new(&["dev", "prod", "api"]).await;
    world.pipeline(json!([{"name": "dev", "approval": "pr-review"}, {"name": "prod"}])).await;
    let absent =
        json!({"type": "resource", "timeout": "5m", "resource": {"name": "absent", "namespace": "default"}});
    let back =
        json!([{"name": "prod", "path": "environments/api", "health": absent, "onHealthFailure": "none"}]);
    another_pipeline(&world, "api", back).await;
    let members = json!([{"alias": "front", "pipeline": "app"}, {"alias": "back", "pipeline": "api"}]);
    group(&world, json!({"members": members, "failurePolicy": "haltAll"})).await;
    let versions = json!({"front": {"artifacts": images("1.29.0")}, "back": {"artifacts": images("2.0.0")}});
    group_bundle(&world, "release-1", versions).await;
    world.until_state("release-1-front", "dev", StepState::WaitingForMerge).await;
    let failed = async || world.read_bundle("release-1").await.phase() == BundlePhase::Failed;
    world.pass(20 * MINUTE, "the member fails, and the group with it", failed).await;
    world.merge("release-1-front", "dev").await;
    world.pass_time(3 * MINUTE).await;
    assert!(world.step("release-1-front", "prod").await.is_none(), "the group is halted");
}

/// A group that cannot work makes no bundle.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_members_wait_for_each_other_is_refused() {
    let world = World::new(&["prod", "api"]).await;
    world.pipeline(json!([{"name": "prod"}])).await;
    another_pipeline(&world, "api", json!([{"name": "prod", "path": "environments/api"}])).await;
    let members = json!([{"alias": "front", "pipeline": "app"}, {"alias": "back", "pipeline": "api"}]);
    let edges = json!([{"from": "back/prod", "to": "front/prod"}, {"from": "front/prod", "to": "back/prod"}]);
    group(&world, json!({"members": members, "edges": edges})).await;
    group_bundle(&world, "release-1", json!({"front": {"artifacts": images("1.29.0")}})).await;
    world.until_phase("release-1", BundlePhase::Failed).await;
    let bundle = world.read_bundle("release-1").await;
    let invalid = find_condition(&bundle.status.conditions, "InvalidSpec").expect("is told");
    assert_eq!(invalid.reason, "InvalidGroup");
    assert!(invalid.message.contains("wait for each other"), "{}", invalid.message);
    assert!(!world.has_bundle("release-1-front").await);
}

/// A group whose members leave an environment together.
#[tokio::test(flavor = "multi_thread")]
async fn the_members_of_an_atomic_group_leave_an_environment_together() {
    let world = World::new(&["dev", "prod", "api-dev", "api-prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    let back = json!([{"name": "dev", "path": "environments/api-dev", "approval": "pr-review"},
        {"name": "prod", "path": "environments/api-prod"}]);
    another_pipeline(&world, "api", back).await;
    let members = json!([{"alias": "front", "pipeline": "app"}, {"alias": "back", "pipeline": "api"}]);
    group(&world, json!({"members": members, "mode": "atomic"})).await;
    let versions = json!({"front": {"artifacts": images("1.29.0")}, "back": {"artifacts": images("2.0.0")}});
    group_bundle(&world, "release-1", versions).await;
    world.until_state("release-1-front", "dev", StepState::Verified).await;
    world.until_state("release-1-back", "dev", StepState::WaitingForMerge).await;
    world.pass_time(3 * MINUTE).await;
    assert!(world.step("release-1-front", "prod").await.is_none(), "the other member is still in dev");
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("after-back-dev"), "{told}");
    world.merge("release-1-back", "dev").await;
    let verified = async || world.read_bundle("release-1").await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "both are in production", verified).await;
    for member in ["release-1-front", "release-1-back"] {
        assert_eq!(world.state(member, "prod").await, Some(StepState::Verified), "{member}");
    }
    // A version of one member alone waits for nobody.
    world.advance(Duration::from_secs(2));
    group_bundle(&world, "release-2", json!({"front": {"artifacts": images("1.30.0")}})).await;
    world.until_phase("release-2", BundlePhase::Verified).await;
    assert!(!world.has_bundle("release-2-back").await);
}

/// A member in another namespace has to allow the group's, and goes in the same order as others.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_promotes_a_member_of_another_namespace_that_allows_it() {
    let world = World::new(&["prod", "api"]).await;
    world.pipeline(json!([{"name": "prod"}])).await;
    world.namespace("payments").await;
    let back = json!([{"name": "prod", "path": "environments/api", "approval": "pr-review"}]);
    world.pipeline_at(json!({"name": "api", "namespace": "payments"}), back, json!({})).await;
    let members = json!([{"alias": "front", "pipeline": "app"},
        {"alias": "back", "pipeline": "api", "namespace": "payments"}]);
    group(&world, json!({"members": members, "edges": [{"from": "back/prod", "to": "front/prod"}]})).await;
    let versions = json!({"front": {"artifacts": images("1.29.0")}, "back": {"artifacts": images("2.0.0")}});
    group_bundle(&world, "release-1", versions.clone()).await;
    world.until_phase("release-1", BundlePhase::Failed).await;
    let bundle = world.read_bundle("release-1").await;
    let invalid = find_condition(&bundle.status.conditions, "InvalidSpec").expect("is told");
    assert!(invalid.message.contains("does not allow the group's namespace"), "{}", invalid.message);
    let theirs =
        async |name: &str| kinds::get::<BundleSpec>(&world.cluster, "payments", name).await.expect("is read");
    assert!(theirs("release-1-back").await.is_none(), "nothing is made where it is not allowed");
    let allowed = json!({"metadata": {"annotations": {"kardinal.io/allow-namespaces": NAMESPACE}}});
    world.patch(&PipelineSpec::at("payments", "api"), allowed).await;
    world.advance(Duration::from_secs(2));
    group_bundle(&world, "release-2", versions).await;
    let step = async || {
        let step = kinds::get::<PromotionStepSpec>(&world.cluster, "payments", "release-2-back-prod").await;
        step.expect("is read")
    };
    let waits = async || step().await.is_some_and(|step| step.state() == StepState::WaitingForMerge);
    world.until("the member of the other namespace waits for its merge", waits).await;
    world.pass_time(3 * MINUTE).await;
    assert!(world.step("release-2-front", "prod").await.is_none(), "the other one goes first");
    let found = step().await.map(|step| step.status);
    let number = found.as_ref().and_then(|status| status.pr_number);
    let number = number.unwrap_or_else(|| panic!("has a pull request: {found:?}"));
    world.forge.merge(number, "merge", "alice");
    world.controller().nudge_step("payments", "release-2-back-prod");
    let verified = async || world.read_bundle("release-2").await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "both are verified", verified).await;
    let back = theirs("release-2-back").await.expect("is there");
    assert_eq!(back.phase(), BundlePhase::Verified);
    // What was refused may have come to life before there was a newer one, and gives way to it then.
    let gave_way = async || {
        matches!(world.read_bundle("release-1").await.phase(), BundlePhase::Failed | BundlePhase::Superseded)
    };
    world.until("the refused one has ended", gave_way).await;
    // It never does behind the newer one: either it has no members, or they gave way.
    let phase = world.read_bundle("release-1").await.phase();
    let member = theirs("release-1-back").await.map(|member| member.phase());
    let expected = (phase == BundlePhase::Superseded).then_some(BundlePhase::Superseded);
    assert_eq!(member, expected, "{phase:?}");
}

/// A contract that excludes a version of its provider holds the consumer while that runs, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_holds_its_consumer_while_the_provider_runs_what_it_excludes() {
    let world = World::new(&["prod", "api"]).await;
    world.pipeline(json!([{"name": "prod"}])).await;
    another_pipeline(&world, "api", json!([{"name": "live", "path": "environments/api"}])).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionContract",
            "metadata": {"name": "not-with-2", "namespace": NAMESPACE},
            "spec": {"consumer": {"pipeline": "app", "environment": "prod"}, "mode": "conflicts",
                "provider": {"pipeline": "api", "environment": "live"},
                "require": "provider.version.startsWith('2.')"}}))
        .await;
    // A provider that runs nothing is no conflict.
    world.bundle("app-1", "1.29.0").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    bundle_of(&world, "api", "api-1", "2.0.0").await;
    world.until_phase("api-1", BundlePhase::Verified).await;
    world.advance(Duration::from_secs(2));
    world.bundle("app-2", "1.30.0").await;
    world.until_phase("app-2", BundlePhase::Promoting).await;
    world.pass_time(3 * MINUTE).await;
    assert!(world.step("app-2", "prod").await.is_none(), "the provider runs what is excluded");
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("contract-not-with-2") && told.contains("[contract]"), "{told}");
    bundle_of(&world, "api", "api-2", "3.0.0").await;
    world.until_phase("app-2", BundlePhase::Verified).await;
}
