//! The sandbox as a service: whatever is asked of it, it answers, in time and without a panic.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use slipway_sandbox::Sandbox;
use tower::ServiceExt;

/// Method, path with query, content type and body, separated by line ends.
pub const REQUESTS: &[&str] = &[
    "GET\n/api/v1/namespaces/default/configmaps?labelSelector=a%20in%20(b,c),!d&fieldSelector=metadata.name=x&limit=2\n\n",
    "GET\n/api/v1/pods?watch=1&resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=1\n\n",
    "GET\n/apis/apps/v1/deployments?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYSJ9&resourceVersion=0\n\n",
    "POST\n/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Strict&fieldManager=f\napplication/json\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"generateName\":\"x-\"},\"data\":{\"a\":\"b\"}}",
    "POST\n/api/v1/namespaces/default/services\napplication/yaml\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80, nodePort: 30000}], type: NodePort}\n",
    "POST\n/api/v1/namespaces\napplication/vnd.kubernetes.protobuf\nk8s\u{0}\n\u{f}\n\u{2}v1\u{12}\tNamespace\u{12}\u{7}\n\u{5}\n\u{1}a\u{1a}\u{0}",
    "PUT\n/apis/apps/v1/namespaces/default/deployments/w/scale\napplication/json\n{\"kind\":\"Scale\",\"spec\":{\"replicas\":2}}",
    "DELETE\n/api/v1/namespaces/default/configmaps?propagationPolicy=Orphan&gracePeriodSeconds=0\napplication/json\n{\"preconditions\":{\"uid\":\"x\"}}",
    "GET\n/openapi/v3/apis/apps/v1?hash=x\n\n",
    "POST\n/apis/authorization.k8s.io/v1/selfsubjectaccessreviews\napplication/json\n{\"spec\":{\"resourceAttributes\":{\"verb\":\"get\"}}}",
];

pub const PATCHES: &[&str] = &[
    r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"1"}],"$patch":"merge"}]}}}}"#,
    r#"[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"x"},{"op":"copy","from":"/spec","path":"/metadata/annotations"}]"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"template":{"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}]}}}}"#,
    r#"{"metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"k:{\"a\":1}":{}}}}]}}"#,
];

pub const DEFINITIONS: &[&str] = &[
    r#"{"type":"object","properties":{"spec":{"type":"object","required":["a"],"properties":{"a":{"type":"integer","default":1,"maximum":9},"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string","pattern":"^a*$"}}}}}}}}"#,
    r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}}}"#,
];

const WEB: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

/// One sandbox for the whole run: what earlier inputs left there is part of the test.
fn server() -> &'static (tokio::runtime::Runtime, Sandbox) {
    static SERVER: OnceLock<(tokio::runtime::Runtime, Sandbox)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("a sandbox");
        let made = (runtime, sandbox);
        send(
            &made,
            "POST",
            "/apis/apps/v1/namespaces/default/deployments",
            "application/json",
            WEB.as_bytes(),
        );
        made
    })
}

/// Sends a request and reads the answer, or as much of a watch as comes at once.
fn send(
    (runtime, sandbox): &(tokio::runtime::Runtime, Sandbox),
    method: &str,
    path: &str,
    kind: &str,
    body: &[u8],
) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .header("user-agent", "fuzz/1")
        .body(Full::new(Bytes::copy_from_slice(body)));
    // What is no request at all never reaches a server.
    let Ok(request) = request else { return };
    let answered = runtime.block_on(async {
        let Ok(response) = sandbox.service().oneshot(request).await;
        let status = response.status();
        let body = tokio::time::timeout(Duration::from_millis(20), response.into_body().collect()).await;
        (status, body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes))
    });
    if let (http::StatusCode::INTERNAL_SERVER_ERROR, Some(body)) = &answered {
        let text = String::from_utf8_lossy(body);
        assert!(!text.contains("made the server panic"), "{method} {path}: {text}");
    }
}

pub fn request(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.splitn(4, '\n');
    let mut next = || parts.next().unwrap_or_default();
    let (method, path, kind) = (next(), next(), next());
    send(server(), method, path, kind, next().as_bytes());
}

pub fn patch(input: &[u8]) {
    let path = "/apis/apps/v1/namespaces/default/deployments/w";
    for kind in ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
        let kind = format!("application/{kind}");
        for query in [
            "?fieldManager=f&dryRun=All",
            "/status?fieldManager=f&dryRun=All",
            "/scale?fieldManager=f&dryRun=All",
        ] {
            send(server(), "PATCH", &format!("{path}{query}"), &kind, input);
        }
    }
}

/// The input as the schema of a definition, then objects of it.
pub fn definition(input: &[u8]) {
    let Ok(schema) = serde_json::from_slice::<serde_json::Value>(input) else { return };
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.fuzz.example"},
        "spec": {
            "group": "fuzz.example", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let json = "application/json";
    send(server(), "POST", definitions, json, definition.to_string().as_bytes());
    for spec in [r#"{"a":1,"l":[{"k":"a"},{"k":"a"}]}"#, r#""x""#, "[1,null,{}]"] {
        let object = format!(
            r#"{{"apiVersion":"fuzz.example/v1","kind":"Thing","metadata":{{"name":"t"}},"spec":{spec}}}"#
        );
        let things = "/apis/fuzz.example/v1/namespaces/default/things";
        send(server(), "POST", things, json, object.as_bytes());
        send(
            server(),
            "PATCH",
            &format!("{things}/t?fieldManager=f&force=true"),
            "application/apply-patch+yaml",
            object.as_bytes(),
        );
        send(server(), "DELETE", &format!("{things}/t"), json, b"");
    }
    send(server(), "DELETE", &format!("{definitions}/things.fuzz.example"), json, b"");
}
