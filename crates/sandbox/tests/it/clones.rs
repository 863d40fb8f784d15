//! Copying one cluster's objects into another.

use serde_json::{Value, json};
use slipway_sandbox::Sandbox;
use slipway_sandbox::clone::{self, CloneSelection, ObjectReference, SecretHandling};

use crate::client::{Client, config_map};

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut out = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    for (key, value) in rest.as_object().into_iter().flatten() {
        if key == "metadata" {
            for (key, value) in value.as_object().into_iter().flatten() {
                out["metadata"][key] = value.clone();
            }
        } else {
            out[key] = value.clone();
        }
    }
    out
}

const SHOP: &str = "/api/v1/namespaces/shop";

/// A cluster with a shop in it.
async fn shop() -> (Sandbox, Client) {
    let sandbox = Sandbox::builder().build().unwrap();
    let client = Client::new(&sandbox);
    let post = async |path: &str, body: Value| {
        let answer = client.post(path, &body).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        answer.body
    };
    post(
        "/api/v1/namespaces",
        object("v1", "Namespace", "shop", json!({"metadata": {"labels": {"team": "a"}}})),
    )
    .await;
    let definition = json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "databases", "singular": "database", "kind": "Database", "listKind": "DatabaseList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
    }});
    post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "databases.example.com", definition),
    )
    .await;
    let databases = "/apis/example.com/v1/namespaces/shop/databases";
    let finalizers = json!({"metadata": {"finalizers": ["example.com/cleanup"]}, "spec": {"size": 1}});
    let database = post(databases, object("example.com/v1", "Database", "main", finalizers)).await;
    let status = json!({"status": {"phase": "Running"}});
    client.patch(&format!("{databases}/main/status"), crate::client::MERGE, &status).await;
    let owner = |object: &Value| {
        json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
                "uid": object["metadata"]["uid"]}])
    };
    post(
        &format!("{SHOP}/secrets"),
        object(
            "v1",
            "Secret",
            "password",
            json!({
                "metadata": {"ownerReferences": owner(&database), "labels": {"app": "shop"}},
                "data": {"password": "aHVudGVyMg=="},
            }),
        ),
    )
    .await;
    post(&format!("{SHOP}/serviceaccounts"), object("v1", "ServiceAccount", "runner", json!({}))).await;
    post(
        &format!("{SHOP}/services"),
        object(
            "v1",
            "Service",
            "web",
            json!({"spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]}}),
        ),
    )
    .await;
    let spec = json!({
        "metadata": {"labels": {"app": "shop"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "shop"}}, "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"serviceAccountName": "runner", "containers": [{"name": "c", "image": "i"}]},
        }},
    });
    post("/apis/apps/v1/namespaces/shop/deployments", object("apps/v1", "Deployment", "web", spec)).await;
    post("/api/v1/namespaces/default/configmaps", config_map("elsewhere")).await;
    sandbox.settle().await;
    (sandbox, client)
}

#[tokio::test]
async fn a_namespace_comes_over_and_lives() {
    let (source, there) = shop().await;
    let sandbox = Sandbox::builder().build().unwrap();
    let here = Client::new(&sandbox);
    let selection = CloneSelection { namespaces: vec!["shop".into()], ..CloneSelection::default() };
    let report = clone::from_client(&sandbox, source.client(), &selection).await.unwrap();
    sandbox.settle().await;

    assert_eq!(report.copied["Deployment"], 1, "{report:?}");
    assert!(!report.copied.contains_key("Pod") && !report.copied.contains_key("ReplicaSet"), "{report:?}");
    assert_eq!((report.secrets_replaced, report.finalizers_dropped), (1, 1));
    assert_eq!(report.unreadable, std::collections::BTreeMap::new());
    assert_eq!(here.get("/api/v1/namespaces/shop").await.body["metadata"]["labels"]["team"], "a");
    assert_eq!(here.get("/api/v1/namespaces/default/configmaps/elsewhere").await.code, 404);
    let secret = here.get(&format!("{SHOP}/secrets/password")).await.body;
    assert_eq!(secret["data"]["password"], "cmVwbGFjZWQ=");
    let database = here.get("/apis/example.com/v1/namespaces/shop/databases/main").await.body;
    assert_eq!(database["status"]["phase"], "Running");
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], database["metadata"]["uid"]);
    let (web, was) = (
        here.get("/apis/apps/v1/namespaces/shop/deployments/web").await.body,
        there.get("/apis/apps/v1/namespaces/shop/deployments/web").await.body,
    );
    assert_eq!(web["status"]["readyReplicas"], 2);
    assert_eq!(web["spec"], was["spec"]);
    assert_eq!(web["metadata"]["uid"], was["metadata"]["uid"]);
    let of_the_author = |object: &Value| {
        let managers = object["metadata"]["managedFields"].as_array().unwrap();
        managers.iter().find(|entry| entry["manager"] == "tests").cloned()
    };
    assert_eq!(of_the_author(&web), of_the_author(&was));

    // Again: what is there takes the other's content and keeps its uid.
    let again = clone::from_client(&sandbox, source.client(), &selection).await.unwrap();
    assert_eq!(again.total_copied(), report.total_copied());
    sandbox.settle().await;
    assert_eq!(here.get(&format!("{SHOP}/pods")).await.body["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_of_objects_brings_what_they_need() {
    let (source, _) = shop().await;
    let sandbox = Sandbox::builder().build().unwrap();
    let here = Client::new(&sandbox);
    let selection = CloneSelection::of_objects([
        ObjectReference::new("apps/v1", "Deployment", "shop", "web"),
        ObjectReference::new("v1", "Secret", "shop", "password"),
        ObjectReference::new("example.com/v1", "Database", "shop", "not-yet"),
        ObjectReference::new("example.com/v1", "Unknown", "shop", "x"),
    ])
    .with_secrets(SecretHandling::Copied);
    let report = clone::from_client(&sandbox, source.client(), &selection).await.unwrap();
    sandbox.settle().await;
    let absent: Vec<String> = report.absent.iter().map(ToString::to_string).collect();
    assert_eq!(absent, ["Database shop/not-yet", "Unknown shop/x"]);
    let web = here.get("/apis/apps/v1/namespaces/shop/deployments/web").await.body;
    assert_eq!(web["status"]["readyReplicas"], 2, "its service account came along: {web}");
    let secret = here.get(&format!("{SHOP}/secrets/password")).await.body;
    assert_eq!(secret["data"]["password"], "aHVudGVyMg==");
    assert_eq!(secret["metadata"].get("ownerReferences"), None, "its owner did not come along");
    assert_eq!(here.get("/apis/example.com/v1/databases").await.code, 200, "the definition did");
    assert_eq!(here.get(&format!("{SHOP}/services/web")).await.code, 404);
}

#[tokio::test]
async fn kinds_and_labels_narrow_the_choice() {
    let (source, _) = shop().await;
    let run = async |kinds: &[&str], labels: Option<&str>| {
        let sandbox = Sandbox::builder().without_workloads().build().unwrap();
        let selection = CloneSelection {
            kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
            labels: labels.map(str::to_owned),
            ..CloneSelection::default()
        };
        let report = clone::from_client(&sandbox, source.client(), &selection).await;
        report.map(|report| report.copied.into_iter().map(|(k, n)| format!("{k} {n}")).collect::<Vec<_>>())
    };
    assert_eq!(run(&["deploy", "secrets"], None).await.unwrap(), ["Deployment 1", "Namespace 1", "Secret 1"]);
    assert_eq!(
        run(&["Database"], None).await.unwrap(),
        ["CustomResourceDefinition 1", "Database 1", "Namespace 1"]
    );
    assert_eq!(
        run(&["secret", "svc", "deployments.apps"], Some("app=shop")).await.unwrap(),
        ["Deployment 1", "Namespace 1", "Secret 1"]
    );
    let error = run(&["gizmos"], None).await.unwrap_err().to_string();
    assert!(error.contains("gizmos"), "{error}");
}
