//! What built-in kinds are filled in with, and refused for.

use serde_json::{Value, json};

use crate::client::bare;

fn at(kind: &str) -> String {
    format!("/api/v1/namespaces/default/{kind}")
}

#[tokio::test]
async fn pods_are_furnished() {
    let (_sandbox, client) = bare();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "0.5"}}, "ports": [{"containerPort": 80}]},
    ]}});
    let made = client.post(&at("pods"), &pod).await.body;
    let container = &made["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["resources"], json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}));
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "Burstable"}));
}

#[tokio::test]
async fn services_get_addresses() {
    let (_sandbox, client) = bare();
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let made = client.post(&at("services"), &service).await.body;
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    assert!((30000..=32767).contains(&made["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    assert_eq!(made["spec"]["ports"][0]["targetPort"], 80);
}

#[tokio::test]
async fn refusals() {
    let (_sandbox, client) = bare();
    let cases: Vec<(&str, Value, &str)> = vec![
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "d"}, "spec": {}}),
            "Deployment.apps \"d\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]",
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "nope", "containers": [{"name": "c", "image": "i"}]}}),
            "pods \"p\" is forbidden: error looking up service account default/nope: serviceaccount \"nope\" not found",
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "s"}, "spec": {"type": "Foo", "ports": [{"port": 1}]}}),
            "Service \"s\" is invalid: spec.type: Unsupported value: \"Foo\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            "Job.batch \"j\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
    ];
    for (path, object, message) in cases {
        assert_eq!(client.post(path, &object).await.body["message"], message);
    }
}

#[tokio::test]
async fn secrets_from_protobuf() {
    let (_sandbox, client) = bare();
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "demo"}})).await;
    let hex = "6b3873000a0c0a027631120653656372657412220a160a02733112001a0464656d6f22002a0032003800420012060a01611201621a001a002200";
    let body: Vec<u8> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let made = client.request("POST", "/api/v1/namespaces/demo/secrets", &headers, body).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!((&made.body["data"]["a"], &made.body["type"]), (&json!("Yg=="), &json!("Opaque")));
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let (_sandbox, client) = bare();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "null",
        "[]",
        "\"x\"",
        "{",
        "{\"metadata\":{\"name\":[]}}",
        "{\"metadata\":\"x\"}",
        deep.as_str(),
        "\u{0}",
    ];
    for body in bodies {
        for (method, kind) in [
            ("POST", "application/json"),
            ("POST", "application/yaml"),
            ("POST", "application/vnd.kubernetes.protobuf"),
        ] {
            let answer =
                client.request(method, &at("configmaps"), &[("content-type", kind)], body.to_owned()).await;
            assert!((400..=422).contains(&answer.code), "{kind} {:.20}: {}", body, answer.text);
        }
    }
    let huge = "x".repeat(4 << 20);
    assert_eq!(client.request("POST", &at("configmaps"), &[], huge).await.code, 413);
}
