//! Workloads of Kubernetes itself.

use serde_json::{Value, json};
use slipway_promotion::kinds::{HealthLevel, HealthType, ResourceHealth};

use super::support::{Scene, Tools, deployment, named_deployment, rolled_out};

async fn scene() -> Scene {
    Scene::new(Tools::None).await.with_adapter(HealthType::Resource)
}

#[tokio::test]
async fn a_deployment_that_is_healthy_on_the_old_image_proves_nothing() {
    let mut scene = scene().await;
    scene.set(deployment("1.28.0", rolled_out(1))).await;
    scene.take_baseline().await;
    assert_eq!(
        scene.see().await,
        "Progressing StaleImage: resource my-app: runs ghcr.io/acme/app:1.28.0, want ghcr.io/acme/app:1.29.0"
    );
    // The new image is asked for, but its controller has not seen it.
    scene.set(deployment("1.29.0", rolled_out(1))).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    let half = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2});
    scene.set(deployment("1.29.0", half)).await;
    assert_eq!(scene.see().await, "Progressing Progressing: resource my-app: 1 of 2 replicas updated");
    scene.set(deployment("1.29.0", rolled_out(2))).await;
    assert_eq!(scene.see().await, "Healthy Healthy: resource my-app: Available is True");
}

#[tokio::test]
async fn a_deployment_is_judged_by_replicas_conditions_and_its_past() {
    let mut scene = scene().await;
    scene.expect(HealthLevel::Progressing, "NotFound").await;
    let late = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow",
         "lastUpdateTime": "2099-01-01T00:00:00Z"}]});
    let quota = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "conditions": [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]});
    let old_pods = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2});
    for (status, level, reason) in [
        (old_pods, HealthLevel::Progressing, "Progressing"),
        (late, HealthLevel::Failed, "ProgressDeadlineExceeded"),
        (quota, HealthLevel::Failed, "ReplicaFailure"),
    ] {
        scene.set(deployment("1.29.0", status)).await;
        scene.expect(level, reason).await;
    }
    // A fresh rollout without enough replicas is on its way; once it was healthy the same is an alarm.
    let mut down = rolled_out(1);
    down["availableReplicas"] = json!(0);
    down["conditions"] =
        json!([{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}]);
    scene.set(deployment("1.29.0", down.clone())).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    scene.set(deployment("1.29.0", rolled_out(1))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    scene.set(deployment("1.29.0", down)).await;
    scene.expect(HealthLevel::Degraded, "Unavailable").await;
}

#[tokio::test]
async fn a_workload_scaled_to_zero_is_healthy() {
    let mut scene = scene().await;
    let mut zero = deployment(
        "1.29.0",
        json!({"observedGeneration": 1, "conditions": [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}]}),
    );
    zero["spec"]["replicas"] = json!(0);
    scene.set(zero).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn every_selected_deployment_must_be_healthy_and_one_must_prove_the_change() {
    let mut scene = scene().await;
    scene.health().label_selector = Some([("team".to_owned(), "shop".to_owned())].into());
    scene.expect(HealthLevel::Progressing, "NotFound").await;
    for (name, image) in
        [("web", "ghcr.io/acme/app:1.28.0"), ("worker", "ghcr.io/acme/app:1.28.0"), ("cache", "redis:7")]
    {
        scene.set(named_deployment(name, image, rolled_out(1))).await;
    }
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
    scene.set(named_deployment("web", "ghcr.io/acme/app:1.29.0", rolled_out(2))).await;
    // The worker still runs the old one.
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
    let half = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    scene.set(named_deployment("worker", "ghcr.io/acme/app:1.29.0", half)).await;
    assert_eq!(scene.see().await, "Progressing Progressing: resource worker: 1 of 2 replicas updated");
    scene.set(named_deployment("worker", "ghcr.io/acme/app:1.29.0", rolled_out(2))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn a_change_of_configuration_is_proven_by_the_generation() {
    let mut scene = scene().await.without_images();
    scene.set(deployment("1.28.0", rolled_out(1))).await;
    scene.expect(HealthLevel::Progressing, "NoBaseline").await;
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "NotUpdated").await;
    let mut changed = deployment("1.28.0", rolled_out(2));
    changed["spec"]["minReadySeconds"] = json!(5);
    scene.set(changed).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn nothing_to_change_needs_no_newer_state() {
    let mut scene = scene().await.without_images();
    scene.set(deployment("1.28.0", rolled_out(1))).await;
    scene.take_baseline().await;
    scene.no_change = true;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn a_scaler_is_no_proof_of_a_new_version() {
    // The workload runs the image under a name of its own, so the image says nothing.
    let mut scene = scene().await;
    let image = "mirror.local/shop/frontend:7";
    scene.set(named_deployment("my-app", image, rolled_out(1))).await;
    scene.take_baseline().await;
    let mut scaled = named_deployment("my-app", image, rolled_out(2));
    scaled["spec"]["replicas"] = json!(2);
    scaled["spec"]["minReadySeconds"] = json!(1);
    scene.set(scaled).await;
    scene.expect(HealthLevel::Progressing, "NotUpdated").await;
    scene.set(named_deployment("my-app", "mirror.local/shop/frontend:8", rolled_out(3))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

fn set_of(kind: &str, status: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db", "namespace": "data"},
        "spec": {
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": "ghcr.io/acme/app:1.29.0"}]},
            },
        },
        "status": status,
    });
    if kind == "StatefulSet" {
        set["spec"]["replicas"] = json!(2);
        set["spec"]["serviceName"] = json!("db");
    }
    set
}

#[tokio::test]
async fn sets_and_other_kinds_are_workloads_too() {
    let mut scene = scene().await;
    scene.set(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "data"}})).await;
    let place = |kind: &str| ResourceHealth {
        kind: Some(kind.into()),
        name: Some("db".into()),
        namespace: Some("data".into()),
        condition: None,
    };
    scene.health().resource = Some(place("StatefulSet"));
    let state = |ready: i64, current: &str| {
        json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": ready, "updatedReplicas": 2,
            "currentRevision": current, "updateRevision": "b"})
    };
    scene.set(set_of("StatefulSet", state(1, "a"))).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    scene.set(set_of("StatefulSet", state(2, "b"))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    scene.set(set_of("StatefulSet", state(0, "b"))).await;
    scene.expect(HealthLevel::Degraded, "Unavailable").await;
    scene.before = None;
    scene.health().resource = Some(place("DaemonSet"));
    let state = |updated: i64| {
        json!({"observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "numberMisscheduled": 0, "numberReady": 3, "updatedNumberScheduled": updated, "numberAvailable": 3})
    };
    scene.set(set_of("DaemonSet", state(2))).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    scene.set(set_of("DaemonSet", state(3))).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    scene.health().resource = Some(place("Nonsense"));
    scene.expect(HealthLevel::Progressing, "NotFound").await;
}

#[tokio::test]
async fn a_condition_may_be_asked_for() {
    let mut scene = scene().await;
    scene.health().resource =
        Some(ResourceHealth { condition: Some("SmokeTested".into()), ..ResourceHealth::default() });
    scene.set(deployment("1.29.0", rolled_out(1))).await;
    scene.expect(HealthLevel::Progressing, "ConditionNotMet").await;
    let mut tested = rolled_out(1);
    let conditions = tested["conditions"].as_array_mut().expect("is a list");
    conditions.push(json!({"type": "SmokeTested", "status": "True", "reason": "Passed"}));
    scene.set(deployment("1.29.0", tested)).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn an_environment_without_a_check_is_healthy_at_once() {
    let mut scene = Scene::new(Tools::None).await.with_adapter(HealthType::None);
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}
