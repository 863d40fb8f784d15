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

/// As Flux names them; built-in kinds of most groups refuse such names.
#[tokio::test]
async fn finalizers_without_a_domain_are_taken_where_a_server_takes_them() {
    let (_sandbox, client) = bare();
    define(&client).await;
    let mut held = widget(&json!({"size": 3}));
    held["metadata"]["finalizers"] = json!(["finalizers.example.com"]);
    assert_eq!(client.post(WIDGETS, &held).await.code, 201);
    let more = json!({"metadata": {"finalizers": ["finalizers.example.com", "more.example.com"]}});
    assert_eq!(client.patch(&format!("{WIDGETS}/w"), MERGE, &more).await.code, 200);
    let metadata = json!({"name": "f", "finalizers": ["finalizers.example.com"]});
    for (path, version, kind, code) in [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1", "Lease", 201),
        ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap", 422),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            422,
        ),
    ] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        let answer = client.post(path, &object).await;
        assert_eq!(answer.code, code, "{kind}: {}", answer.text);
        let told =
            answer.text.contains("name is neither a standard finalizer name nor is it fully qualified");
        assert_eq!(told, code == 422, "{kind}: {}", answer.text);
    }
    let bare = json!({"metadata": {"finalizers": ["finalizers.example.com"]}});
    client
        .post(
            "/api/v1/namespaces/default/configmaps",
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
        )
        .await;
    assert_eq!(client.patch("/api/v1/namespaces/default/configmaps/c", MERGE, &bare).await.code, 422);
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

#[tokio::test]
async fn defaults_reach_objects_that_are_older_than_they() {
    let (_sandbox, client) = bare();
    let path = format!("{DEFINITIONS}/widgets.a.example.com");
    let mut without = definition();
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    without.pointer_mut(properties).unwrap().as_object_mut().unwrap().remove("mode");
    assert_eq!(client.post(DEFINITIONS, &without).await.code, 201);
    assert_eq!(client.post(WIDGETS, &widget(&json!({"size": 1}))).await.code, 201);
    let mut stored = client.get(&path).await.body;
    stored["spec"] = definition()["spec"].clone();
    assert_eq!(client.put(&path, &stored).await.code, 200);
    let one = client.get(&format!("{WIDGETS}/w")).await.body;
    assert_eq!((&one["spec"]["mode"], &one["apiVersion"]), (&json!("A"), &json!("a.example.com/v1")));
    assert_eq!(client.get(WIDGETS).await.body["items"][0]["spec"]["mode"], "A");
    let watched = client.get(&format!("{WIDGETS}?watch=true&resourceVersion=0&timeoutSeconds=1")).await.text;
    assert!(watched.contains("\"mode\":\"A\""), "{watched}");
}

#[tokio::test]
async fn versions_once_stored_stay_in_the_definition() {
    let (_sandbox, client) = bare();
    define(&client).await;
    let path = format!("{DEFINITIONS}/widgets.a.example.com");
    let mut stored = client.get(&path).await.body;
    let mut second = stored["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    stored["spec"]["versions"] = json!([second]);
    let refused = client.put(&path, &stored).await;
    assert_eq!(refused.code, 422, "{}", refused.text);
    assert!(
        refused
            .text
            .contains("status.storedVersions[0]: Invalid value: \\\"v1\\\": missing from spec.versions"),
        "{}",
        refused.text
    );
}
