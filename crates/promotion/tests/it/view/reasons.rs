//! F03 and F04: what is where, and every reason why something does not move.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::ObjectPatch;
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::{BundleSpec, KindSpec as _, StepState};
use slipway_promotion::view::{
    AgentHeartbeat, EnvironmentOverview, PipelineOverview, StandingVerdict, promotion_history,
};

use super::survey;
use crate::promotion::world::{NAMESPACE, POLICY, World};

const MINUTE: Duration = Duration::from_secs(60);

/// A promotion that waits for two gates before production.
async fn waiting() -> World {
    let world = World::new(&["staging", "prod"]).await;
    world.gate(POLICY, "no-weekend-deploys", "prod", "!schedule.isWeekend").await;
    world.gate(POLICY, "staging-soak", "prod", "bundle.upstreamSoakMinutes >= 30").await;
    world.pipeline(json!([{"name": "staging"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "v1.29.0").await;
    world.until_state("app-1", "staging", StepState::Verified).await;
    world.pass_time(12 * MINUTE).await;
    world.settle().await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_is_explained_in_the_layout_of_the_design() {
    let world = waiting().await;
    let standing = survey(&world).await.environment_standing("prod", None);
    assert_eq!(
        standing.to_string(),
        "PROMOTION: app / prod
  Bundle: v1.29.0

POLICY GATES:
  no-weekend-deploys  [org]   PASS   schedule.isWeekend = false
  staging-soak        [org]   FAIL   bundle.upstreamSoakMinutes = 12 (threshold: >= 30)
                                     ETA: ~18 minutes (based on staging verifiedAt)

RESULT: BLOCKED by staging-soak
"
    );
    assert!(standing.is_blocked());
    let value = serde_json::to_value(&standing).expect("is JSON");
    assert_eq!(value["result"], json!({"kind": "blocked", "by": ["staging-soak"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_promotion_is_listed_with_its_history() {
    let world = waiting().await;
    world.pass_time(20 * MINUTE).await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    let standing = survey(&world).await.environment_standing("prod", None);
    assert!(matches!(standing.result, StandingVerdict::InProgress { .. }), "{standing}");
    assert!(standing.to_string().contains("https://forge.example/org/app/pulls/2"), "{standing}");
    world.merge("app-1", "prod").await;
    world.until_state("app-1", "prod", StepState::Verified).await;
    world.settle().await;
    let survey = survey(&world).await;
    let overview = PipelineOverview::new(&survey.pipeline, &survey.bundles, None);
    let cells: Vec<String> = overview.environments.iter().map(EnvironmentOverview::cell).collect();
    assert_eq!(cells, ["v1.29.0 ✓", "v1.29.0 ✓"]);
    let history = promotion_history(&survey.bundles, None);
    let rows: Vec<(&str, &str, &[String])> = history
        .iter()
        .map(|entry| (entry.action.word(), entry.environment.as_str(), entry.approvers.as_slice()))
        .collect();
    assert_eq!(rows, [("promote", "prod", &["alice".to_owned()][..]), ("promote", "staging", &[])]);
    // A changed gate is held against what was promoted.
    let mut changed = survey.templates.clone();
    changed[0].spec.expression = "bundle.version == \"v2.0.0\"".to_owned();
    let replayed = survey.replay(&changed, "prod", &Default::default(), 10);
    let stopped: Vec<bool> = replayed.iter().map(|one| !one.simulation.is_open()).collect();
    assert_eq!(stopped, [true]);
    let unchanged = survey.replay(&survey.templates, "prod", &Default::default(), 10);
    assert!(unchanged.iter().all(|one| one.simulation.is_open()), "{unchanged:?}");
    let diagram = survey.diagram(survey.bundles.first());
    insta::assert_snapshot!(diagram.mermaid());
}

/// The explanation of `prod`, or of another environment, as text.
async fn explained(world: &World, environment: &str) -> String {
    survey(world).await.environment_standing(environment, None).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_no_controller_has_seen_says_so() {
    let mut world = World::new(&["dev"]).await;
    world.pipeline(json!([{"name": "dev"}])).await;
    world.settle().await;
    let idle = explained(&world, "dev").await;
    assert!(idle.contains("RESULT: NOTHING TO PROMOTE"), "{idle}");
    world.stop().await;
    world.bundle("app-1", "1.29.0").await;
    let text = explained(&world, "dev").await;
    assert!(text.contains("no controller: nobody has looked at the bundle since"), "{text}");
    assert!(text.contains("hint: is a controller running?"), "{text}");
    assert!(text.contains("RESULT: HELD (no controller)"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_behind_another_is_not_reached() {
    let world = World::new(&["dev", "prod"]).await;
    let health =
        json!({"type": "resource", "timeout": "30m", "resource": {"name": "absent", "namespace": "default"}});
    world.gate(NAMESPACE, "team-gate", "prod", "true").await;
    world.pipeline(json!([{"name": "dev", "health": health}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::HealthChecking).await;
    world.settle().await;
    let text = explained(&world, "prod").await;
    assert!(text.contains("team-gate  [team]  PENDING  not created yet"), "{text}");
    assert!(text.contains("RESULT: NOT REACHED (waiting for dev: HealthChecking)"), "{text}");
    let text = explained(&world, "dev").await;
    assert!(text.contains("STEPS:\n  HealthChecking  health-check ("), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_does_not_compile_is_named_with_its_error() {
    let world = World::new(&["dev"]).await;
    world.gate(POLICY, "broken", "dev", "bundle.nonsense > 3").await;
    world.pipeline(json!([{"name": "dev"}])).await;
    world.bundle("app-1", "1.29.0").await;
    let decided = async || world.gates(POLICY).await.iter().any(|gate| gate.status.phase.is_some());
    world.until("the gate is evaluated", decided).await;
    world.settle().await;
    let text = explained(&world, "dev").await;
    assert!(text.contains("broken  [org]   ERROR  CompileError"), "{text}");
    assert!(text.contains("gate broken: broken: CompileError"), "{text}");
    assert!(text.contains("RESULT: BLOCKED by broken"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_secrets_offline_agents_and_pauses_are_named() {
    let world = World::new(&["dev"]).await;
    let git = json!({"url": world.forge.url(), "provider": "gitea", "secretRef": {"name": "lost"}});
    world.pipeline_with(json!([{"name": "dev", "shard": "eu"}]), json!({"git": git})).await;
    world.bundle("app-1", "1.29.0").await;
    world.until("the step exists", async || world.step("app-1", "dev").await.is_some()).await;
    world.settle().await;
    let text = explained(&world, "dev").await;
    assert!(text.contains("missing Secret: Secret default/lost does not exist"), "{text}");
    assert!(text.contains("agent offline: shard eu was never heard of"), "{text}");
    let renewed = world.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kardinal-agent-eu", "namespace": "default"},
        "spec": {"renewTime": renewed, "holderIdentity": "agent-1"}});
    world.create(lease.clone()).await;
    let text = explained(&world, "dev").await;
    assert!(!text.contains("agent offline"), "{text}");
    // Told to stop, it gives its Lease back: nobody has to wait for a minute to be told.
    let given_back = ObjectPatch::Merge(json!({"spec": {"holderIdentity": ""}}));
    let (at, options) = (ObjectRef::of(&lease), slipway_cluster::WriteOptions::for_manager("test"));
    world.cluster.patch(&at, &given_back, &options, None).await.expect("is patched");
    let text = explained(&world, "dev").await;
    assert!(text.contains("agent offline: shard eu, last heard of at "), "{text}");
    // The controller's word where Leases cannot be read.
    let mut surveyed = survey(&world).await;
    surveyed.agents.insert("eu".to_owned(), AgentHeartbeat::Unknown);
    let told = surveyed.environment_standing("dev", surveyed.find_bundle("app-1")).to_string();
    assert!(!told.contains("AgentOffline"), "{told}");
    let clock = std::sync::Arc::new(slipway_event::ManualClock::at(world.now()));
    let monitor =
        slipway_promotion::agents::AgentMonitor::new(world.cluster.clone(), clock, "default".to_owned());
    monitor.look().await.expect("looks");
    let mut surveyed = survey(&world).await;
    surveyed.agents.insert("eu".to_owned(), AgentHeartbeat::Unknown);
    let told = surveyed.environment_standing("dev", surveyed.find_bundle("app-1")).to_string();
    assert!(told.contains("step waits: AgentOffline: the agent of shard eu"), "{told}");
    let surveyed = survey(&world).await;
    slipway_promotion::act::pause_pipeline(&world.cluster, &surveyed.pipeline, Some("incident"), Some("bob"))
        .await
        .expect("is paused");
    let text = explained(&world, "dev").await;
    assert!(text.contains("paused: paused by bob: incident (PolicyGate/freeze-app)"), "{text}");
    assert!(text.contains("hint: `slipway pipeline resume` lets it go on"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_queued_and_busy_bundles_say_why() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "always", "dev", "true").await;
    world
        .pipeline_with(
            json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]),
            json!({"maxConcurrentPromotions": 1, "supersede": "Never"}),
        )
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.bundle("app-2", "1.30.0").await;
    world.settle().await;
    let text = explained(&world, "dev").await;
    assert!(text.contains("bundle waits: Queued: 1 of at most 1 bundles are promoted"), "{text}");
    assert!(text.contains("RESULT: HELD (bundle waits)"), "{text}");
    // An environment with an org gate may not be left out.
    let at = BundleSpec::at(NAMESPACE, "app-2");
    world.delete(&at).await;
    world.bundle_with("app-3", "1.31.0", json!({}), json!({"intent": {"skip": ["dev"]}})).await;
    let unlimited = ObjectPatch::Merge(json!({"spec": {"maxConcurrentPromotions": 0}}));
    let pipeline = slipway_promotion::kinds::PipelineSpec::at(NAMESPACE, "app");
    let options = slipway_cluster::WriteOptions::for_manager("test");
    world.cluster.patch(&pipeline, &unlimited, &options, None).await.expect("is patched");
    world.pass_time(2 * MINUTE).await;
    let survey = survey(&world).await;
    let refused = survey.find_bundle("app-3").expect("the bundle exists");
    let text = survey.environment_standing("prod", Some(refused)).to_string();
    assert!(text.contains("bundle refused: SkipDenied"), "{text}");
    assert!(text.contains("RESULT: HELD (bundle refused)"), "{text}");
}
