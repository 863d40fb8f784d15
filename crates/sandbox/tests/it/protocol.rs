//! Requests that are wrong in form: what each is told.

use serde_json::json;

use crate::client::{APPLY, JSON_PATCH, MERGE, bare};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/x";

#[tokio::test]
async fn methods_that_do_not_fit_the_path() {
    let (_sandbox, client) = bare();
    for (method, path, code) in [
        ("PUT", MAPS, 405),
        ("PATCH", MAPS, 405),
        ("POST", MAP, 405),
        ("HEAD", MAP, 405),
        ("DELETE", "/version", 405),
        ("POST", "/api/v1", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("GET", "/api/v1/configmaps/x", 404),
        ("GET", "/apis/apps/v2", 404),
        ("GET", "/healthz/nope", 404),
        ("GET", "//api/v1", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/..", 400),
        ("GET", "/api/v1/namespaces/default/configmaps/a%2Fb", 404),
    ] {
        let answer = client.request(method, path, &[("content-type", MERGE)], "{}").await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.text);
    }
}

#[tokio::test]
async fn options_that_are_no_options() {
    let (_sandbox, client) = bare();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    for (query, code) in [("dryRun=", 422), ("dryRun=Some", 422), ("fieldManager=a%09b", 422)] {
        assert_eq!(client.post(&format!("{MAPS}?{query}"), &map).await.code, code, "{query}");
    }
    assert_eq!(client.get(MAP).await.code, 404, "nothing was written");
    for (query, code) in [
        ("timeoutSeconds=x", 400),
        ("continue=zzz", 400),
        ("limit=x", 400),
        ("labelSelector=a%20in%20()", 200),
        ("watch=1&continue=abc", 422),
        ("watch=1&resourceVersion=x", 500),
    ] {
        assert_eq!(client.get(&format!("{MAPS}?{query}")).await.code, code, "{query}");
    }
}

#[tokio::test]
async fn patches_change_no_identity_and_name_fields_once() {
    let (_sandbox, client) = bare();
    client.post(MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})).await;
    for (kind, body) in [
        (MERGE, r#"{"metadata":{"uid":"other"}}"#),
        (MERGE, r#"{"metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z"}}"#),
        (JSON_PATCH, r#"[{"op":"replace","path":"/metadata/uid","value":"other"}]"#),
    ] {
        let answer = client.request("PATCH", MAP, &[("content-type", kind)], body).await;
        assert_eq!(answer.code, 422, "{body}: {}", answer.text);
    }
    let twice = r#"{"data":{"a":"1","a":"2"}}"#;
    let strict = format!("{MAP}?fieldValidation=Strict");
    let answer = client.request("PATCH", &strict, &[("content-type", MERGE)], twice).await;
    assert_eq!(answer.code, 422);
    assert!(answer.text.contains("duplicate field \\\"data.a\\\""), "{}", answer.text);
}

#[tokio::test]
async fn an_empty_list_of_managers_forgets_them() {
    let (_sandbox, client) = bare();
    let path = format!("{MAP}?fieldManager=a");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}});
    client.patch(&path, APPLY, &map).await;
    let mut live = client.get(MAP).await.body;
    assert!(live["metadata"]["managedFields"].is_array());
    live["metadata"]["managedFields"] = json!([]);
    let answer = client.put(MAP, &live).await;
    assert!(answer.body["metadata"].get("managedFields").is_none(), "{}", answer.text);
}

#[tokio::test]
async fn a_stateful_set_mounts_its_claims() {
    let (_sandbox, client) = bare();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{
                    "name": "c", "image": "i",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    let answer = client.post("/apis/apps/v1/namespaces/default/statefulsets", &set).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
}

#[tokio::test]
async fn scale_is_applied_as_a_scale() {
    let (_sandbox, client) = bare();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    client.post(sets, &set).await;
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r"}, "spec": {"replicas": 4},
    });
    let path = format!("{sets}/r/scale?fieldManager=scaler&force=true");
    let answer = client.patch(&path, APPLY, &scale).await;
    assert_eq!(answer.body["spec"]["replicas"], 4, "{}", answer.text);
    let live = client.get(&format!("{sets}/r")).await.body;
    let entry =
        live["metadata"]["managedFields"].as_array().unwrap().iter().find(|e| e["manager"] == "scaler");
    assert_eq!(entry.unwrap()["operation"], "Apply");
    assert_eq!(entry.unwrap()["subresource"], "scale");
    assert_eq!(client.patch(&path, APPLY, &set).await.code, 400);
}

#[tokio::test]
async fn time_limits_are_read() {
    let (_sandbox, client) = bare();
    for (path, code) in [
        ("/version?timeout=3m", 200),
        ("/version?timeout=0s", 200),
        ("/version?timeout=invalid", 400),
        ("/api/v1/namespaces?timeout=5", 400),
        ("/api/v1/namespaces?timeout=", 200),
        ("/api/v1/namespaces/default/pods/p/log?timeout=5", 404),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.code, code, "{path}: {}", answer.text);
        if code == 400 {
            assert!(
                answer.text.contains("invalid timeout specified in the request URL - time: "),
                "{}",
                answer.text
            );
        }
    }
}
