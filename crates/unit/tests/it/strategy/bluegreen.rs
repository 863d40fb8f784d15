//! Blue-green rollouts.

use serde_json::{Value, json};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_unit::strategy::{MemoryLog, Strategy, plan_steps};
use slipway_unit::{DeployOutcome, UnitError};

use super::world::{NAMESPACE, World, deployment, failing, rendered, service, strategy, version};

fn blue_green(more: &str) -> Strategy {
    strategy(&format!(
        "type: bluegreen\ntargets: [{{kind: Deployment, name: api}}]\nbluegreen: {{ service: api, preview: api-preview, prePromotion: [verify]{more} }}\n"
    ))
}

async fn selector(world: &World, name: &str) -> Option<Value> {
    world.get("Service", name).await.map(|service| service["spec"]["selector"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_switches_from_a_plain_deployment_to_one_color_after_the_other() {
    let world = World::with_release(1, &version("api:1", 2)).await;
    let plan = plan_steps(&blue_green(""), &world.cluster, &rendered(&version("api:2", 2)), NAMESPACE)
        .await
        .unwrap();
    assert!(plan.risks.iter().any(|risk| risk.contains("Deployment/api has no color yet")), "{plan:?}");

    let log = MemoryLog::default();
    let paused = world.deploy(&blue_green(""), &version("api:2", 2), &log).await.unwrap();
    assert!(matches!(&paused, DeployOutcome::Paused { step } if step == "bluegreen/approve"), "{paused:?}");
    assert_eq!(selector(&world, "api").await, Some(json!({"app": "api"})));
    assert_eq!(selector(&world, "api-preview").await, Some(json!({"app": "api", "ktl.dev/color": "green"})));
    assert_eq!(world.stand("api-green").await, Some(("api:2".to_owned(), 2, 2)));

    let done = world.deploy(&blue_green(""), &version("api:2", 2), &log).await.unwrap();
    assert!(matches!(done, DeployOutcome::Deployed(_)), "{done:?}");
    assert_eq!(selector(&world, "api").await, Some(json!({"app": "api", "ktl.dev/color": "green"})));
    assert_eq!(world.stand("api").await, None, "the plain Deployment is gone");
    assert_eq!(world.stand("api-green").await, Some(("api:2".to_owned(), 2, 2)));
    assert_eq!(selector(&world, "api-preview").await, None);
    assert_eq!(world.leftovers().await, Vec::<String>::new());

    let next = world
        .deploy(
            &blue_green(", autoPromote: true, scaleDownDelay: 5ms"),
            &version("api:3", 2),
            &MemoryLog::default(),
        )
        .await
        .unwrap();
    assert!(matches!(next, DeployOutcome::Deployed(_)), "{next:?}");
    assert_eq!(selector(&world, "api").await, Some(json!({"app": "api", "ktl.dev/color": "blue"})));
    assert_eq!(world.stand("api-green").await, None);
    assert_eq!(world.stand("api-blue").await, Some(("api:3".to_owned(), 2, 2)));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_color_that_fails_never_gets_traffic() {
    let world = World::with_release(2, &version("api:1", 2)).await;
    let new = vec![failing(deployment("api:2", 2)), service()];
    let outcome =
        world.deploy(&blue_green(", autoPromote: true"), &new, &MemoryLog::default()).await.unwrap();
    assert!(
        matches!(&outcome, DeployOutcome::TakenBack { why } if why.starts_with("bluegreen/color")),
        "{outcome:?}"
    );
    assert_eq!(selector(&world, "api").await, Some(json!({"app": "api"})));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 2, 2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_taken_back_after_the_switch_and_finished_after_the_last_step_began() {
    use slipway_unit::strategy::StepLog;
    use slipway_unit::{StepRecord, StepStatus};
    let world = World::with_release(3, &version("api:1", 2)).await;
    let log = MemoryLog::default();
    // A pause of an hour after the switch: the run is dropped while it holds.
    let strategy = blue_green(", autoPromote: true, scaleDownDelay: 1h");
    let next = version("api:2", 2);
    let run = world.deploy(&strategy, &next, &log);
    let holds = async {
        while !log.has_begun("bluegreen/hold").unwrap() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = run => panic!("{ended:?}"),
        () = holds => {}
    }
    assert_eq!(selector(&world, "api").await, Some(json!({"app": "api", "ktl.dev/color": "green"})));
    world.abort(None).await.unwrap();
    assert_eq!(selector(&world, "api").await, Some(json!({"app": "api"})));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 2, 2)));

    let begun = StepRecord {
        step: "bluegreen/promote".to_owned(),
        weight: None,
        status: StepStatus::Started,
        signals: Value::Null,
    };
    log.record(&begun).unwrap();
    let refused = world.abort(Some(&log)).await.unwrap_err();
    assert!(refused.to_string().contains("past the point of no return"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_colors_have_to_fit_the_quota() {
    let world = World::with_release(4, &version("api:1", 3)).await;
    let unset = |mut objects: Vec<Value>| {
        objects[0]["spec"].as_object_mut().unwrap().remove("replicas");
        objects
    };
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "5"}}});
    world.create(&quota, "kubectl").await;
    let counted = json!({"status": {"hard": {"pods": "5"}, "used": {"pods": "3"}}});
    let written = world
        .cluster
        .patch(
            &super::world::place("ResourceQuota", "small"),
            &ObjectPatch::Merge(counted),
            &WriteOptions::for_manager("kube-controller-manager"),
            Some("status"),
        )
        .await;
    written.unwrap_or_else(|error| panic!("{error}"));
    let strategy = blue_green(", autoPromote: true");
    let error =
        plan_steps(&strategy, &world.cluster, &rendered(&version("api:2", 3)), NAMESPACE).await.unwrap_err();
    assert!(error.to_string().contains("ResourceQuota/small has no room for both colors"), "{error}");
    // An autoscaler decides: the new color starts with as many pods as the old one has.
    let scaled = rendered(&unset(version("api:2", 1)));
    let error = plan_steps(&strategy, &world.cluster, &scaled, NAMESPACE).await.unwrap_err();
    assert!(error.to_string().contains("pods 3 of 5 are used, 3 more are needed"), "{error}");
    let error = world.deploy(&strategy, &version("api:2", 3), &MemoryLog::default()).await.unwrap_err();
    assert!(matches!(error, UnitError::Problems(_)), "{error}");
    assert_eq!(world.stand("api-green").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_color_without_replicas_of_its_own_has_as_many_pods_as_before() {
    let world = World::with_release(9, &version("api:1", 1)).await;
    let at = super::world::place("Deployment", "api");
    let scaled = ObjectPatch::Merge(json!({"spec": {"replicas": 5}}));
    world.cluster.patch(&at, &scaled, &WriteOptions::for_manager("autoscaler"), None).await.unwrap();
    let mut new = version("api:2", 1);
    new[0]["spec"].as_object_mut().unwrap().remove("replicas");
    let paused = world.deploy(&blue_green(""), &new, &MemoryLog::default()).await.unwrap();
    assert!(matches!(paused, DeployOutcome::Paused { .. }), "{paused:?}");
    assert_eq!(world.stand("api-green").await, Some(("api:2".to_owned(), 5, 5)));
}
