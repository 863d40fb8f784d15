//! Steering a sandbox: snapshots, reset, the clock, faults, credentials, and who may do so.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use slipway_sandbox::{ClientCredentials, ClockSpeed, Sandbox, SandboxServer, User};
use tower::ServiceExt;

use crate::client::{CONFIG_MAPS, Client, bare, config_map};

/// Speaks to what a listener would serve, with a token.
struct Caller {
    server: SandboxServer,
    token: String,
}

impl Caller {
    fn admin(sandbox: &Sandbox) -> Caller {
        let kubeconfig = sandbox.kubeconfig(([127, 0, 0, 1], 1).into());
        let token = kubeconfig.lines().find_map(|l| l.trim().strip_prefix("token: ")).unwrap().to_owned();
        Caller { server: sandbox.server(), token }
    }

    fn of(sandbox: &Sandbox, user: &User) -> Caller {
        let ClientCredentials::Token(token) = sandbox.token_for(user, std::time::Duration::from_secs(600))
        else {
            unreachable!("a token was asked for")
        };
        Caller { server: sandbox.server(), token }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<(u16, Value, String), String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .unwrap();
        let response = self.server.clone().oneshot(request).await.map_err(|e| e.to_string())?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null), text))
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (code, value, _) = self.send(method, path, body).await.unwrap();
        (code, value)
    }
}

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }}}],
        },
    })
}

#[tokio::test]
async fn snapshots_bring_everything_back() {
    let (sandbox, client) = bare();
    client.post(CONFIG_MAPS, &config_map("kept")).await;
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}});
    assert_eq!(client.post(WIDGETS, &widget).await.code, 201);
    let kept = client.get(&format!("{CONFIG_MAPS}/kept")).await.body;
    let before = sandbox.snapshot();

    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}});
    assert_eq!(client.post("/api/v1/namespaces/default/services", &service).await.code, 201);
    client.post(CONFIG_MAPS, &config_map("later")).await;
    client.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com").await;
    sandbox.settle().await;
    assert_eq!(client.get(WIDGETS).await.code, 404);

    sandbox.restore(&before);
    assert_eq!(client.get(&format!("{WIDGETS}/w")).await.body["spec"]["a"], 1);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/later")).await.code, 404);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/kept")).await.body, kept, "what did not change stays");
    let again = client.post("/api/v1/namespaces/default/services", &service).await;
    assert_eq!(again.code, 201, "addresses are free again: {}", again.text);

    sandbox.reset();
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/kept")).await.code, 404);
    assert_eq!(client.get(WIDGETS).await.code, 404);
    assert_eq!(client.get("/api/v1/namespaces/default/serviceaccounts/default").await.code, 200);
    assert_eq!(client.get("/api/v1/nodes").await.body["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn restored_workloads_go_on_living() {
    let sandbox = Sandbox::builder().build().unwrap();
    let client = Client::new(&sandbox);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    client.post(path, &deployment).await;
    sandbox.settle().await;
    let mut file = Vec::new();
    sandbox.save(&mut file).unwrap();
    sandbox.reset();
    sandbox.settle().await;
    assert_eq!(client.get("/api/v1/pods").await.body["items"].as_array().unwrap().len(), 0);
    sandbox.load(&mut file.as_slice()).unwrap();
    client.patch(&format!("{path}/web"), crate::client::MERGE, &json!({"spec": {"replicas": 3}})).await;
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{path}/web")).await.body["status"]["readyReplicas"], 3);
}

#[tokio::test]
async fn a_restore_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Sandbox::builder().without_workloads().data_dir(dir.path()).build().unwrap();
    let (other, client) = bare();
    client.post(CONFIG_MAPS, &config_map("x")).await;
    let sandbox = open();
    sandbox.restore(&other.snapshot());
    sandbox.durable().await.unwrap();
    drop(sandbox);
    let sandbox = open();
    let client = Client::new(&sandbox);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/x")).await.code, 200);
}

#[tokio::test]
async fn wrong_snapshots_are_refused_with_the_line() {
    let (sandbox, _) = bare();
    for (text, line) in [
        ("", "line 1"),
        ("hello\n", "line 1"),
        ("{\"format\":\"other/v1\",\"revision\":1}\n", "line 1"),
        ("{\"format\":\"slipway-sandbox/v1\",\"revision\":1}\n\n{\"a\":1}\n", "line 3"),
        (
            "{\"format\":\"slipway-sandbox/v1\",\"revision\":1}\n\
             {\"resource\":\"configmaps\",\"name\":\"x\",\"revision\":1,\"object\":[]}\n",
            "line 2",
        ),
    ] {
        let error = sandbox.load(&mut text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(line), "{text:?}: {error}");
    }
}

#[tokio::test]
async fn endpoints_steer_and_only_the_administrator_may() {
    let sandbox = Sandbox::builder().without_workloads().speed(ClockSpeed::Manual).build().unwrap();
    let admin = Caller::admin(&sandbox);
    let (code, status) = admin.call("GET", "/sandbox/status", Value::Null).await;
    assert_eq!((code, &status["speed"], &status["rbac"]), (200, &json!("manual"), &json!(false)));

    let before = admin.call("GET", "/sandbox/clock", Value::Null).await.1["time"].clone();
    let (code, after) = admin.call("POST", "/sandbox/clock", json!({"advance": "1h"})).await;
    assert_eq!(code, 200);
    assert_ne!(after["time"], before);
    assert_eq!(admin.call("POST", "/sandbox/clock", json!({"advance": "soon"})).await.0, 400);

    admin.call("POST", CONFIG_MAPS, config_map("x")).await;
    let (code, _, file) = admin.send("GET", "/sandbox/snapshot", "").await.unwrap();
    assert_eq!((code, file.lines().count() > 10), (200, true));
    assert_eq!(admin.call("POST", "/sandbox/reset", Value::Null).await.0, 200);
    assert_eq!(admin.call("GET", &format!("{CONFIG_MAPS}/x"), Value::Null).await.0, 404);
    assert_eq!(admin.send("PUT", "/sandbox/snapshot", file).await.unwrap().0, 200);
    assert_eq!(admin.call("GET", &format!("{CONFIG_MAPS}/x"), Value::Null).await.0, 200);
    assert_eq!(admin.call("PUT", "/sandbox/snapshot", json!({"no": "snapshot"})).await.0, 400);

    let alice = Caller::of(&sandbox, &User::new("alice", &["dev"]));
    let nobody = Caller { server: sandbox.server(), token: "wrong".into() };
    for (method, path) in [("GET", "/sandbox/status"), ("POST", "/sandbox/reset"), ("GET", "/sandbox/x")] {
        assert_eq!(alice.call(method, path, Value::Null).await.0, 403, "{path}");
        assert_eq!(nobody.call(method, path, Value::Null).await.0, 401, "{path}");
    }
    assert_eq!(admin.call("DELETE", "/sandbox/reset", Value::Null).await.0, 405);
    assert_eq!(admin.call("GET", "/sandbox/nothing", Value::Null).await.0, 404);
}

#[tokio::test]
async fn planned_faults_hit_callers_from_outside() {
    let (sandbox, client) = bare();
    let admin = Caller::admin(&sandbox);
    let rules = json!([
        {"verb": "get", "resource": "configmaps", "name": "x", "status": 503, "times": 1},
        {"resource": "deployments.apps", "close": true},
        {"verb": "list", "namespace": "default", "manager": "nobody", "status": 500},
        {"verb": "create", "resource": "secrets", "compact": true},
    ]);
    assert_eq!(admin.call("POST", "/sandbox/faults", rules).await.0, 200);
    admin.call("POST", CONFIG_MAPS, config_map("x")).await;
    let one = format!("{CONFIG_MAPS}/x");
    assert_eq!(client.get(&one).await.code, 200, "in process there is no trouble");
    assert_eq!(admin.call("GET", &one, Value::Null).await.0, 503);
    assert_eq!(admin.call("GET", &one, Value::Null).await.0, 200);
    assert_eq!(admin.call("GET", CONFIG_MAPS, Value::Null).await.0, 200);
    assert!(admin.send("GET", "/apis/apps/v1/deployments", "").await.is_err());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    admin.call("POST", "/api/v1/namespaces/default/secrets", secret).await;
    let old = client.get(&format!("{CONFIG_MAPS}?resourceVersion=1&resourceVersionMatch=Exact")).await;
    assert_eq!(old.code, 410);

    let (_, shown) = admin.call("GET", "/sandbox/faults", Value::Null).await;
    let hits: Vec<_> =
        shown["rules"].as_array().unwrap().iter().map(|r| r["hits"].as_u64().unwrap()).collect();
    assert_eq!(hits, [1, 1, 0, 1]);
    let (code, refused) = admin.call("POST", "/sandbox/faults", json!({"status": 200})).await;
    assert_eq!(code, 400, "{refused}");
    admin.call("DELETE", "/sandbox/faults", Value::Null).await;
    assert!(admin.send("GET", "/apis/apps/v1/deployments", "").await.is_ok());
}

#[tokio::test]
async fn credentials_make_users() {
    let (sandbox, _) = bare();
    let admin = Caller::admin(&sandbox);
    let (code, made) =
        admin.call("POST", "/sandbox/credentials", json!({"user": "alice", "groups": ["a", "b", "c"]})).await;
    assert_eq!(code, 201);
    let alice = Caller { server: sandbox.server(), token: made["token"].as_str().unwrap().to_owned() };
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let (_, who) = alice.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review).await;
    assert_eq!(who["status"]["userInfo"]["username"], "alice");
    assert_eq!(who["status"]["userInfo"]["groups"], json!(["a", "b", "c", "system:authenticated"]));
    let asked = json!({"user": "bob", "groups": ["a", "b", "c"], "certificate": true});
    assert_eq!(admin.call("POST", "/sandbox/credentials", asked).await.0, 400, "too many groups");
    assert_eq!(admin.call("POST", "/sandbox/credentials", json!({"user": ""})).await.0, 400);
}

#[tokio::test]
async fn objects_can_be_rejected_and_slow() {
    let (_sandbox, client) = bare();
    let mut rejected = config_map("no");
    rejected["metadata"]["annotations"] = json!({"sim/reject": "not today"});
    let answer = client.post(CONFIG_MAPS, &rejected).await;
    assert_eq!(answer.code, 403);
    assert_eq!(answer.body["message"], "configmaps \"no\" is forbidden: not today");
    client.post(CONFIG_MAPS, &config_map("x")).await;
    let path = format!("{CONFIG_MAPS}/x");
    let patch = json!({"metadata": {"annotations": {"sim/reject": "no changes"}}});
    assert_eq!(client.patch(&path, crate::client::MERGE, &patch).await.code, 403);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "annotations": {"sim/reject": "no widgets"}}});
    assert_eq!(client.post(WIDGETS, &widget).await.code, 403);

    let mut slow = config_map("slow");
    slow["metadata"]["annotations"] = json!({"sim/latency": "200ms"});
    tokio::time::pause();
    for (what, at_least) in [("create", 200), ("get", 200), ("list", 0)] {
        let started = tokio::time::Instant::now();
        match what {
            "create" => client.post(CONFIG_MAPS, &slow).await,
            "get" => client.get(&format!("{CONFIG_MAPS}/slow")).await,
            _ => client.get(CONFIG_MAPS).await,
        };
        let took = started.elapsed().as_millis();
        assert!(took >= at_least && took < at_least + 100, "{what} took {took} ms");
    }
}
