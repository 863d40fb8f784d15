//! Canaries by replicas.

use serde_json::json;
use slipway_event::Events;
use slipway_unit::strategy::{MemoryLog, Pace, RolloutContext, StepLog, plan_steps, rehearse_strategy};
use slipway_unit::{DeployOutcome, UnitError};
use tokio_util::sync::CancellationToken;

use super::world::{NAMESPACE, World, canary, deployment, failing, rendered, service, strategy, version};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_takes_its_share_waits_and_becomes_the_release() {
    let world = World::with_release(1, &version("api:1", 10)).await;
    let strategy =
        canary("{weight: 10}, {check: verify}, {pause: manual}, {weight: 50}, {pause: 10ms}, {weight: 100}");
    let log = MemoryLog::default();
    let mut new = version("api:2", 10);
    new.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}));
    new[0]["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{"configMapRef": {"name": "settings"}}]);

    let paused = world.deploy(&strategy, &new, &log).await.unwrap();
    assert!(
        matches!(&paused, DeployOutcome::Paused { step } if step == "canary/3-pause-manual"),
        "{paused:?}"
    );
    assert_eq!(world.stand("api-canary").await, Some(("api:2".to_owned(), 1, 1)));
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 9, 9)));
    let canary = world.get("Deployment", "api-canary").await.unwrap();
    assert_eq!(canary["spec"]["selector"]["matchLabels"], json!({"app": "api", "ktl.dev/track": "canary"}));
    assert_eq!(canary["metadata"]["labels"]["ktl.dev/owned-by-run"], log.run_id());
    assert!(world.get("ConfigMap", "settings").await.is_some(), "what new pods read is there before them");

    // Somebody removes the canary while the rollout waits: it is made again before going on.
    world
        .cluster
        .delete(&super::world::place("Deployment", "api-canary"), &Default::default())
        .await
        .unwrap();
    let done = world.deploy(&strategy, &new, &log).await.unwrap();
    assert!(matches!(done, DeployOutcome::Deployed(_)), "{done:?}");
    assert_eq!(world.stand("api").await, Some(("api:2".to_owned(), 10, 10)));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
    assert!(world.get("ConfigMap", "settings").await.is_some());
    // The same again finds everything done.
    let again = world.deploy(&strategy, &new, &log).await.unwrap();
    assert!(matches!(again, DeployOutcome::Deployed(_)), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_fails_is_removed_and_the_old_version_untouched() {
    let world = World::with_release(2, &version("api:1", 4)).await;
    let before = world.get("Deployment", "api").await.unwrap();
    let log = MemoryLog::default();
    let new = vec![failing(deployment("api:2", 4)), service()];
    let outcome = world.deploy(&canary("{weight: 25}, {weight: 100}"), &new, &log).await.unwrap();
    let DeployOutcome::TakenBack { why } = outcome else { panic!("{outcome:?}") };
    assert!(why.starts_with("canary/1-weight-25: "), "{why}");
    assert_eq!(world.leftovers().await, Vec::<String>::new());
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 4, 4)));
    let after = world.get("Deployment", "api").await.unwrap();
    assert_eq!(before["spec"]["template"], after["spec"]["template"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_nobody_answers_takes_the_canary_back() {
    let world = World::with_release(8, &version("api:1", 2)).await;
    // A port that was free a moment ago, and is closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let strategy = strategy(&format!(
        "type: canary\ntargets: [{{name: api}}]\ncanary: {{ steps: [{{weight: 50}}, {{weight: 100}}] }}\nsignals: {{ probes: [{{tcp: '127.0.0.1:{port}'}}] }}\n"
    ));
    let outcome = world.deploy(&strategy, &version("api:2", 2), &MemoryLog::default()).await.unwrap();
    assert!(matches!(&outcome, DeployOutcome::TakenBack { why } if why.contains("127.0.0.1")), "{outcome:?}");
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 2, 2)));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_is_held_and_restored() {
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "api", "namespace": NAMESPACE},
        "spec": {"minReplicas": 4, "maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}}});
    let bounds = |scaler: &serde_json::Value| {
        (scaler["spec"]["minReplicas"].as_u64(), scaler["spec"]["maxReplicas"].as_u64())
    };
    let steps = canary("{weight: 25}, {pause: manual}, {weight: 100}");
    for end in ["resume", "abort", "abort without its log"] {
        let world = World::with_release(3, &version("api:1", 4)).await;
        world.create(&scaler, "kubectl").await;
        let log = MemoryLog::default();
        let mut new = version("api:2", 4);
        new[0]["spec"].as_object_mut().unwrap().remove("replicas");
        let paused = world.deploy(&steps, &new, &log).await.unwrap();
        assert!(matches!(paused, DeployOutcome::Paused { .. }), "{paused:?}");
        let held = world.get("HorizontalPodAutoscaler", "api").await.unwrap();
        assert_eq!(bounds(&held), (Some(3), Some(3)));
        match end {
            "resume" => {
                assert!(matches!(world.deploy(&steps, &new, &log).await, Ok(DeployOutcome::Deployed(_))));
            }
            "abort" => drop(world.abort(Some(&log)).await.unwrap()),
            _ => drop(world.abort(None).await.unwrap()),
        }
        let restored = world.get("HorizontalPodAutoscaler", "api").await.unwrap();
        assert_eq!(bounds(&restored), (Some(4), Some(9)), "{end}");
        let image = if end == "resume" { "api:2" } else { "api:1" };
        let (live, replicas, _) = world.stand("api").await.unwrap();
        assert_eq!((live.as_str(), replicas), (image, 4), "{end}");
        assert_eq!(world.leftovers().await, Vec::<String>::new(), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_tells_effective_weights_and_everything_in_the_way() {
    let world = World::with_release(4, &version("api:1", 1)).await;
    let tight = strategy(
        "type: canary\ntargets: [{name: api}, {name: apii}]\ncanary: { steps: [{weight: 10}, {weight: 50}] }\n",
    );
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "api", "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "api"}}}});
    world.create(&budget, "kubectl").await;
    let foreign = {
        let mut foreign = deployment("other", 1);
        foreign["metadata"]["name"] = json!("api-canary");
        foreign["metadata"]["namespace"] = json!(NAMESPACE);
        foreign["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
        foreign["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
        foreign
    };
    world.create(&foreign, "flagger").await;
    let error =
        plan_steps(&tight, &world.cluster, &rendered(&version("api:2", 1)), NAMESPACE).await.unwrap_err();
    let UnitError::Problems(problems) = error else { panic!("{error}") };
    let text = problems.to_string();
    for expected in [
        "weight 10 of Deployment/api with 1 replicas would be 50%: more than 10 points off",
        "PodDisruptionBudget/api covers the pods",
        "Deployment/api-canary is there and belongs to somebody else",
        "the unit has no Deployment `apii`",
        "did you mean `api`",
    ] {
        assert!(text.contains(expected), "{expected}\n\n{text}");
    }

    let world = World::with_release(5, &version("api:1", 10)).await;
    let plan = plan_steps(
        &canary("{weight: 10}, {weight: 25}, {weight: 100}"),
        &world.cluster,
        &rendered(&version("api:2", 10)),
        NAMESPACE,
    )
    .await
    .unwrap();
    let weights: Vec<(Option<u8>, Option<f64>)> = plan
        .steps
        .iter()
        .filter(|step| step.weight.is_some())
        .map(|step| (step.weight, step.effective_weight))
        .collect();
    assert_eq!(weights, [(Some(10), Some(10.0)), (Some(25), Some(30.0))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_install_is_deployed_as_a_whole() {
    let world = World::new(6);
    let log = MemoryLog::default();
    let outcome =
        world.deploy(&canary("{weight: 50}, {pause: manual}"), &version("api:1", 2), &log).await.unwrap();
    assert!(matches!(outcome, DeployOutcome::Deployed(_)), "{outcome:?}");
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 2, 2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rehearsal_writes_nothing_and_tells_what_would_happen() {
    let world = World::with_release(7, &version("api:1", 4)).await;
    let before = world.get("Deployment", "api").await.unwrap();
    for (new, goes_well) in
        [(version("api:2", 4), true), (vec![failing(deployment("api:2", 4)), service()], false)]
    {
        let rendered = rendered(&new);
        let request = slipway_release::ReleaseRequest {
            name: "demo".into(),
            namespace: NAMESPACE.into(),
            content: slipway_release::ReleaseContent::Rendered(Box::new(rendered.clone())),
            options: Default::default(),
        };
        let (log, events) = (MemoryLog::default(), Events::silent());
        let context = RolloutContext {
            cluster: &world.cluster,
            request: &request,
            rendered: &rendered,
            options: &world.options,
            log: &log,
            events: &events,
            cancel: CancellationToken::new(),
            pace: Pace::AsWritten,
        };
        let tried =
            rehearse_strategy(&canary("{weight: 25}, {pause: manual}, {pause: 1h}, {weight: 100}"), &context)
                .await
                .unwrap();
        assert_eq!(matches!(tried.outcome, DeployOutcome::Deployed(_)), goes_well, "{:?}", tried.outcome);
        assert!(log.records().unwrap().is_empty());
        assert!(!tried.steps.is_empty());
    }
    assert_eq!(world.get("Deployment", "api").await.unwrap(), before);
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_scaled_to_nothing_is_so_again_after_an_abort() {
    let world = World::with_release(12, &version("api:1", 0)).await;
    let log = MemoryLog::default();
    let strategy = canary("{weight: 50}, {pause: manual}, {weight: 100}");
    let paused = world.deploy(&strategy, &version("api:2", 0), &log).await.unwrap();
    assert!(matches!(paused, DeployOutcome::Paused { .. }), "{paused:?}");
    assert_eq!(world.stand("api-canary").await, Some(("api:2".to_owned(), 1, 1)));
    world.abort(Some(&log)).await.unwrap();
    assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 0, 0)));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}
