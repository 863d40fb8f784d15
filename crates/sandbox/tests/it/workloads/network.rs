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

#[tokio::test]
async fn endpoints_written_by_hand_are_mirrored() {
    let world = World::new();
    let mut object = service(json!({}));
    object["spec"].as_object_mut().unwrap().remove("selector");
    world.create(SERVICES, object).await;
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "d", "labels": {"own": "label"}},
        "subsets": [
            {"addresses": [{"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80}]},
            {"addresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 81, "name": "x", "appProtocol": "http"}]},
        ],
    });
    let made = world.create(ENDPOINTS, endpoints).await;
    let mut slices = world.items(SLICES).await;
    slices.sort_by_key(|slice| slice["addressType"].to_string());
    let said = |slice: &Value| json!([slice["addressType"], slice["endpoints"], slice["ports"]]);
    assert_eq!(
        slices.iter().map(said).collect::<Vec<_>>(),
        [
            json!(["IPv4", [
                {"addresses": ["192.0.2.1"], "conditions": {"ready": true}},
                {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
            ], [{"name": "", "protocol": "TCP", "port": 80}]]),
            json!(["IPv6", [{"addresses": ["2001:db8::1"], "conditions": {"ready": true}}],
                [{"name": "x", "protocol": "TCP", "port": 81, "appProtocol": "http"}]]),
        ]
    );
    assert_eq!(
        slices[0]["metadata"]["labels"],
        json!({
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            "kubernetes.io/service-name": "d", "own": "label",
        })
    );
    assert_eq!(slices[0]["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    let path = format!("{ENDPOINTS}/d");
    world
        .merge(&path, json!({"subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"port": 80}]}]}))
        .await;
    let slices = world.items(SLICES).await;
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["endpoints"][0]["addresses"], json!(["192.0.2.9"]));
    world
        .merge(&path, json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}))
        .await;
    assert!(world.items(SLICES).await.is_empty());
}

#[tokio::test]
async fn budgets_leave_pods_without_a_controller_out() {
    let world = World::new();
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let pod = json!({"metadata": {"name": "bare", "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.create(PODS, pod).await;
    for (name, spec, expected, desired) in [
        ("most", json!({"maxUnavailable": 0}), 0, 0),
        ("share", json!({"minAvailable": "50%"}), 0, 0),
        ("least", json!({"minAvailable": 1}), 1, 1),
        ("none", json!({}), 0, 0),
    ] {
        let mut full = json!({"selector": {"matchLabels": {"app": "a"}}});
        for (key, value) in spec.as_object().unwrap() {
            full[key] = value.clone();
        }
        let object = json!({"metadata": {"name": name}, "spec": full});
        world.create(path, object).await;
        let status = world.get(&format!("{path}/{name}")).await["status"].clone();
        assert_eq!(status["expectedPods"], expected, "{name}");
        assert_eq!(status["desiredHealthy"], desired, "{name}");
        assert_eq!(status["disruptionsAllowed"], 0, "{name}");
    }
}

#[tokio::test]
async fn quotas_keep_the_unit_of_what_they_add_up() {
    let world = World::new();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"requests.memory": "1Gi", "requests.cpu": "2", "requests.storage": "3Gi", "pods": "5"});
    world.create(quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let sized = |memory: &str| json!({"requests": {"memory": memory, "cpu": "500m"}});
    // Containers that run before the others count by the largest, sidecars add up.
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "initContainers": [
            {"name": "before", "image": "i", "resources": sized("600Mi")},
            {"name": "beside", "image": "i", "restartPolicy": "Always", "resources": sized("100Mi")},
        ],
        "containers": [{"name": "c", "image": "i", "resources": sized("200Mi")}],
    }});
    world.create(PODS, pod.clone()).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
    }});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    world.create(claims, claim.clone()).await;
    let used = world.get(&format!("{quotas}/q")).await["status"]["used"].clone();
    assert_eq!(
        used,
        json!({"pods": "1", "requests.cpu": "1", "requests.memory": "600Mi", "requests.storage": "2Gi"})
    );
    let mut second = claim;
    second["metadata"]["name"] = "d".into();
    let refused = world.client.post(claims, &second).await;
    assert!(
        refused.text.contains(
            "exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi"
        ),
        "{}",
        refused.text
    );
    // A scope about affinity counts pods that look into other namespaces.
    let scope =
        json!({"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]});
    let near = json!({"metadata": {"name": "near"}, "spec": {"hard": {"pods": "0"}, "scopeSelector": scope}});
    world.create(quotas, near).await;
    let mut pod = pod;
    pod["metadata"]["name"] = "q".into();
    pod["spec"]["initContainers"] = Value::Null;
    pod["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "a", "namespaces": ["other"], "labelSelector": {"matchLabels": {"a": "b"}}},
    ]}});
    assert_eq!(world.client.post(PODS, &pod).await.code, 403);
}
