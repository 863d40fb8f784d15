//! Canaries whose traffic a route splits.

use serde_json::{Value, json};
use slipway_unit::DeployOutcome;
use slipway_unit::strategy::{MemoryLog, Strategy, plan_steps};

use super::world::{NAMESPACE, World, rendered, strategy, version};

fn canary_by(provider: &str) -> Strategy {
    strategy(&format!(
        "type: canary\ntargets: [{{name: api}}]\ncanary: {{ provider: {provider}, steps: [{{weight: 10}}, {{pause: manual}}, {{weight: 100}}] }}\n"
    ))
}

async fn with_routes(seed: u64) -> World {
    let world = World::with_release(seed, &version("api:1", 2)).await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "httproutes.gateway.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"}},
        "spec": {"group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute", "listKind": "HTTPRouteList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}});
    world.create(&definition, "kubectl").await;
    let kind = slipway_manifest::Gvk::new("gateway.networking.k8s.io", "v1", "HTTPRoute");
    for _ in 0..200 {
        world.cluster.invalidate_kinds().await;
        if world.cluster.find_kind(&kind).await.unwrap().is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    world
}

fn route() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "api", "namespace": NAMESPACE},
        "spec": {"rules": [{"backendRefs": [{"name": "api", "port": 80}]}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_sends_exactly_the_weight_to_the_canary() {
    for end in ["resume", "abort"] {
        let world = with_routes(1).await;
        world.apply_as(&route(), "kubectl").await;
        let log = MemoryLog::default();
        let strategy = canary_by("gateway-api");
        let paused = world.deploy(&strategy, &version("api:2", 2), &log).await.unwrap();
        assert!(matches!(paused, DeployOutcome::Paused { .. }), "{paused:?}");
        let live = world.get("HTTPRoute", "api").await.unwrap();
        assert_eq!(
            live["spec"]["rules"][0]["backendRefs"],
            json!([{"name": "api", "port": 80, "weight": 90}, {"name": "api-canary", "port": 80, "weight": 10}])
        );
        let service = world.get("Service", "api-canary").await.unwrap();
        assert_eq!(service["spec"]["selector"], json!({"app": "api-canary", "ktl.dev/track": "canary"}));
        assert_eq!(world.stand("api").await, Some(("api:1".to_owned(), 2, 2)));
        match end {
            "resume" => assert!(matches!(
                world.deploy(&strategy, &version("api:2", 2), &log).await.unwrap(),
                DeployOutcome::Deployed(_)
            )),
            _ => drop(world.abort(Some(&log)).await.unwrap()),
        }
        let live = world.get("HTTPRoute", "api").await.unwrap();
        assert_eq!(live["spec"]["rules"], route()["spec"]["rules"], "{end}");
        assert_eq!(world.leftovers().await, Vec::<String>::new(), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_another_controller_steers_is_left_alone() {
    let world = with_routes(2).await;
    world.apply_as(&route(), "flagger").await;
    let strategy = canary_by("gateway-api");
    let planned = plan_steps(&strategy, &world.cluster, &rendered(&version("api:2", 2)), NAMESPACE).await;
    let refused = planned.unwrap_err().to_string();
    assert!(refused.contains("the weights of HTTPRoute/api belong to `flagger`"), "{refused}");
    let deployed = world.deploy(&strategy, &version("api:2", 2), &MemoryLog::default()).await;
    assert!(deployed.unwrap_err().to_string().contains("belong to `flagger`"));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
    assert_eq!(world.get("HTTPRoute", "api").await.unwrap()["spec"], route()["spec"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_gets_a_canary_ingress_with_the_weight() {
    let world = World::with_release(3, &version("api:1", 2)).await;
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "api", "namespace": NAMESPACE, "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "8m"}},
        "spec": {"ingressClassName": "nginx", "rules": [{"host": "api.example", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "api", "port": {"number": 80}}}}]}}]}});
    world.create(&ingress, "kubectl").await;
    let (strategy, log) = (canary_by("nginx-ingress"), MemoryLog::default());
    let paused = world.deploy(&strategy, &version("api:2", 2), &log).await.unwrap();
    assert!(matches!(paused, DeployOutcome::Paused { .. }), "{paused:?}");
    let made = world.get("Ingress", "api-canary").await.unwrap();
    assert_eq!(
        made["metadata"]["annotations"],
        json!({"nginx.ingress.kubernetes.io/proxy-body-size": "8m", "nginx.ingress.kubernetes.io/canary": "true",
            "nginx.ingress.kubernetes.io/canary-weight": "10"})
    );
    assert_eq!(made["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"], "api-canary");
    let done = world.deploy(&strategy, &version("api:2", 2), &log).await.unwrap();
    assert!(matches!(done, DeployOutcome::Deployed(_)), "{done:?}");
    assert_eq!(world.get("Ingress", "api-canary").await, None);
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}

/// Two Deployments with a Service each.
fn two_versions(image: &str) -> Vec<Value> {
    let named = |mut object: Value, name: &str| {
        object["metadata"]["name"] = json!(name);
        for pointer in
            ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app", "/spec/selector/app"]
        {
            if let Some(label) = object.pointer_mut(pointer) {
                *label = json!(name);
            }
        }
        object
    };
    ["api", "web"]
        .into_iter()
        .flat_map(|name| version(image, 2).into_iter().map(move |object| named(object, name)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_behind_one_route_or_ingress_get_their_shares_together() {
    let world = with_routes(4).await;
    world.release(&two_versions("shop:1")).await;
    let mut both = route();
    both["spec"]["rules"] = json!([
        {"backendRefs": [{"name": "api", "port": 80}]},
        {"backendRefs": [{"name": "web", "port": 80}, {"name": "api", "namespace": "elsewhere", "port": 80}]},
    ]);
    world.apply_as(&both, "kubectl").await;
    let path = |path: &str, service: &str| json!({"path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop", "namespace": NAMESPACE},
        "spec": {"rules": [{"host": "shop.example", "http": {"paths": [path("/api", "api"), path("/", "web")]}}, {"host": "bare.example"}]}});
    // Whoever wrote the Ingress does not matter: the rollout makes one of its own.
    world.create(&ingress, "argocd-controller").await;
    for provider in ["gateway-api", "nginx-ingress"] {
        let strategy = strategy(&format!(
            "type: canary\ntargets: [{{name: api}}, {{name: web}}]\ncanary: {{ provider: {provider}, steps: [{{weight: 10}}, {{pause: manual}}, {{weight: 100}}] }}\n"
        ));
        let log = MemoryLog::default();
        let paused = world.deploy(&strategy, &two_versions("shop:2"), &log).await.unwrap();
        assert!(matches!(paused, DeployOutcome::Paused { .. }), "{paused:?}");
        if provider == "gateway-api" {
            let live = world.get("HTTPRoute", "api").await.unwrap();
            let rules = json!([
                {"backendRefs": [{"name": "api", "port": 80, "weight": 90}, {"name": "api-canary", "port": 80, "weight": 10}]},
                {"backendRefs": [
                    {"name": "web", "port": 80, "weight": 90}, {"name": "api", "namespace": "elsewhere", "port": 80, "weight": 100},
                    {"name": "web-canary", "port": 80, "weight": 10},
                ]},
            ]);
            assert_eq!(live["spec"]["rules"], rules);
        } else {
            let made = world.get("Ingress", "shop-canary").await.unwrap();
            let paths = json!([{"host": "shop.example", "http": {"paths": [path("/api", "api-canary"), path("/", "web-canary")]}}]);
            assert_eq!(made["spec"]["rules"], paths);
        }
        world.abort(Some(&log)).await.unwrap();
        assert_eq!(world.get("HTTPRoute", "api").await.unwrap()["spec"], both["spec"], "{provider}");
        assert_eq!(world.leftovers().await, Vec::<String>::new(), "{provider}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_somebody_else_with_the_name_of_the_canarys_stays() {
    let world = with_routes(5).await;
    world.apply_as(&route(), "kubectl").await;
    let mut other = super::world::service();
    other["metadata"] = json!({"name": "api-canary", "namespace": NAMESPACE});
    world.create(&other, "kubectl").await;
    let deployed = world.deploy(&canary_by("gateway-api"), &version("api:2", 2), &MemoryLog::default()).await;
    let error = deployed.unwrap_err().to_string();
    assert!(error.contains("api-canary is there and belongs to somebody else"), "{error}");
    assert_eq!(world.get("Service", "api-canary").await.unwrap()["spec"]["selector"], json!({"app": "api"}));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}
