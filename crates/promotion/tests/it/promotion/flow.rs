//! The way of a version through a pipeline.

use std::time::Duration;

use serde_json::json;
use slipway_promotion::kinds::{
    BundlePhase, BundleSpec, GateResult, KindSpec as _, PipelinePhase, StepState,
};

use super::world::{NAMESPACE, POLICY, World};
use crate::forge::{PullState, git};
use crate::view::survey;

const MINUTE: Duration = Duration::from_secs(60);

/// A01: commits for dev and staging, a pull request for prod, and a record of all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_goes_from_a_bundle_to_production() {
    let world = World::new(&["dev", "staging", "prod"]).await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.gate(NAMESPACE, "not-broken", "prod", "bundle.version != '6.6.6'").await;
    world
        .pipeline(json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}]))
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let repository = world.forge.repository();
    assert_eq!(
        world.forge.subjects("main"),
        ["[kardinal] Promote app 1.29.0 to staging", "[kardinal] Promote app 1.29.0 to dev", "first"]
    );
    let changed = git(&repository, &["diff", "--name-only", "main~2", "main~1"]).unwrap();
    assert!(changed.lines().all(|file| file.starts_with("environments/dev/")), "{changed}");
    let pulls = world.forge.pulls();
    let [pull] = pulls.as_slice() else { panic!("one pull request: {pulls:?}") };
    assert_eq!(pull.base, "main");
    assert!(
        ["kardinal", "kardinal/promotion"].iter().all(|label| pull.labels.iter().any(|known| known == label))
    );
    // The record of an environment follows its step.
    world.settle().await;
    let promoting = world.read_bundle("app-1").await;
    assert_eq!(promoting.phase(), BundlePhase::Promoting);
    assert_eq!(promoting.status.environments["staging"].state, Some(StepState::Verified));

    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let bundle = world.read_bundle("app-1").await;
    assert_eq!(bundle.status.version.as_deref(), Some("1.29.0"));
    let prod = &bundle.status.environments["prod"];
    assert!(prod.pr_url.is_some() && prod.merged_at.is_some() && prod.verified_at.is_some(), "{prod:?}");
    let evidence = prod.evidence.as_ref().expect("evidence is kept");
    assert!(evidence.approved_by.contains(&"alice".to_owned()), "{evidence:?}");
    let gates: Vec<(&str, GateResult)> =
        evidence.policy_gates.iter().map(|gate| (gate.name.as_str(), gate.result)).collect();
    assert_eq!(gates, [("no-weekend", GateResult::Pass), ("not-broken", GateResult::Pass)]);
    assert!(world.graph("app-1").await.is_some(), "the Graph stays for people to look at");
    let shows = async || {
        let status = world.read_pipeline().await.status;
        status.phase == Some(PipelinePhase::Ready)
            && status.environment_summary.as_deref() == Some("dev=1.29.0 staging=1.29.0 prod=1.29.0")
    };
    world.until("the pipeline shows what runs where", shows).await;
    assert_eq!(world.forge.violations(), Vec::<String>::new());
}

/// A02: what comes after an environment does not exist before that is verified.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_does_not_exist_before_its_upstream_is_verified() {
    let world = World::new(&["staging", "prod"]).await;
    let health =
        json!({"type": "resource", "timeout": "30m", "resource": {"name": "absent", "namespace": "default"}});
    world.pipeline(json!([{"name": "staging", "health": health}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "staging", StepState::HealthChecking).await;
    world.pass_time(2 * MINUTE).await;
    assert_eq!(world.state("app-1", "staging").await, Some(StepState::HealthChecking));
    assert!(world.step("app-1", "prod").await.is_none());
    let diagram = survey(&world).await.diagram(Some(&world.read_bundle("app-1").await));
    let states: Vec<(&str, &str)> =
        diagram.nodes.iter().map(|node| (node.id.as_str(), node.state.as_str())).collect();
    assert_eq!(states, [("staging", "HealthChecking"), ("prod", "NotStarted")]);
}

/// A04: two environments at once, and one that waits for both.
#[tokio::test(flavor = "multi_thread")]
async fn environments_fan_out_and_in() {
    let world = World::new(&["staging", "us", "eu", "smoke"]).await;
    world
        .pipeline(json!([
            {"name": "staging"}, {"name": "us", "dependsOn": ["staging"], "approval": "pr-review"},
            {"name": "eu", "dependsOn": ["staging"], "approval": "pr-review"}, {"name": "smoke", "dependsOn": ["us", "eu"]},
        ]))
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "us", StepState::WaitingForMerge).await;
    world.until_state("app-1", "eu", StepState::WaitingForMerge).await;
    let started = async |environment: &str| {
        world.step("app-1", environment).await.and_then(|step| step.status.started_at).expect("has begun")
    };
    let apart = started("us").await.duration_since(started("eu").await).abs();
    assert!(apart.as_secs() <= 5, "{apart}");
    let repository = world.forge.repository();
    for environment in ["us", "eu"] {
        let step = world.step("app-1", environment).await.expect("exists");
        let head = step.status.head_branch.expect("has a branch");
        let changed = git(&repository, &["diff", "--name-only", "main", &head]).unwrap();
        assert_eq!(changed.trim_end(), format!("environments/{environment}/kustomization.yaml"));
    }
    for (environment, next) in [("us", StepState::WaitingForMerge), ("eu", StepState::Verified)] {
        world.merge("app-1", environment).await;
        world.until_state("app-1", environment, StepState::Verified).await;
        if environment == "us" {
            assert_eq!(world.state("app-1", "eu").await, Some(next));
            assert!(world.step("app-1", "smoke").await.is_none());
        }
    }
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert_eq!(world.forge.promotion_commits(), 4);
}

/// A13: the version an environment has already makes no commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_there_already_is_verified_without_a_commit() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let commits = world.forge.subjects("main");
    world.bundle("app-2", "1.29.0").await;
    world.until_phase("app-2", BundlePhase::Verified).await;
    assert_eq!(world.forge.subjects("main"), commits);
    assert_eq!(world.forge.pulls().len(), 1);
}

/// A16: an environment that needs nobody still has its pull request.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_for_the_record_is_merged_by_the_controller() {
    let world = World::new(&["dev"]).await;
    world.pipeline(json!([{"name": "dev", "pr": true}])).await;
    world.bundle("app-1", "1.29.0").await;
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "the bundle is verified", verified).await;
    let pulls = world.forge.pulls();
    assert_eq!((pulls.len(), pulls[0].state), (1, PullState::Merged));
}

/// B01: a weekend gate opens by time alone, in no time at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_weekend_gate_holds_production_until_monday() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    // Saturday noon.
    world.advance(24 * 60 * MINUTE);
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    let blocked = async || {
        world
            .gates(POLICY)
            .await
            .iter()
            .any(|gate| gate.status.last_evaluated_at.is_some() && !gate.status.ready)
    };
    world.until("the gate blocks", blocked).await;
    world.pass_time(3 * MINUTE).await;
    assert!(world.step("app-1", "prod").await.is_none());
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("schedule.isWeekend = true") && told.contains("ETA: Mon 00:00 UTC"), "{told}");
    // Monday, a second before and a second after midnight.
    let monday: jiff::Timestamp = "2026-04-13T00:00:00Z".parse().unwrap();
    let before = Duration::try_from(monday.duration_since(world.now())).unwrap() - Duration::from_secs(1);
    world.advance(before);
    world.settle().await;
    assert!(world.step("app-1", "prod").await.is_none());
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(Duration::from_secs(30), "production opens on Monday", verified).await;
    let opened =
        world.step("app-1", "prod").await.and_then(|step| step.status.started_at).expect("has begun");
    assert!((0..=5).contains(&opened.duration_since(monday).as_secs()), "{opened}");
}

/// B08: what a gate said before nobody looked at it for a while opens nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_nobody_evaluates_any_more_opens_nothing() {
    let mut world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.gate(NAMESPACE, "go", "prod", "bundle.labels.go == 'yes'").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    let passes = async || world.gate_of("app-1", "no-weekend").await.is_some_and(|gate| gate.status.ready);
    world.until("the gate is open on Friday", passes).await;
    world.settle().await;
    assert!(world.step("app-1", "prod").await.is_none(), "the other gate is closed");
    world.stop().await;
    // Saturday. Whoever starts finds the result of Friday, and nothing else in the way.
    world.clock.advance(24 * 60 * MINUTE);
    world.patch(&BundleSpec::at(NAMESPACE, "app-1"), json!({"metadata": {"labels": {"go": "yes"}}})).await;
    world.start();
    let goes = async || world.gate_of("app-1", "go").await.is_some_and(|gate| gate.status.ready);
    world.until("the other gate opens", goes).await;
    world.pass_time(5 * MINUTE).await;
    assert!(world.step("app-1", "prod").await.is_none(), "nothing is opened by what was true on Friday");
    assert!(!world.forge.subjects("main").iter().any(|subject| subject.ends_with("to prod")));
}

/// D04 in part: a controller that starts anew goes on where the last one ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_where_it_was() {
    let mut world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let number = world.step("app-1", "prod").await.unwrap().status.pr_number.unwrap();
    world.stop().await;
    world.forge.merge(number, "merge", "alice");
    world.start();
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "the merge is noticed", verified).await;
    assert_eq!((world.forge.promotion_commits(), world.forge.pulls().len()), (2, 1));
}

/// D13: what has come to its end is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn verified_bundles_cost_no_writes_once_their_gates_are_old() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "always", "prod", "true").await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    // Gates of a bundle that has ended are not evaluated again. The Graph says so once, when their last result is old.
    world.pass_time(11 * MINUTE).await;
    world.settle().await;
    let (before, versions) = (world.calls().write_count(), world.versions().await);
    world.pass_time(60 * MINUTE).await;
    assert_eq!(world.versions().await, versions);
    assert_eq!(world.calls().write_count() - before, 0);
}
