//! Argo Rollouts and Flagger: rollouts that others carry out.

use serde_json::{Value, json};
use slipway_promotion::kinds::{DelegationStatus, DeliveryDelegate, HealthLevel, HealthType};

use super::support::{NEW, OLD, Scene, Tools, named_deployment, rolled_out};

fn rollout(tag: &str, status: Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": {"name": "my-app", "namespace": "prod"},
        "spec": {
            "replicas": 5,
            "strategy": {"canary": {"steps": [{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}, {"pause": {"duration": 10}}]}},
            "template": {"spec": {"containers": [{"name": "app", "image": format!("ghcr.io/acme/app:{tag}")}]}},
        },
        "status": status,
    })
}

fn healthy_rollout(generation: &str) -> Value {
    json!({"observedGeneration": generation, "phase": "Healthy", "currentPodHash": "abc", "stableRS": "abc",
        "currentStepIndex": 4, "message": null, "abort": null, "pauseConditions": null})
}

#[tokio::test]
async fn a_rollout_is_followed_through_its_phases() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoRollouts);
    scene.set(rollout("1.28.0", healthy_rollout("1"))).await;
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
    // Its controller writes the observed generation as a text.
    scene.set(rollout("1.29.0", healthy_rollout("1"))).await;
    scene.expect(HealthLevel::Progressing, "NotUpdated").await;
    let paused = json!({"observedGeneration": "2", "phase": "Paused", "message": "CanaryPauseStep", "currentPodHash": "def",
        "stableRS": "abc", "currentStepIndex": 1, "pauseConditions": [{"reason": "CanaryPauseStep", "startTime": "2026-04-10T12:00:00Z"}]});
    scene.set(rollout("1.29.0", paused)).await;
    let report = scene.look().await;
    assert_eq!(report.observation.message, "argoRollouts my-app: paused at step 1 of 4 (CanaryPauseStep)");
    let expected = DelegationStatus {
        delegate: DeliveryDelegate::ArgoRollouts,
        status: "Paused".into(),
        weight: Some(20),
        step: Some(1),
    };
    assert_eq!(report.observation.delegation, Some(expected));
    let mut routed = healthy_rollout("2");
    routed["phase"] = json!("Progressing");
    routed["canary"] = json!({"weights": {"canary": {"weight": 45}, "stable": {"weight": 55}}});
    scene.set(rollout("1.29.0", routed)).await;
    let seen = scene.look().await.observation;
    assert_eq!(seen.delegation.and_then(|delegation| delegation.weight), Some(45));
    // Healthy, but the new version is not the stable one.
    let mut early = healthy_rollout("2");
    (early["currentPodHash"], early["canary"]) = (json!("def"), Value::Null);
    scene.set(rollout("1.29.0", early)).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    scene.set(rollout("1.29.0", healthy_rollout("2"))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    let degraded = json!({"phase": "Degraded", "message": "ProgressDeadlineExceeded: timed out"});
    scene.set(rollout("1.29.0", degraded)).await;
    scene.expect(HealthLevel::Failed, "Degraded").await;
    let aborted = json!({"phase": "Degraded", "abort": true, "message": "RolloutAborted: metric failed"});
    scene.set(rollout("1.29.0", aborted)).await;
    let seen = scene.look().await.observation;
    assert_eq!((seen.level, seen.reason.as_str()), (HealthLevel::Failed, "DelegateAborted"));
    assert_eq!(seen.delegation.map(|delegation| delegation.status).as_deref(), Some("Aborted"));
}

#[tokio::test]
async fn a_rollout_may_take_its_template_from_a_deployment() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoRollouts);
    let mut referring = rollout("1.28.0", healthy_rollout("1"));
    referring["spec"]["template"] = Value::Null;
    referring["spec"]["workloadRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    scene.set(referring).await;
    scene.set(named_deployment("web", "ghcr.io/acme/app:1.28.0", json!({}))).await;
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
    scene.set(named_deployment("web", "ghcr.io/acme/app:1.29.0", json!({}))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

fn canary(phase: &str, spec: &str, time: &str) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
        "metadata": {"name": "my-app", "namespace": "prod"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "my-app"}},
        "status": {"phase": phase, "canaryWeight": 0, "iterations": 0, "failedChecks": 0, "lastAppliedSpec": spec,
            "lastTransitionTime": time, "conditions": [
                {"type": "Promoted", "status": "Unknown", "reason": phase, "message": format!("Canary is {phase}")}]},
    })
}

async fn set_primary(scene: &Scene, tag: &str) {
    let image = format!("ghcr.io/acme/app:{tag}");
    scene.set(named_deployment("my-app-primary", &image, rolled_out(1))).await;
}

#[tokio::test]
async fn a_canary_that_succeeded_before_proves_nothing() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::Flagger);
    scene.set(canary("Succeeded", "5f1", "2026-04-10T09:00:00Z")).await;
    set_primary(&scene, "1.28.0").await;
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "StaleRollout").await;
    let mut running = canary("Progressing", "9c2", "2026-04-10T12:01:00Z");
    running["status"]["canaryWeight"] = json!(35);
    scene.set(running).await;
    let seen = scene.look().await.observation;
    assert_eq!((seen.level, seen.reason.as_str()), (HealthLevel::Progressing, "Progressing"));
    assert_eq!(seen.delegation.and_then(|delegation| delegation.weight), Some(35));
    // Another rollout ended: the primary shows that it was not this one.
    scene.set(canary("Succeeded", "9c2", "2026-04-10T12:02:00Z")).await;
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
    set_primary(&scene, "1.29.0").await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    scene.set(canary("Failed", "9c2", "2026-04-10T12:03:00Z")).await;
    scene.expect(HealthLevel::Failed, "DelegateAborted").await;
}

#[tokio::test]
async fn the_first_version_of_a_canary_is_only_initialized() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::Flagger);
    scene.take_baseline().await;
    scene.set(canary("Initializing", "", "2026-04-10T12:00:10Z")).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    set_primary(&scene, "1.29.0").await;
    scene.set(canary("Initialized", "9c2", "2026-04-10T12:00:40Z")).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    // From then on it is the old version.
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "StaleRollout").await;
}

#[tokio::test]
async fn a_delegate_is_asked_after_the_tool_has_applied_the_change() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    scene.target.delegate = DeliveryDelegate::ArgoRollouts;
    let application = |revision: &str, health: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "my-app-prod", "namespace": "argocd"}, "spec": {},
            "status": {"health": {"status": health}, "sync": {"status": "Synced", "revision": revision}},
        })
    };
    scene.set(application(OLD, "Healthy")).await;
    scene.set(rollout("1.29.0", healthy_rollout("1"))).await;
    let report = scene.look().await;
    assert_eq!(report.observation.adapter, "argocd+argoRollouts");
    assert_eq!(
        (report.level(), report.observation.reason.as_str()),
        (HealthLevel::Progressing, "StaleRevision")
    );
    assert!(report.observation.delegation.is_some(), "the delegate shows its state all the time");
    // A paused rollout suspends its Application: only the sync counts here.
    scene.set(application(NEW, "Suspended")).await;
    let paused = json!({"phase": "Paused", "currentStepIndex": 1, "currentPodHash": "def"});
    scene.set(rollout("1.29.0", paused)).await;
    scene.expect(HealthLevel::Progressing, "Paused").await;
    scene.set(rollout("1.29.0", healthy_rollout("1"))).await;
    let report = scene.look().await;
    assert!(report.is_healthy(), "{:?}", report.observation);
    assert_eq!(report.observed_revision(), Some(NEW));
}
