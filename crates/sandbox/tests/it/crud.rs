//! Creating, reading, replacing, patching and deleting.

use serde_json::json;

use crate::client::{APPLY, CONFIG_MAPS, JSON_PATCH, MERGE, STRATEGIC, bare, config_map};

#[tokio::test]
async fn lifecycle_of_a_config_map() {
    let (_sandbox, client) = bare();
    let created = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert!(created.text.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","#));
    let path = format!("{CONFIG_MAPS}/x");
    let mut object = client.get(&path).await.body;
    assert_eq!(object, created.body);
    object["data"] = json!({"a": "2", "b": "3"});
    let replaced = client.put(&path, &object).await;
    assert_eq!(replaced.code, 200, "{}", replaced.text);
    assert_ne!(replaced.body["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    let patched = client.patch(&path, MERGE, &json!({"data": {"b": null, "c": "4"}})).await;
    assert_eq!(patched.body["data"], json!({"a": "2", "c": "4"}));
    let deleted = client.delete(&path).await;
    assert_eq!(deleted.body["status"], "Success");
    assert_eq!(deleted.body["details"]["kind"], "configmaps");
    let missing = client.get(&path).await;
    assert_eq!(missing.code, 404);
    assert_eq!(missing.body["message"], "configmaps \"x\" not found");
}

#[tokio::test]
async fn refusals_have_the_words_clients_look_for() {
    let (_sandbox, client) = bare();
    client.post(CONFIG_MAPS, &config_map("a")).await;
    let stale = client.get(&format!("{CONFIG_MAPS}/a")).await.body;
    client.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({"data": {"z": "1"}})).await;
    let mut with_version = config_map("b");
    with_version["metadata"]["resourceVersion"] = json!("12");
    let cases = [
        (client.post(CONFIG_MAPS, &config_map("a")).await, 409, "configmaps \"a\" already exists"),
        (
            client.put(&format!("{CONFIG_MAPS}/a"), &stale).await,
            409,
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        (
            client.post(CONFIG_MAPS, &with_version).await,
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            client.post("/api/v1/namespaces/nope/configmaps", &config_map("x")).await,
            404,
            "namespaces \"nope\" not found",
        ),
        (
            client.put(&format!("{CONFIG_MAPS}/a"), &config_map("b")).await,
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            client.request("POST", CONFIG_MAPS, &[], r#"{"metadata":"#).await,
            400,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"metadata\":)",
        ),
        (
            client.post(CONFIG_MAPS, &json!({"metadata": {"name": "t"}, "data": {"a": 1}})).await,
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            client.post(CONFIG_MAPS, &json!({"metadata": {}})).await,
            422,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            client.delete("/api/v1/namespaces/default").await,
            403,
            "namespaces \"default\" is forbidden: this namespace may not be deleted",
        ),
    ];
    for (answer, code, message) in cases {
        assert_eq!((answer.code, answer.body["message"].as_str().unwrap_or("")), (code, message));
    }
}

#[tokio::test]
async fn nothing_changes_when_nothing_is_written() {
    let (_sandbox, client) = bare();
    let object = client.post(CONFIG_MAPS, &config_map("x")).await.body;
    let path = format!("{CONFIG_MAPS}/x");
    let version = &object["metadata"]["resourceVersion"];
    assert_eq!(client.put(&path, &object).await.body["metadata"]["resourceVersion"], *version);
    let patched = client.patch(&path, MERGE, &json!({"data": {"a": "1"}})).await;
    assert_eq!(patched.body["metadata"]["resourceVersion"], *version);
    let dry = client.patch(&format!("{path}?dryRun=All"), MERGE, &json!({"data": {"a": "2"}})).await;
    assert_eq!(dry.body["data"]["a"], "2");
    assert_eq!(client.get(&path).await.body, object);
}

#[tokio::test]
async fn four_kinds_of_patches() {
    let (_sandbox, client) = bare();
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c1", "image": "i:1"}, {"name": "c2", "image": "i:1"}]},
        }},
    });
    let applied = client.patch(&format!("{path}?fieldManager=m"), APPLY, &deployment).await;
    assert_eq!(applied.code, 201, "{}", applied.text);
    assert_eq!(applied.body["spec"]["replicas"], 1);
    assert_eq!(applied.body["metadata"]["generation"], 1);
    let entry = &applied.body["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("m"), &json!("Apply")));
    assert_eq!(entry["fieldsV1"]["f:spec"].get("f:replicas"), None);
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c1", "image": "i:2"}]}}}});
    let strategic = client.patch(path, STRATEGIC, &patch).await;
    let containers = &strategic.body["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["image"], &containers[1]["image"]), (&json!("i:2"), &json!("i:1")));
    assert_eq!(strategic.body["metadata"]["generation"], 2);
    let json = client
        .patch(path, JSON_PATCH, &json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]))
        .await;
    assert_eq!(json.body["spec"]["replicas"], 3);
    let conflict = client.patch(&format!("{path}?fieldManager=m"), APPLY, &deployment).await;
    assert_eq!(conflict.code, 409);
    assert_eq!(
        conflict.body["message"],
        "Apply failed with 1 conflict: conflict with \"tests\" using apps/v1: .spec.template.spec.containers[name=\"c1\"].image"
    );
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let (_sandbox, client) = bare();
    let mut object = config_map("f");
    object["metadata"]["finalizers"] = json!(["a.io/b"]);
    client.post(CONFIG_MAPS, &object).await;
    let path = format!("{CONFIG_MAPS}/f");
    let pending = client.delete(&path).await;
    assert_eq!(pending.body["kind"], "ConfigMap");
    assert!(pending.body["metadata"]["deletionTimestamp"].is_string());
    let again = client.post(CONFIG_MAPS, &config_map("f")).await;
    assert_eq!(again.body["message"], "object is being deleted: configmaps \"f\" already exists");
    let more = client.patch(&path, MERGE, &json!({"metadata": {"finalizers": ["a.io/b", "q.r/s"]}})).await;
    assert_eq!(
        more.body["message"],
        "ConfigMap \"f\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"q.r/s\"}"
    );
    let last = client.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(last.code, 200);
    assert_eq!(client.get(&path).await.code, 404);
}

#[tokio::test]
async fn owners_take_their_dependents_along() {
    let (sandbox, client) = bare();
    let owner = client.post(CONFIG_MAPS, &config_map("own")).await.body;
    let mut dependent = config_map("dep");
    dependent["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "own", "uid": owner["metadata"]["uid"]},
    ]);
    client.post(CONFIG_MAPS, &dependent).await;
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/dep")).await.code, 200);
    client.delete(&format!("{CONFIG_MAPS}/own?propagationPolicy=Orphan")).await;
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/own")).await.code, 404);
    let orphan = client.get(&format!("{CONFIG_MAPS}/dep")).await;
    assert_eq!(orphan.body["metadata"].get("ownerReferences"), None);
    dependent["metadata"]["name"] = json!("dangling");
    client.post(CONFIG_MAPS, &dependent).await;
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/dangling")).await.code, 404);
}

#[tokio::test]
async fn a_namespace_goes_with_its_content() {
    let (sandbox, client) = bare();
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    assert_eq!(client.get(&format!("{maps}/kube-root-ca.crt")).await.code, 200);
    assert_eq!(client.get("/api/v1/namespaces/n/serviceaccounts/default").await.code, 200);
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["a.io/b"]);
    client.post(maps, &held).await;
    let going = client.delete("/api/v1/namespaces/n").await;
    assert_eq!(going.body["status"]["phase"], "Terminating");
    let refused = client.post(maps, &config_map("y")).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    sandbox.settle().await;
    let conditions = client.get("/api/v1/namespaces/n").await.body["status"]["conditions"].clone();
    let find =
        |kind: &str| conditions.as_array().unwrap().iter().find(|c| c["type"] == kind).cloned().unwrap();
    assert_eq!(
        find("NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: a.io/b in 1 resource instances"
    );
    client.patch(&format!("{maps}/held"), MERGE, &json!({"metadata": {"finalizers": null}})).await;
    sandbox.settle().await;
    assert_eq!(client.get("/api/v1/namespaces/n").await.code, 404);
}
