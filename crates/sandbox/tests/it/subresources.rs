//! What subresources accept: statuses, scales, added and resized containers, evictions, tokens, reviews.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, MERGE, STRATEGIC, bare};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod that nobody schedules.
fn waiting_pod(name: &str) -> Value {
    let amounts = |cpu: &str| json!({"cpu": cpu, "memory": "64Mi"});
    let resources = json!({"requests": amounts("100m"), "limits": amounts("200m")});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "schedulerName": "nobody", "containers": [{"name": "c", "image": "i", "resources": resources}],
    }})
}

/// The fields and messages of what an answer complains about.
fn causes(body: &Value) -> Vec<(String, String)> {
    let all = body["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    all.map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect()
}

fn cause(field: &str, message: &str) -> (String, String) {
    (field.to_owned(), message.to_owned())
}

#[tokio::test]
async fn statuses_are_validated_for_their_kind() {
    let (_sandbox, client) = bare();
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "serviceName": "x", "template": template,
        }})
    };
    for (plural, kind, status, field, message) in [
        (
            "deployments",
            "Deployment",
            json!({"replicas": 1, "updatedReplicas": 2}),
            "status.updatedReplicas",
            "Invalid value: 2: cannot be greater than status.replicas",
        ),
        (
            "statefulsets",
            "StatefulSet",
            json!({"replicas": 2, "availableReplicas": 2, "readyReplicas": 1}),
            "status.availableReplicas",
            "Invalid value: 2: cannot be greater than status.readyReplicas",
        ),
        (
            "replicasets",
            "ReplicaSet",
            json!({"replicas": 2, "availableReplicas": 2, "readyReplicas": 1}),
            "status.availableReplicas",
            "Invalid value: 2: cannot be greater than readyReplicas",
        ),
    ] {
        let place = format!("/apis/apps/v1/namespaces/default/{plural}");
        let made = client.post(&place, &workload(kind)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let at = format!("{place}/x/status?dryRun=All");
        let answer = client.patch(&at, MERGE, &json!({"status": status})).await;
        assert_eq!(answer.code, 422, "{kind}: {}", answer.text);
        assert_eq!(causes(&answer.body), [cause(field, message)], "{kind}");
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"suspend": true, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(client.post("/apis/batch/v1/namespaces/default/jobs", &job).await.code, 201);
    let done = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let at = "/apis/batch/v1/namespaces/default/jobs/x/status?dryRun=All";
    let answer = client.patch(at, STRATEGIC, &done).await;
    let why =
        "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
    assert!(causes(&answer.body).contains(&cause("status.conditions", why)), "{}", answer.text);

    client.post(PODS, &waiting_pod("p")).await;
    let at = format!("{PODS}/p/status?dryRun=All");
    let answer =
        client.patch(&at, MERGE, &json!({"status": {"qosClass": "Guaranteed", "podIP": "10.0.0.1"}})).await;
    let why = "Invalid value: null: podIP and podIPs must either both be set or both be unset";
    assert!(causes(&answer.body).contains(&cause("status.podIPs", why)), "{}", answer.text);
    let why = "Invalid value: \"Guaranteed\": field is immutable";
    assert!(causes(&answer.body).contains(&cause("status.qosClass", why)), "{}", answer.text);

    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    client.post("/api/v1/nodes", &node).await;
    let negative = json!({"status": {"capacity": {"cpu": "-1"}}});
    assert_eq!(client.patch("/api/v1/nodes/n/status?dryRun=All", MERGE, &negative).await.code, 422);
}

#[tokio::test]
async fn added_containers_are_validated_like_others() {
    let (_sandbox, client) = bare();
    client.post(PODS, &waiting_pod("p")).await;
    let at = format!("{PODS}/p/ephemeralcontainers?dryRun=All");
    for (container, field) in [
        (json!({"name": "e"}), "image"),
        (json!({"name": "E_", "image": "i"}), "name"),
        (json!({"name": "e", "image": "i", "targetContainerName": "z"}), "targetContainerName"),
        (json!({"name": "e", "image": "i", "resources": {"limits": {"cpu": "1"}}}), "resources"),
        (
            json!({"name": "e", "image": "i", "volumeMounts": [{"name": "no", "mountPath": "/x"}]}),
            "volumeMounts[0].name",
        ),
    ] {
        let patch = json!({"spec": {"ephemeralContainers": [container]}});
        let answer = client.patch(&at, STRATEGIC, &patch).await;
        let field = format!("spec.ephemeralContainers[0].{field}");
        assert_eq!(answer.code, 422, "{field}: {}", answer.text);
        assert!(causes(&answer.body).iter().any(|(at, _)| *at == field), "{field}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_resize_changes_processor_and_memory_alone() {
    let (_sandbox, client) = bare();
    client.post(PODS, &waiting_pod("p")).await;
    let at = format!("{PODS}/p/resize?dryRun=All");
    let resize = |container: Value| json!({"spec": {"containers": [container]}});
    let good = resize(json!({"name": "c", "resources": {"requests": {"cpu": "150m"}}}));
    let answer = client.patch(&at, STRATEGIC, &good).await;
    assert_eq!(
        answer.body["spec"]["containers"][0]["resources"]["requests"]["cpu"], "150m",
        "{}",
        answer.text
    );
    for (container, field, message) in [
        (
            json!({"name": "new", "image": "i"}),
            "spec.containers",
            "Forbidden: containers may not be added or removed on resize",
        ),
        (
            json!({"name": "c", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}),
            "spec",
            "Forbidden: only cpu and memory resources are mutable",
        ),
        (
            json!({"name": "c", "resources": {"requests": {"cpu": "300m"}}}),
            "spec.containers[0].resources.requests",
            "Invalid value: \"300m\": must be less than or equal to cpu limit of 200m",
        ),
    ] {
        let answer = client.patch(&at, STRATEGIC, &resize(container)).await;
        assert_eq!(causes(&answer.body), [cause(field, message)], "{}", answer.text);
    }
}

#[tokio::test]
async fn a_scale_is_read_as_strictly_as_it_is_asked() {
    let (_sandbox, client) = bare();
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    client.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    let at = "/apis/apps/v1/namespaces/default/deployments/d/scale?dryRun=All";
    let odd = json!({"spec": {"nope": 1}});
    let strict = client.patch(&format!("{at}&fieldValidation=Strict"), MERGE, &odd).await;
    assert_eq!(strict.code, 422, "{}", strict.text);
    let warned = client.patch(at, MERGE, &odd).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.nope\\\"\"");
    let nameless = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}});
    assert_eq!(client.put(at, &nameless).await.code, 400);
    let other = json!({"apiVersion": "autoscaling/v2", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 1}});
    assert_eq!(client.put(at, &other).await.code, 400);
}

#[tokio::test]
async fn what_is_asked_of_a_subresource_must_be_about_it() {
    let (_sandbox, client) = bare();
    client.post(PODS, &waiting_pod("p")).await;
    let nameless = client.post(&format!("{PODS}/p/eviction"), &json!({})).await;
    assert_eq!(nameless.body["message"], "name in URL does not match name in Eviction object");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let wrong = client.post(&format!("{PODS}/p/eviction"), &pod).await;
    assert_eq!(
        wrong.body["message"],
        "Pod in version \"v1\" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): unknown conversion"
    );
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    client.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
    let at = "/api/v1/namespaces/default/serviceaccounts/a/token";
    let request = |namespace: &str, bound: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"namespace": namespace}, "spec": {"boundObjectRef": bound}});
    assert_eq!(client.post(at, &request("other", Value::Null)).await.code, 400);
    let nameless = client.post(at, &request("default", json!({"kind": "Pod", "apiVersion": "v1"}))).await;
    assert_eq!(nameless.body["message"], "Name parameter required.");
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {}});
    assert_eq!(client.post(reviews, &review).await.body["message"], "no namespace on request");
    let named = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {"name": "x"},
                       "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let answer = client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &named).await;
    assert_eq!(answer.code, 422, "{}", answer.text);
}

#[tokio::test]
async fn collections_are_deleted_at_a_version_that_can_be_read() {
    let (_sandbox, client) = bare();
    let delete = |query: &'static str| client.request("DELETE", query, &[], Vec::new());
    let bad = delete("/api/v1/namespaces/default/configmaps?resourceVersion=x").await;
    assert_eq!(bad.code, 400, "{}", bad.text);
    let bad = delete("/api/v1/namespaces/default/configmaps?resourceVersionMatch=Exact").await;
    assert_eq!(bad.code, 422, "{}", bad.text);
}

#[tokio::test]
async fn an_apply_to_an_object_needs_no_name_in_the_body() {
    let (_sandbox, client) = bare();
    client.post(CONFIG_MAPS, &crate::client::config_map("a")).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}).to_string().into_bytes();
    let headers = [("content-type", "application/apply-patch+yaml")];
    let apply = |name: &str| format!("{CONFIG_MAPS}/{name}?fieldManager=m");
    let answer = client.request("PATCH", &apply("a"), &headers, body.clone()).await;
    assert_eq!(answer.body["data"]["k"], "v", "{}", answer.text);
    assert_eq!(client.request("PATCH", &apply("b"), &headers, body).await.code, 400);
}

#[tokio::test]
async fn addresses_are_named_as_they_are_best_written() {
    let (_sandbox, client) = bare();
    let address = |name: &str| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": name},
               "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "x"}}})
    };
    let place = "/apis/networking.k8s.io/v1/ipaddresses?dryRun=All";
    assert_eq!(client.post(place, &address("fd00::1")).await.code, 201);
    for (name, why) in
        [("fd00::01", "must be in canonical form (\"fd00::1\")"), ("x", "must be a valid IP address")]
    {
        let answer = client.post(place, &address(name)).await;
        assert!(causes(&answer.body)[0].1.contains(why), "{}", answer.text);
    }
}

#[tokio::test]
async fn health_is_told_however_it_is_asked() {
    let (_sandbox, client) = bare();
    for method in ["HEAD", "OPTIONS", "POST"] {
        assert_eq!(client.request(method, "/healthz", &[], Vec::new()).await.code, 200, "{method}");
    }
    assert_eq!(client.get("/livez/").await.code, 404);
    assert_eq!(client.get("/readyz/ping").await.code, 200);
}

#[tokio::test]
async fn an_update_of_a_node_leaves_its_status() {
    let (_sandbox, client) = bare();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}});
    let made = client.post("/api/v1/nodes", &node).await;
    assert_eq!(made.body["status"]["allocatable"]["cpu"], "4", "{}", made.text);
    let change = json!({"spec": {"unschedulable": true}, "status": {"capacity": {"cpu": "8"}}});
    let changed = client.patch("/api/v1/nodes/n", MERGE, &change).await;
    assert_eq!(changed.body["spec"]["unschedulable"], true, "{}", changed.text);
    assert_eq!(changed.body["status"]["capacity"]["cpu"], "4");
}

#[tokio::test]
async fn the_addresses_of_a_balancer_are_reached_as_virtual_ones() {
    let (_sandbox, client) = bare();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "annotations": {"sim/load-balancer": "none"}},
                         "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    client.post("/api/v1/namespaces/default/services", &service).await;
    let at = "/api/v1/namespaces/default/services/s/status?dryRun=All";
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}});
    let answer = client.patch(at, MERGE, &status).await;
    assert_eq!(answer.body["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP", "{}", answer.text);
    let twice = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "1.2.3.4"}]}}});
    assert_eq!(client.patch(at, MERGE, &twice).await.code, 422);
}

#[tokio::test]
async fn a_job_of_another_manager_is_left_to_it() {
    let sandbox = slipway_sandbox::Sandbox::builder().seed(7).build().unwrap();
    let client = crate::client::Client::new(&sandbox);
    let place = "/apis/batch/v1/namespaces/default/jobs";
    for (name, manager) in [("mine", "kubernetes.io/job-controller"), ("theirs", "example.com/controller")] {
        let template =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                         "spec": {"managedBy": manager, "template": template}});
        assert_eq!(client.post(place, &job).await.code, 201);
    }
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{place}/theirs")).await.body["status"], json!({}));
    assert_ne!(client.get(&format!("{place}/mine")).await.body["status"], json!({}));
}
