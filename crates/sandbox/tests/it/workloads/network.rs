//! Services, budgets and autoscalers.

use serde_json::json;

use super::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dd";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";

fn service(more: Value) -> Value {
    let mut spec = json!({
        "selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d"}, "spec": spec})
}

#[tokio::test]
async fn endpoints_follow_readiness() {
    let world = World::new();
    let s = world.create(SERVICES, service(json!({}))).await;
    let slice = &world.items(SLICES).await[0];
    assert_eq!(slice["endpoints"], Value::Null);
    assert_eq!(slice["metadata"]["generateName"], "d-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": "d",
        })
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], s["metadata"]["uid"]);
    world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    let slices = world.items(SLICES).await;
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["ports"], json!([{"name": "http", "protocol": "TCP", "port": 8080}]));
    let endpoints = slices[0]["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 2);
    assert_eq!(endpoints[0]["conditions"], json!({"ready": true, "serving": true, "terminating": false}));
    let keys: Vec<&String> = endpoints[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["addresses", "conditions", "targetRef", "nodeName"]);
    let mirror = world.get(&format!("{ENDPOINTS}/d")).await;
    assert_eq!(
        mirror["metadata"]["labels"],
        json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    assert_eq!(mirror["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
    assert_eq!(mirror["subsets"][0]["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    // Pods that are not ready stay listed, unready.
    let fails = json!({"spec": {"template": {"metadata": {"annotations": {"sim/fail": "unready"}}}}});
    world.merge(&format!("{DEPLOYMENTS}/d"), fails).await;
    let slice = &world.items(SLICES).await[0];
    let ready: Vec<bool> =
        slice["endpoints"].as_array().unwrap().iter().map(|e| e["conditions"]["ready"] == true).collect();
    assert_eq!(ready.iter().filter(|r| !**r).count(), 1, "{slice}");
    world.delete(&format!("{SERVICES}/d")).await;
    assert!(world.items(SLICES).await.is_empty());
    assert_eq!(world.client.get(&format!("{ENDPOINTS}/d")).await.code, 404);
}

#[tokio::test]
async fn load_balancers_get_an_address() {
    let world = World::new();
    let mut object = service(json!({"type": "LoadBalancer"}));
    let path = format!("{SERVICES}/d");
    world.create(SERVICES, object.clone()).await;
    let found = world.get(&path).await;
    let address = found["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().unwrap();
    assert!(address.starts_with("172.18.255."), "{address}");
    world.delete(&path).await;
    object["metadata"]["annotations"] = json!({"sim/load-balancer": "none"});
    world.create(SERVICES, object.clone()).await;
    assert_eq!(world.get(&path).await["status"]["loadBalancer"], json!({}));
    world.delete(&path).await;
    object["metadata"]["annotations"] = json!({"sim/load-balancer": "192.0.2.1"});
    world.create(SERVICES, object).await;
    assert_eq!(world.get(&path).await["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
}

#[tokio::test]
async fn budgets_count_healthy_pods() {
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    for (spec, desired, allowed) in [
        (json!({"minAvailable": 2}), 2, 1),
        (json!({"minAvailable": "50%"}), 2, 1),
        (json!({"maxUnavailable": 0}), 3, 0),
    ] {
        let world = World::new();
        world.create(DEPLOYMENTS, deployment(3, json!({}), json!({}))).await;
        let mut full = json!({"selector": {"matchLabels": {"app": "a"}}});
        for (key, value) in spec.as_object().unwrap() {
            full[key] = value.clone();
        }
        let object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": full,
        });
        world.create(path, object).await;
        let b = world.get(&format!("{path}/b")).await;
        assert_eq!(
            counts(&b),
            json!({
                "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 3,
                "desiredHealthy": desired, "expectedPods": 3,
            }),
            "{spec}"
        );
        let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!(conditions(&b)[0][2], reason);
    }
}

#[tokio::test]
async fn autoscalers_keep_bounds() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(1, json!({}), json!({}))).await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "minReplicas": 2, "maxReplicas": 4,
        },
    });
    world.create(path, object).await;
    assert_eq!(world.get(&format!("{DEPLOYMENTS}/d")).await["spec"]["replicas"], 2);
    let h = world.get(&format!("{path}/h")).await;
    let told: Vec<Value> = conditions(&h).iter().map(|c| json!([c[0], c[1], c[2]])).collect();
    assert_eq!(
        told,
        [
            json!(["AbleToScale", "True", "SucceededGetScale"]),
            json!(["ScalingActive", "False", "FailedGetResourceMetric"]),
        ]
    );
}
