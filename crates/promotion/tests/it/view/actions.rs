//! Requests of people: previews, promotions by hand, pauses, overrides and approvals.

use std::time::Duration;

use serde_json::json;
use slipway_promotion::act::{
    GateOverrideRequest, NewBundle, OverrideError, PauseOutcome, PromoteError, PromotionPlan, ResumeOutcome,
    override_gate, parse_image, pause_pipeline, plan_promotion, preview_bundle, resume_pipeline,
};
use slipway_promotion::kinds::{self, BundlePhase, PolicyGateSpec, StepState};
use slipway_promotion::view::{BundleReach, bundle_reach, compare_bundles};

use super::survey;
use crate::promotion::world::{NAMESPACE, POLICY, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_runs_the_translator_and_creates_nothing() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.gate(NAMESPACE, "team-rule", "prod", "true").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    let survey = survey(&world).await;
    let images = vec![parse_image("app=ghcr.io/acme/app:1.29.0").expect("an image")];
    let request =
        NewBundle { pipeline: "app".into(), namespace: NAMESPACE.into(), images, ..NewBundle::default() };
    let preview = preview_bundle(&survey, &request.clone().into_bundle(world.now()), world.now())
        .expect("is translated");
    insta::assert_json_snapshot!(preview);
    let mut skipping = request.into_bundle(world.now());
    skipping.spec.intent = Some(kinds::Intent { skip: vec!["prod".into()], ..kinds::Intent::default() });
    let preview = preview_bundle(&survey, &skipping, world.now()).expect("is translated");
    assert_eq!(preview.denied_skips.len(), 1, "{preview:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_taken_into_one_environment_by_hand() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    let empty = survey(&world).await;
    assert_eq!(plan_promotion(&empty, "dev", None, world.now()), Err(PromoteError::NoBundles));
    let unknown = plan_promotion(&empty, "prdo", None, world.now()).expect_err("is unknown").to_string();
    assert!(unknown.contains("did you mean `prod`?"), "{unknown}");
    world.bundle_with("app-1", "1.29.0", json!({}), json!({"intent": {"target": "dev"}})).await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let plan = plan_promotion(&survey(&world).await, "prod", None, world.now()).expect("can be promoted");
    let PromotionPlan::Create(bundle) = plan else { panic!("{plan:?}") };
    assert_eq!(bundle.spec.intent().from.as_deref(), Some("prod"));
    let made = kinds::create(&world.cluster, &bundle).await.expect("is created");
    world.until_phase(made.name(), BundlePhase::Verified).await;
    assert_eq!(world.state(made.name(), "prod").await, Some(StepState::Verified));
    let again = plan_promotion(&survey(&world).await, "prod", None, world.now()).expect("is answered");
    assert_eq!(again, PromotionPlan::AlreadyThere { version: "1.29.0".to_owned() });
    let bundle = world.read_bundle(made.name()).await;
    assert_eq!(bundle_reach(&bundle, Some("prod")), BundleReach::Reached);
    let first = world.read_bundle("app-1").await;
    assert!(compare_bundles(&first, &bundle).iter().all(|row| !row.changed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_and_a_resume_lets_go_however_often_they_are_asked_for() {
    let world = World::new(&["dev"]).await;
    world.pipeline(json!([{"name": "dev"}])).await;
    let pause = async || {
        let pipeline = world.read_pipeline().await;
        pause_pipeline(&world.cluster, &pipeline, Some("release freeze"), None).await.expect("is paused")
    };
    assert_eq!((pause().await, pause().await), (PauseOutcome::Paused, PauseOutcome::AlreadyPaused));
    world.bundle("app-1", "1.29.0").await;
    world.settle().await;
    assert_ne!(world.state("app-1", "dev").await, Some(StepState::Verified));
    let resume =
        async || resume_pipeline(&world.cluster, &world.read_pipeline().await).await.expect("goes on");
    assert_eq!((resume().await, resume().await), (ResumeOutcome::Resumed, ResumeOutcome::NotPaused));
    let verified = async || world.state("app-1", "dev").await == Some(StepState::Verified);
    world.pass(Duration::from_secs(600), "the promotion goes on", verified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_opens_a_gate_for_one_pipeline_and_freezes_have_none() {
    let world = World::new(&["dev"]).await;
    world.gate(POLICY, "never", "dev", "false").await;
    world.pipeline(json!([{"name": "dev"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.settle().await;
    assert_eq!(world.state("app-1", "dev").await, None);
    let template = kinds::get::<PolicyGateSpec>(&world.cluster, POLICY, "never").await;
    let template = template.expect("is read").expect("exists");
    let request = GateOverrideRequest {
        reason: "incident 4711".into(),
        pipeline: Some("app".into()),
        environment: Some("dev".into()),
        bundle: None,
        expires_in: Duration::from_secs(3600),
        by: Some("alice".into()),
    };
    let nothing = GateOverrideRequest { reason: " ".into(), ..request.clone() };
    let refused = override_gate(&world.cluster, &template, &nothing, world.now()).await;
    assert!(matches!(refused, Err(OverrideError::NoReason)), "{refused:?}");
    override_gate(&world.cluster, &template, &request, world.now()).await.expect("is overridden");
    let verified = async || world.state("app-1", "dev").await == Some(StepState::Verified);
    world.pass(Duration::from_secs(600), "the gate is open", verified).await;
    let freeze = slipway_promotion::act::pause_gate(&world.read_pipeline().await, None, None);
    let refused = override_gate(&world.cluster, &freeze, &request, world.now()).await;
    assert!(matches!(refused, Err(OverrideError::Freeze(_))), "{refused:?}");
}

/// F02: the Graph that is printed runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_graph_of_a_pipeline_promotes_when_a_bundle_names_it() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "open", "prod", "true").await;
    world.gate(NAMESPACE, "team-rule", "prod", "true").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    let template = slipway_promotion::act::graph_template(&survey(&world).await).expect("is translated");
    world.create(template.clone()).await;
    let name = template["metadata"]["name"].clone();
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": "app-1", "namespace": NAMESPACE, "labels": {"kardinal.io/pipeline": "app"},
                "annotations": {"kardinal.io/graph-template": name}},
            "spec": {"artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:1.29.0"}]}}}))
        .await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert_eq!(world.gates(POLICY).await.len(), 1, "the org gate was put back in");
    assert_eq!(world.gates(NAMESPACE).await.len(), 1, "the team's gate is in the Graph");
}

/// F18: a server without pull requests, approved by a label.
#[tokio::test(flavor = "multi_thread")]
async fn plain_git_is_promoted_by_approving_the_bundle() {
    let world = World::new(&["dev", "prod"]).await;
    let git = json!({"url": world.forge.url(), "provider": "none", "secretRef": {"name": "forge"}});
    let environments = json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]);
    world.pipeline_with(environments, json!({"git": git})).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.settle().await;
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("to be merged, or for the bundle to be approved"), "{told}");
    let bundle = world.read_bundle("app-1").await;
    slipway_promotion::act::approve_bundle(&world.cluster, &bundle, "prod").await.expect("is approved");
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    // At once, and not when the branch is looked at again in its own time.
    world.pass(Duration::from_secs(60), "the approval counts", verified).await;
    assert!(world.forge.pulls().is_empty());
    let file = world.forge.file("main", "environments/prod/kustomization.yaml").expect("is there");
    assert!(file.contains("1.29.0"), "{file}");
}
