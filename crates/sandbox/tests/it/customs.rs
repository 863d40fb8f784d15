//! Custom resources, from their definition to their end.

use serde_json::{Value, json};

use crate::client::{APPLY, Client, MERGE, STRATEGIC, bare};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/a.example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.a.example.com"},
        "spec": {
            "group": "a.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 1},
                        "mode": {"type": "string", "default": "A"},
                        "replicas": {"type": "integer"},
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

async fn define(client: &Client) {
    let created = client.post(DEFINITIONS, &definition()).await;
    assert_eq!(created.code, 201, "{}", created.text);
}

#[tokio::test]
async fn established_means_served() {
    let (_sandbox, client) = bare();
    define(&client).await;
    let stored = client.get(&format!("{DEFINITIONS}/widgets.a.example.com")).await.body;
    assert_eq!(stored["spec"]["names"]["listKind"], "WidgetList");
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    assert_eq!(client.get("/apis/a.example.com/v1").await.body["resources"][0]["name"], "widgets");
    assert_eq!(client.get(WIDGETS).await.body["kind"], "WidgetList");
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let (_sandbox, client) = bare();
    define(&client).await;
    let created = client.post(WIDGETS, &widget(&json!({"size": 3, "unknown": 1}))).await;
    assert_eq!(created.body["spec"], json!({"mode": "A", "size": 3}), "{}", created.text);
    assert_eq!(created.headers["warning"], "299 - \"unknown field \\\"spec.unknown\\\"\"");
    let mut bad = widget(&json!({"size": 0}));
    bad["metadata"]["name"] = json!("bad");
    let refused = client.post(WIDGETS, &bad).await;
    assert_eq!(
        refused.body["message"],
        "Widget.a.example.com \"bad\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    let unversioned = client.put(&format!("{WIDGETS}/w"), &widget(&json!({"size": 4}))).await;
    assert_eq!(
        unversioned.body["message"],
        "widgets.a.example.com \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    assert_eq!(client.patch(&format!("{WIDGETS}/w"), STRATEGIC, &json!({})).await.code, 415);
}

#[tokio::test]
async fn subresources_and_ownership() {
    let (_sandbox, client) = bare();
    define(&client).await;
    let path = format!("{WIDGETS}/w");
    let applied = client.patch(&format!("{path}?fieldManager=m"), APPLY, &widget(&json!({"size": 1}))).await;
    assert_eq!(applied.code, 201, "{}", applied.text);
    let status = client
        .patch(&format!("{path}/status"), MERGE, &json!({"status": {"x": 1}, "spec": {"size": 9}}))
        .await;
    assert_eq!((&status.body["status"]["x"], &status.body["spec"]["size"]), (&json!(1), &json!(1)));
    assert_eq!(status.body["metadata"]["generation"], 1);
    let scaled = client.patch(&format!("{path}/scale"), MERGE, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!(scaled.body["spec"]["replicas"], 2, "{}", scaled.text);
    let conflict = client.patch(&format!("{path}?fieldManager=n"), APPLY, &widget(&json!({"size": 2}))).await;
    assert_eq!(conflict.body["message"], "Apply failed with 1 conflict: conflict with \"m\": .spec.size");
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects() {
    let (sandbox, client) = bare();
    define(&client).await;
    client.post(WIDGETS, &widget(&json!({"size": 1}))).await;
    let going = client.delete(&format!("{DEFINITIONS}/widgets.a.example.com")).await;
    assert!(going.body["metadata"]["deletionTimestamp"].is_string());
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{DEFINITIONS}/widgets.a.example.com")).await.code, 404);
    assert_eq!(client.get(WIDGETS).await.text, "404 page not found\n");
}
