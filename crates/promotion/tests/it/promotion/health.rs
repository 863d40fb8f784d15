//! Health in whole promotions: bakes, deadlines, alarms, and what is taken back after them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ListOptions, ObjectPatch, WriteOptions};
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::{
    self, Bundle, BundlePhase, BundleSpec, KindSpec as _, PromotionStep, StepState, labels,
};
use slipway_promotion::rollback::{ManualRollback, RollbackPriority, manual_rollback};

use super::world::{NAMESPACE, POLICY, World};

const MINUTE: Duration = Duration::from_secs(60);

/// The Deployment of the environment `prod`, brought to a version by whoever syncs the repository.
pub(super) struct Workload<'a> {
    pub(super) world: &'a World,
}

fn workload(version: &str) -> Value {
    let image = format!("ghcr.io/acme/app:{version}");
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "app"}}, "template": {
            "metadata": {"labels": {"app": "app"}}, "spec": {"containers": [{"name": "app", "image": image}]}}}})
}

impl<'a> Workload<'a> {
    pub(super) async fn create(world: &'a World, version: &str) -> Self {
        world.create(workload(version)).await;
        let workload = Self { world };
        workload.serve("True").await;
        workload
    }

    /// Runs a version, and says whether it serves.
    pub(super) async fn sync(&self, version: &str, available: &str) {
        let spec = workload(version)["spec"].clone();
        self.world.patch(&ObjectRef::of(&workload(version)), json!({"spec": spec})).await;
        self.serve(available).await;
    }

    async fn serve(&self, available: &str) {
        let at = ObjectRef::of(&workload(""));
        let live = self.world.cluster.get(&at).await.expect("is read").expect("is there");
        let serving = i64::from(available == "True");
        let status = json!({"status": {
            "observedGeneration": live["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": serving, "availableReplicas": serving, "unavailableReplicas": 1 - serving,
            "conditions": [{"type": "Available", "status": available, "reason": "Test", "message": "as told"}]}});
        write_status(self.world, &at, status).await;
    }
}

async fn write_status(world: &World, at: &ObjectRef, status: Value) {
    let patch = ObjectPatch::Merge(status);
    let written = world.cluster.patch(at, &patch, &WriteOptions::for_manager("sync"), Some("status")).await;
    written.unwrap_or_else(|error| panic!("{at}: {error}"));
}

/// The environment `prod`, checked by its workload.
pub(super) fn prod(more: Value) -> Value {
    let health =
        json!({"type": "resource", "timeout": "5m", "resource": {"name": "app", "namespace": NAMESPACE}});
    let mut environment = json!({"name": "prod", "health": health});
    for (key, value) in more.as_object().into_iter().flatten() {
        environment[key] = value.clone();
    }
    json!([environment])
}

async fn step(world: &World, bundle: &str) -> PromotionStep {
    world.step(bundle, "prod").await.expect("the step exists")
}

pub(super) async fn rollbacks(world: &World) -> Vec<Bundle> {
    let options = ListOptions::with_labels(format!("{}=true", labels::ROLLBACK));
    kinds::list::<BundleSpec>(&world.cluster, Some(NAMESPACE), &options).await.expect("bundles are read")
}

/// Brings a version to production and verifies it there.
pub(super) async fn verify(world: &World, workload: &Workload<'_>, bundle: &str, version: &str) {
    world.bundle(bundle, version).await;
    world.until_state(bundle, "prod", StepState::HealthChecking).await;
    workload.sync(version, "True").await;
    let verified = async || world.read_bundle(bundle).await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "the version is verified", verified).await;
}

/// E01 and C09: the old version does not count, and the new one must stay healthy for the whole bake.
#[tokio::test(flavor = "multi_thread")]
async fn a_bake_survives_a_restart_and_begins_anew_after_an_alarm() {
    let mut world = World::new(&["prod"]).await;
    world.pipeline(prod(json!({"bake": {"minutes": 10}}))).await;
    Workload::create(&world, "1.28.0").await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    world.pass_time(MINUTE).await;
    assert_eq!(step(&world, "app-1").await.status.bake_started_at, None, "the old version is healthy");
    Workload { world: &world }.sync("1.29.0", "True").await;
    world
        .pass(MINUTE, "the bake begins", async || {
            step(&world, "app-1").await.status.bake_started_at.is_some()
        })
        .await;
    let began = step(&world, "app-1").await.status.bake_started_at;
    world.pass_time(4 * MINUTE).await;
    world.stop().await;
    world.start();
    world.pass_time(MINUTE).await;
    let status = step(&world, "app-1").await.status;
    assert_eq!(status.bake_started_at, began, "a restart keeps the time baked");
    assert!(status.bake_elapsed_minutes.is_some_and(|minutes| minutes >= 4), "{status:?}");
    let workload = Workload { world: &world };
    workload.serve("False").await;
    world
        .pass(MINUTE, "the alarm is seen", async || step(&world, "app-1").await.status.bake_resets == 1)
        .await;
    workload.serve("True").await;
    world.pass_time(8 * MINUTE).await;
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::HealthChecking));
    world
        .pass(4 * MINUTE, "the bake ends", async || {
            world.state("app-1", "prod").await == Some(StepState::Verified)
        })
        .await;
}

/// C09: an alarm ends a strict bake; `abort` leaves the environment as it is.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_ends_a_strict_bake_without_a_rollback_where_that_is_wanted() {
    let world = World::new(&["prod"]).await;
    let rules = json!({"bake": {"minutes": 10, "policy": "fail-on-alarm"}, "onHealthFailure": "abort"});
    world.pipeline(prod(rules)).await;
    let workload = Workload::create(&world, "1.28.0").await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    workload.sync("1.29.0", "True").await;
    world
        .pass(MINUTE, "the bake begins", async || {
            step(&world, "app-1").await.status.bake_started_at.is_some()
        })
        .await;
    workload.serve("False").await;
    let aborted = async || world.state("app-1", "prod").await == Some(StepState::AbortedByAlarm);
    world.pass(MINUTE, "the alarm ends it", aborted).await;
    assert_eq!(step(&world, "app-1").await.status.reason.as_deref(), Some("BakeAlarm"));
    world.until_phase("app-1", BundlePhase::Failed).await;
    world.settle().await;
    assert!(rollbacks(&world).await.is_empty());
}

/// E08: the deadline of a health check is a moment, and a restart does not move it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_extend_a_health_check() {
    let mut world = World::new(&["prod"]).await;
    world.pipeline(prod(json!({}))).await;
    Workload::create(&world, "1.28.0").await;
    world.bundle("app-1", "1.29.0").await;
    let began = async || step(&world, "app-1").await.status.health_check_expiry.is_some();
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    world.pass(MINUTE, "the check begins", began).await;
    let deadline = step(&world, "app-1").await.status.health_check_expiry;
    world.pass_time(3 * MINUTE).await;
    world.stop().await;
    world.start();
    let failed = async || world.state("app-1", "prod").await == Some(StepState::Failed);
    // Two minutes are left, and one for a rollback that does not come: there is nothing to go back to.
    world.pass(5 * MINUTE, "time is up", failed).await;
    let status = step(&world, "app-1").await.status;
    assert_eq!(status.health_check_expiry, deadline);
    let late = status.failed_at.zip(deadline).map(|(failed, deadline)| failed.duration_since(deadline));
    assert!(late.is_some_and(|late| late.as_secs() < 60), "{late:?}");
    assert_eq!(status.reason.as_deref(), Some("HealthTimeout"));
    let told = status.message.unwrap_or_default();
    assert!(told.contains("runs ghcr.io/acme/app:1.28.0, want ghcr.io/acme/app:1.29.0"), "{told}");
}

/// C04: a rollback that fails is not answered with another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_fails_ends_there() {
    let world = World::new(&["prod"]).await;
    world
        .pipeline(prod(json!({"autoRollback": {"failureThreshold": 2}, "onHealthFailure": "rollback"})))
        .await;
    let workload = Workload::create(&world, "1.28.0").await;
    verify(&world, &workload, "app-1", "1.29.0").await;
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::HealthChecking).await;
    workload.sync("1.30.0", "False").await;
    let answered = async || rollbacks(&world).await.len() == 1;
    world.pass(20 * MINUTE, "the failure is answered", answered).await;
    let back = rollbacks(&world).await.remove(0);
    assert_eq!((back.spec.version().as_str(), back.spec.intent().from.as_deref()), ("1.29.0", Some("prod")));
    world.until_phase("app-2", BundlePhase::Failed).await;
    // Nothing brings the old version back into the cluster.
    let failed = async || world.read_bundle(back.name()).await.phase() == BundlePhase::Failed;
    world.pass(20 * MINUTE, "the rollback fails", failed).await;
    world.pass_time(10 * MINUTE).await;
    assert_eq!(rollbacks(&world).await.len(), 1);
}

/// C04: the clock of the server with the pull requests stands still, and still there is a version to go back to.
#[tokio::test(flavor = "multi_thread")]
async fn a_reviewed_version_is_taken_back_whatever_the_clock_of_the_server_says() {
    let world = World::new(&["prod"]).await;
    world.pipeline(prod(json!({"approval": "pr-review"}))).await;
    let workload = Workload::create(&world, "1.28.0").await;
    // The server says for every merge that it was at half past twelve.
    world.pass_time(60 * MINUTE).await;
    for (bundle, version) in [("app-1", "1.29.0"), ("app-2", "1.30.0")] {
        world.bundle(bundle, version).await;
        world.until_state(bundle, "prod", StepState::WaitingForMerge).await;
        world.merge(bundle, "prod").await;
        world.until_state(bundle, "prod", StepState::HealthChecking).await;
        let is_good = bundle == "app-1";
        workload.sync(version, if is_good { "True" } else { "False" }).await;
        let ended = async || {
            let phase = world.read_bundle(bundle).await.phase();
            phase == if is_good { BundlePhase::Verified } else { BundlePhase::Failed }
        };
        world.pass(20 * MINUTE, "the version is judged", ended).await;
        let status = step(&world, bundle).await.status;
        assert!(status.merged_at >= status.promoted_at, "{status:?}");
    }
    let answered = async || rollbacks(&world).await.len() == 1;
    world.pass(MINUTE, "the failure is answered", answered).await;
    assert_eq!(rollbacks(&world).await.remove(0).spec.version(), "1.29.0");
}

/// C05 and C06: a person goes back to the version before; an emergency is labelled, and an org gate still holds it.
#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_rollback_stops_at_an_org_gate() {
    let world = World::new(&["prod"]).await;
    world.pipeline(prod(json!({}))).await;
    let workload = Workload::create(&world, "1.28.0").await;
    verify(&world, &workload, "app-1", "1.29.0").await;
    verify(&world, &workload, "app-2", "1.30.0").await;
    world.gate(POLICY, "freeze", "prod", "false").await;
    let pipeline = world.read_pipeline().await;
    let options = ListOptions::default();
    let bundles =
        kinds::list::<BundleSpec>(&world.cluster, Some(NAMESPACE), &options).await.expect("are read");
    let now: Timestamp = world.now();
    let request =
        ManualRollback { environment: "prod", to: None, priority: RollbackPriority::Emergency, now };
    let back = manual_rollback(&pipeline, &bundles, &request).expect("there is history");
    assert_eq!(back.spec.version(), "1.29.0");
    let back = kinds::create(&world.cluster, &back).await.expect("is accepted");
    assert!(back.is_rollback() && back.is_emergency());
    world.until_phase(back.name(), BundlePhase::Promoting).await;
    world.pass_time(10 * MINUTE).await;
    assert!(world.step(back.name(), "prod").await.is_none_or(|step| step.state() == StepState::Pending));
    let gates = world.gates(POLICY).await;
    assert!(gates.iter().any(|gate| !gate.status.ready), "the gate of the rollback is closed: {gates:?}");
}

/// C06: an emergency does not stand behind a pull request that waits for a person; others do.
#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_rollback_passes_a_pinned_version_that_waits_for_its_merge() {
    let world = World::new(&["prod"]).await;
    world.pipeline(json!([{"name": "prod", "approval": "pr-review"}])).await;
    for (bundle, version) in [("app-1", "1.29.0"), ("app-2", "1.30.0"), ("app-3", "1.31.0")] {
        world.bundle(bundle, version).await;
        world.until_state(bundle, "prod", StepState::WaitingForMerge).await;
        if bundle != "app-3" {
            world.merge(bundle, "prod").await;
            world.until_phase(bundle, BundlePhase::Verified).await;
        }
        world.advance(Duration::from_secs(2));
    }
    let pin = json!({"metadata": {"annotations": {"kardinal.io/pin": "true"}}});
    world.patch(&BundleSpec::at(NAMESPACE, "app-3"), pin).await;
    world.bundle("app-4", "1.32.0").await;
    world.settle().await;
    let options = ListOptions::default();
    let bundles =
        kinds::list::<BundleSpec>(&world.cluster, Some(NAMESPACE), &options).await.expect("are read");
    let (priority, now) = (RollbackPriority::Emergency, world.now());
    let request = ManualRollback { environment: "prod", to: None, priority, now };
    let back = manual_rollback(&world.read_pipeline().await, &bundles, &request).expect("there is history");
    let back = kinds::create(&world.cluster, &back).await.expect("is accepted");
    let waits = async || world.state(back.name(), "prod").await == Some(StepState::WaitingForMerge);
    world.pass(5 * MINUTE, "the emergency has its pull request", waits).await;
    assert_eq!(world.state("app-3", "prod").await, Some(StepState::WaitingForMerge), "it is pinned");
    let pulls = world.forge.pulls();
    let labels = &pulls.last().expect("is open").labels;
    for label in ["kardinal/rollback", "kardinal/emergency"] {
        assert!(labels.iter().any(|known| known == label), "{labels:?}");
    }
    world.merge(back.name(), "prod").await;
    world.until_phase(back.name(), BundlePhase::Verified).await;
    let text = world.forge.file("main", "environments/prod/kustomization.yaml").expect("is there");
    assert!(text.contains("1.29.0"), "{text}");
}

/// E05: a canary that its controller has aborted takes Git back too, so that both agree again.
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_canary_is_answered_with_a_rollback() {
    let world = World::new(&["prod"]).await;
    crate::health::support::install(&world.cluster, "flagger.app", "v1beta1", "Canary").await;
    let canary = |phase: &str, seconds: u32| {
        json!({"status": {"phase": phase, "canaryWeight": 30, "lastAppliedSpec": format!("spec-{seconds}"),
            "lastTransitionTime": format!("2026-04-10T12:00:{seconds:02}Z")}})
    };
    let object = json!({"apiVersion": "flagger.app/v1beta1", "kind": "Canary",
        "metadata": {"name": "app", "namespace": NAMESPACE}, "spec": {}});
    let at = ObjectRef::of(&object);
    world.create(object).await;
    write_status(&world, &at, canary("Succeeded", 1)).await;
    let place = json!({"name": "app", "namespace": NAMESPACE});
    let health = json!({"type": "resource", "timeout": "5m", "resource": place, "flagger": place});
    world.pipeline(json!([{"name": "prod", "health": health, "delivery": {"delegate": "flagger"}}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    world.pass_time(MINUTE).await;
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::HealthChecking), "it succeeded before");
    write_status(&world, &at, canary("Succeeded", 2)).await;
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(MINUTE, "the canary succeeds", verified).await;
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::HealthChecking).await;
    write_status(&world, &at, canary("Progressing", 3)).await;
    let shown =
        async || step(&world, "app-2").await.status.delegated_status.as_deref() == Some("Progressing");
    world.pass(MINUTE, "the progress is shown", shown).await;
    write_status(&world, &at, canary("Failed", 4)).await;
    let answered = async || rollbacks(&world).await.len() == 1;
    world.pass(2 * MINUTE, "the failure is answered", answered).await;
    assert_eq!(step(&world, "app-2").await.status.reason.as_deref(), Some("DelegateAborted"));
    assert_eq!(rollbacks(&world).await[0].spec.version(), "1.29.0");
}

/// C05: a person goes back to the version before or to one they name; gates apply to that as to everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_takes_production_back() {
    let world = World::new(&["prod"]).await;
    world.gate(POLICY, "afternoon", "prod", "!bundle.isRollback || schedule.hour >= 15").await;
    world.pipeline(prod(json!({}))).await;
    let workload = Workload::create(&world, "1.28.0").await;
    let ask = async |to: Option<&str>| {
        let options = ListOptions::default();
        let bundles =
            kinds::list::<BundleSpec>(&world.cluster, Some(NAMESPACE), &options).await.expect("are read");
        let (priority, now) = (RollbackPriority::Normal, world.now());
        let request = ManualRollback { environment: "prod", to, priority, now };
        manual_rollback(&world.read_pipeline().await, &bundles, &request)
    };
    let nothing = ask(None).await.expect_err("nothing was promoted").to_string();
    assert!(nothing.contains("prod"), "{nothing}");
    for (bundle, version) in [("app-1", "1.29.0"), ("app-2", "1.30.0"), ("app-3", "1.31.0")] {
        verify(&world, &workload, bundle, version).await;
        world.advance(Duration::from_secs(2));
    }
    let unknown = ask(Some("1.27.0")).await.expect_err("was never there").to_string();
    assert!(unknown.contains("1.31.0, 1.30.0, 1.29.0"), "{unknown}");
    let back = kinds::create(&world.cluster, &ask(None).await.expect("there is history"))
        .await
        .expect("is accepted");
    assert_eq!(back.spec.version(), "1.30.0");
    world.until_phase(back.name(), BundlePhase::Promoting).await;
    world.pass_time(10 * MINUTE).await;
    assert!(world.step(back.name(), "prod").await.is_none(), "the gate holds a rollback too");
    let afternoon: Timestamp = "2026-04-10T15:00:00Z".parse().expect("is a time");
    world.advance(Duration::try_from(afternoon.duration_since(world.now())).expect("lies ahead"));
    let lands = async |back: &Bundle, version: &str| {
        let waits = async || world.state(back.name(), "prod").await == Some(StepState::HealthChecking);
        world.pass(5 * MINUTE, "the rollback lands", waits).await;
        workload.sync(version, "True").await;
        let verified = async || world.read_bundle(back.name()).await.phase() == BundlePhase::Verified;
        world.pass(10 * MINUTE, "the rollback is verified", verified).await;
        let text = world.forge.file("main", "environments/prod/kustomization.yaml").expect("is there");
        assert!(text.contains(version), "{text}");
    };
    lands(&back, "1.30.0").await;
    world.advance(Duration::from_secs(2));
    let named = ask(Some("1.29.0")).await.expect("was verified");
    let named = kinds::create(&world.cluster, &named).await.expect("is accepted");
    lands(&named, "1.29.0").await;
}
