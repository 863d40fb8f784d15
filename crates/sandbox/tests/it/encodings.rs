//! Answers in protobuf say what answers in JSON say.

use http_body_util::BodyExt;
use serde_json::{Value, json};
use slipway_manifest::decode::{decode_protobuf, decode_value};
use slipway_manifest::schema::Schema;
use slipway_sandbox::Sandbox;

use crate::client::{CONFIG_MAPS, Client, bare, config_map};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn read(bytes: &[u8]) -> Value {
    decode_protobuf(bytes, Schema::built_in().types()).unwrap().object
}

async fn get_as(client: &Client, path: &str, accept: &str) -> crate::client::Answer {
    client.request("GET", path, &[("accept", accept)], "").await
}

fn content_type(answer: &crate::client::Answer) -> &str {
    answer.headers["content-type"].to_str().unwrap()
}

/// A cluster in which most kinds have objects.
async fn furnished() -> (Sandbox, Client) {
    let sandbox = Sandbox::builder().seed(7).build().unwrap();
    let client = Client::new(&sandbox);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
            "env": [{"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
            "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
            "readinessProbe": {"httpGet": {"port": "http", "path": "/"}}}],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
    }});
    let selector = json!({"matchLabels": {"a": "b"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "integer", "enum": [1, 2]}, "default": [1]},
        "open": {"type": "object", "additionalProperties": true}}}}});
    for (path, object) in [
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "d"},
            "spec": {"selector": selector, "template": template, "strategy": {"rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}}}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"metadata": {"name": "s"},
            "spec": {"selector": selector, "serviceName": "s", "template": template}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            json!({"metadata": {"name": "ds"},
            "spec": {"selector": selector, "template": template}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"metadata": {"name": "cj"}, "spec": {"schedule": "0 0 * * *",
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "svc"},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            json!({"metadata": {"name": "sec"}, "data": {"k": "AAEC/w=="}}),
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "100"}}}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"metadata": {"name": "l"},
            "spec": {"renewTime": "2026-01-02T03:04:05.600000Z", "leaseTransitions": 2}}),
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}}),
        ),
    ] {
        let made = client.post(path, &object).await;
        assert_eq!(made.code, 201, "{path}: {}", made.text);
    }
    sandbox.settle().await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    assert_eq!(client.post("/apis/example.com/v1/namespaces/default/things", &thing).await.code, 201);
    sandbox.settle().await;
    (sandbox, client)
}

#[tokio::test]
async fn lists_and_objects_of_every_kind_are_answered_in_protobuf() {
    let (_sandbox, client) = furnished().await;
    let schema = Schema::built_in();
    let mut seen = 0;
    for resource in schema.resources() {
        if !resource.verbs.iter().any(|v| v == "list") {
            continue;
        }
        let root = if resource.group.is_empty() {
            format!("/api/{}", resource.version)
        } else {
            format!("/apis/{}/{}", resource.group, resource.version)
        };
        let path = format!("{root}/{}", resource.plural);
        let plain = client.get(&path).await.body;
        let packed = get_as(&client, &path, &format!("{PROTOBUF},application/json")).await;
        assert_eq!((packed.code, content_type(&packed)), (200, PROTOBUF), "{path}");
        let (version, kind) = (plain["apiVersion"].as_str().unwrap(), plain["kind"].as_str().unwrap());
        let of = schema.types().type_of_kind(version, kind).unwrap();
        let mut found = read(&packed.bytes);
        if found["items"].is_null() {
            // Protobuf does not tell no list from one with nothing in it.
            found["items"] = json!([]);
        }
        assert_eq!(found, decode_value(plain.clone(), of).unwrap().object, "{path}");
        for item in plain["items"].as_array().unwrap().iter().take(3) {
            let meta = &item["metadata"];
            let name = meta["name"].as_str().unwrap();
            let path = match meta["namespace"].as_str() {
                Some(namespace) => format!("{root}/namespaces/{namespace}/{}/{name}", resource.plural),
                None => format!("{path}/{name}"),
            };
            let plain = client.get(&path).await.body;
            let packed = get_as(&client, &path, PROTOBUF).await;
            assert_eq!((packed.code, content_type(&packed)), (200, PROTOBUF), "{path}");
            let of = schema.types().type_of_kind(version, &resource.kind).unwrap();
            assert_eq!(read(&packed.bytes), decode_value(plain, of).unwrap().object, "{path}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen} objects");
}

#[tokio::test]
async fn writes_refusals_and_metadata_are_answered_in_protobuf() {
    let (_sandbox, client) = furnished().await;
    let headers = [("accept", PROTOBUF), ("content-type", "application/json")];
    let made = client.request("POST", CONFIG_MAPS, &headers, config_map("x").to_string()).await;
    assert_eq!((made.code, content_type(&made)), (201, PROTOBUF));
    assert_eq!(read(&made.bytes)["data"], json!({"a": "1"}));
    let gone = get_as(&client, &format!("{CONFIG_MAPS}/nothing"), PROTOBUF).await;
    let status = read(&gone.bytes);
    assert_eq!((gone.code, &status["reason"]), (404, &json!("NotFound")));
    assert_eq!(status["details"]["name"], "nothing");
    let scale = get_as(&client, "/apis/apps/v1/namespaces/default/deployments/d/scale", PROTOBUF).await;
    assert_eq!(read(&scale.bytes)["spec"]["replicas"], 1);
    let things = "/apis/example.com/v1/namespaces/default/things";
    for (path, kind) in [
        (format!("{CONFIG_MAPS}/x"), "PartialObjectMetadata"),
        (CONFIG_MAPS.to_owned(), "PartialObjectMetadataList"),
        (format!("{things}/t"), "PartialObjectMetadata"),
        (things.to_owned(), "PartialObjectMetadataList"),
    ] {
        let answer = get_as(&client, &path, &format!("{PROTOBUF};as={kind};g=meta.k8s.io;v=v1")).await;
        assert_eq!((answer.code, content_type(&answer)), (200, PROTOBUF), "{path}: {}", answer.text);
        assert!(answer.text.contains(kind) && !answer.text.contains("\u{a}data"), "{}", answer.text);
    }
}

#[tokio::test]
async fn what_has_no_protobuf_form_is_answered_in_json_or_refused() {
    let (_sandbox, client) = furnished().await;
    let thing = "/apis/example.com/v1/namespaces/default/things/t";
    let map = format!("{CONFIG_MAPS}/kube-root-ca.crt");
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    for (path, accept, code, found) in [
        (thing, format!("{PROTOBUF},application/json"), 200, "application/json"),
        (thing, PROTOBUF.to_owned(), 406, "application/json"),
        (&map, format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1"), 200, "application/json"),
        (&map, table, 406, "application/json"),
        // CBOR is behind a gate that is off by default.
        (&map, "application/cbor".to_owned(), 406, "application/json"),
        (&map, "application/cbor,application/json;q=0.9".to_owned(), 200, "application/json"),
        // A real server knows no media type by half.
        (&map, "application/*".to_owned(), 406, "application/json"),
    ] {
        let answer = get_as(&client, path, &accept).await;
        assert_eq!((answer.code, content_type(&answer)), (code, found), "{path} {accept}: {}", answer.text);
    }
    let body = &b"\xd9\xd9\xf7\xa0"[..];
    let answer = client.request("POST", CONFIG_MAPS, &[("content-type", "application/cbor")], body).await;
    assert_eq!(answer.code, 415, "{}", answer.text);
}

/// The events of a watch in protobuf: type and object.
async fn events(client: &Client, path: &str, accept: &str, count: usize) -> Vec<(String, Value)> {
    let response = client.send("GET", path, &[("accept", accept)], "").await;
    assert_eq!(response.headers()["content-type"], format!("{PROTOBUF};stream=watch"));
    let mut body = response.into_body();
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    while found.len() < count
        && let Some(frame) = body.frame().await
    {
        bytes.extend_from_slice(frame.unwrap().data_ref().unwrap());
        while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            let Some(event) = rest.get(..length) else { break };
            // Field 1 is the type; the object's own envelope is in field 1 of field 2.
            let end = 2 + usize::from(event[1]);
            let kind = String::from_utf8(event[2..end].to_vec()).unwrap();
            let at = event.windows(4).position(|w| w == b"k8s\0").unwrap();
            found.push((kind, read(&event[at..])));
            bytes.drain(..4 + length);
        }
    }
    found
}

#[tokio::test]
async fn watches_are_answered_in_protobuf_with_a_bookmark_after_what_is_there() {
    let (sandbox, client) = bare();
    for name in ["x", "y"] {
        client.post(CONFIG_MAPS, &config_map(name)).await;
    }
    let list = "watch=true&timeoutSeconds=5&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("{CONFIG_MAPS}?{list}&fieldSelector=metadata.name!=kube-root-ca.crt");
    let found = events(&client, &path, PROTOBUF, 3).await;
    let kinds: Vec<_> = found.iter().map(|(kind, o)| (kind.as_str(), o["kind"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("ADDED", "ConfigMap"), ("ADDED", "ConfigMap"), ("BOOKMARK", "ConfigMap")]);
    assert_eq!(found[1].1["data"], json!({"a": "1"}));
    let mark = &found[2].1["metadata"];
    assert_eq!(mark["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_eq!(mark["resourceVersion"], sandbox.store().current_revision().to_string());
    // Metadata alone, as the metadata clients of controllers watch.
    let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let response = client.send("GET", &path, &[("accept", &partial)], "").await;
    assert_eq!(response.headers()["content-type"], format!("{PROTOBUF};stream=watch"));
}

#[tokio::test]
async fn discovery_is_served_in_every_encoding() {
    let (_sandbox, client) = furnished().await;
    let aggregated = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1"] {
        let yaml = get_as(&client, path, "application/yaml").await;
        assert_eq!(content_type(&yaml), "application/yaml", "{path}");
        let kind = client.get(path).await.body["kind"].as_str().unwrap().to_owned();
        assert!(yaml.text.contains(&format!("kind: {kind}")), "{path}: {}", yaml.text);
        let binary = get_as(&client, path, PROTOBUF).await;
        assert_eq!((binary.code, content_type(&binary)), (200, PROTOBUF), "{path}");
        assert!(binary.bytes.starts_with(b"k8s\0\n"), "{path}");
        let contains = |text: &str| binary.bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(contains(&kind), "{path}");
        // A client that would rather have it aggregated takes what there is.
        let either = get_as(&client, path, &format!("application/json;{aggregated},{PROTOBUF}")).await;
        let expected = if path.matches('/').count() == 1 { "application/json;g=api" } else { PROTOBUF };
        assert!(content_type(&either).starts_with(expected), "{path}: {}", content_type(&either));
    }
    // The two numbers of a resource: its name first, then whether it has a namespace.
    let list = get_as(&client, "/apis/apps/v1", PROTOBUF).await;
    let entry = b"\x0a\x0bdeployments\x10\x01\x1a\x0aDeployment\"";
    assert!(list.bytes.windows(entry.len()).any(|part| part == entry), "{:?}", list.text);

    for (path, accept, code) in [
        ("/api", "text/html", 406),
        ("/apis", "application/json;as=Table;v=v1;g=meta.k8s.io", 406),
        ("/apis", "application/json;as=Table;v=v1;g=meta.k8s.io, application/yaml", 200),
        ("/apis/apps", "application/cbor", 406),
        ("/apis/apps/v1", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", 406),
        ("/version", "application/yaml", 406),
        ("/version", "application/yaml, */*", 200),
    ] {
        assert_eq!(get_as(&client, path, accept).await.code, code, "{path} as {accept}");
    }
    let yaml = get_as(&client, "/apis", &format!("application/yaml;{aggregated}")).await;
    assert_eq!(content_type(&yaml), format!("application/yaml;{aggregated}"));
    assert!(yaml.text.starts_with("apiVersion: apidiscovery.k8s.io/v2\nitems:\n"), "{}", yaml.text);

    for path in ["/api", "/apis"] {
        let accept = format!("{PROTOBUF};{aggregated}");
        let answer = get_as(&client, path, &accept).await;
        assert_eq!(content_type(&answer), accept, "{path}");
        let name: &[u8] = if path == "/api" { b"persistentvolumeclaims" } else { b"deployments" };
        assert!(answer.bytes.windows(name.len()).any(|part| part == name), "{path}");
        let tag = answer.headers["etag"].to_str().unwrap();
        let again = client.request("GET", path, &[("accept", &accept), ("if-none-match", tag)], "").await;
        assert_eq!(again.code, 304, "{path}");
    }
}

#[tokio::test]
async fn answers_to_people_are_indented() {
    let (_sandbox, client) = bare();
    let path = "/api/v1/namespaces/default";
    let send = async |query: &str, agent: &str| {
        let sent = http::Request::builder().uri(format!("{path}{query}")).header("user-agent", agent);
        client.of_request(sent).await
    };
    for agent in ["curl/8.5.0", "Wget/1.21", "Mozilla/5.0 (X11)"] {
        let shown = send("", agent).await;
        assert!(
            shown.text.starts_with("{\n  \"kind\": \"Namespace\"") && shown.text.ends_with("\n}"),
            "{}",
            shown.text
        );
        assert!(send("?pretty=false", agent).await.text.starts_with("{\"kind\""), "{agent}");
    }
    assert!(send("", "kubectl/v1.37").await.text.starts_with("{\"kind\""));
    assert!(client.get("/version").await.text.starts_with("{\n  \"major\""));
}
