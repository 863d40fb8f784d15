//! Requests meant to hurt: each gets a Status of the right kind, and the server goes on.

use serde_json::json;

use crate::client::{APPLY, JSON_PATCH, MERGE, STRATEGIC, bare};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/x";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// `{"a":{"a":…}}` or `[[…]]`, this deep.
fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

#[tokio::test]
async fn bodies_of_absurd_depth_size_and_form() {
    let (_sandbox, client) = bare();
    client.post(MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})).await;
    let deep = nested("{\"a\":", "}", 50_000);
    let wide = format!("[{}1]", "1,".repeat(200_000));
    let anchors = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                   d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                   g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    let many = format!(
        "[{}{{\"op\":\"test\",\"path\":\"/a\",\"value\":1}}]",
        "{\"op\":\"test\",\"path\":\"/a\",\"value\":1},".repeat(10_001)
    );
    let applied = format!("{MAP}?fieldManager=m");
    let huge = format!("{{\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(4 << 20));
    for (method, path, kind, body, codes) in [
        ("POST", MAPS, JSON, deep.as_str(), &[400][..]),
        ("POST", MAPS, JSON, nested("[", "]", 50_000).as_str(), &[400]),
        ("POST", MAPS, YAML, nested("[", "]", 20_000).as_str(), &[400]),
        ("POST", MAPS, YAML, "- ".repeat(20_000).as_str(), &[400]),
        ("POST", MAPS, YAML, anchors, &[400]),
        ("POST", MAPS, JSON, wide.as_str(), &[400]),
        ("POST", MAPS, JSON, huge.as_str(), &[413]),
        ("POST", MAPS, "text/html", "<x>", &[415]),
        ("POST", MAPS, "application/vnd.kubernetes.protobuf", "k8s\0\u{7f}\u{7f}\u{7f}", &[400]),
        ("PATCH", MAP, MERGE, deep.as_str(), &[400]),
        ("PATCH", MAP, STRATEGIC, deep.as_str(), &[400, 422]),
        ("PATCH", MAP, JSON_PATCH, many.as_str(), &[413]),
        ("PATCH", MAP, JSON_PATCH, r#"[{"op":"copy","from":"","path":"/data"}]"#, &[422]),
        (
            "PATCH",
            MAP,
            JSON_PATCH,
            r#"[{"op":"add","path":"/data/99999999999999999999/x","value":1}]"#,
            &[422],
        ),
        ("PATCH", applied.as_str(), APPLY, deep.as_str(), &[400]),
        ("PATCH", applied.as_str(), APPLY, anchors, &[400]),
        ("PATCH", MAP, "application/json", "{}", &[415]),
        (
            "POST",
            MAPS,
            JSON,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\\u0000b\"}}",
            &[422],
        ),
        (
            "POST",
            MAPS,
            JSON,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"../../etc\"}}",
            &[422],
        ),
        ("DELETE", MAP, JSON, "[[[[", &[400]),
    ] {
        let answer = client.request(method, path, &[("content-type", kind)], body.to_owned()).await;
        let shown: String = body.chars().take(40).collect();
        assert!(codes.contains(&answer.code), "{method} {kind} {shown}: {} {}", answer.code, answer.text);
        assert!(answer.text.contains("\"Status\""), "{method} {kind} {shown}: {}", answer.text);
    }
    assert_eq!(client.get(MAP).await.code, 200, "the server is well and nothing was written");
}

#[tokio::test]
async fn paths_and_selectors_that_try_to_break_out() {
    let (_sandbox, client) = bare();
    for (path, code) in [
        ("/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets", 404),
        ("/api/v1/namespaces/../secrets", 400),
        ("/api/v1/namespaces/%2e%2e/configmaps/x", 400),
        ("/api/v1/namespaces/default/configmaps/%", 400),
        ("/api/v1/namespaces/default/configmaps/%zz", 400),
        ("/api/v1/namespaces/default/configmaps/a%00b", 404),
        ("/api/v1/namespaces/default/configmaps/%ff%fe", 404),
        ("/api/v1/namespaces/default/pods/p/log/../../..", 400),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.code, code, "{path}: {}", answer.text);
    }
    let long = "a".repeat(60_000);
    for query in [
        format!("labelSelector={long}"),
        format!("labelSelector=a%20in%20({})", "x,".repeat(20_000)),
        format!("labelSelector={}", "!".repeat(10_000)),
        format!("labelSelector={}", "a%2C".repeat(10_000)),
        format!("fieldSelector=metadata.name%3D{}", "%5C".repeat(10_000)),
        format!("fieldSelector={}", "%3D".repeat(10_000)),
        format!("continue={}", "A".repeat(50_000)),
        "limit=99999999999999999999".to_owned(),
        "resourceVersion=99999999999999999999999".to_owned(),
    ] {
        let answer = client.get(&format!("{MAPS}?{query}")).await;
        let shown: String = query.chars().take(40).collect();
        assert!([200, 400, 500].contains(&answer.code), "{shown}: {} {}", answer.code, answer.text);
    }
}

#[tokio::test]
async fn definitions_of_absurd_schemas() {
    let (_sandbox, client) = bare();
    let definition = |number: usize, schema: serde_json::Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.g{number}.example.com")},
            "spec": {"group": format!("g{number}.example.com"), "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        })
    };
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let cases = [
        (deep, &[201, 400, 422][..]),
        (
            json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "(a+)+$".repeat(2000)}}}),
            &[201, 422],
        ),
        (
            json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "a{1000}{1000}{1000}"}}}),
            &[422],
        ),
        (json!({"type": "object", "x-kubernetes-validations": [{"rule": "(".repeat(5000)}]}), &[422]),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": format!("{}true", "!".repeat(5001))}]}),
            &[422],
        ),
        (json!({"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}}), &[422]),
        (json!({"type": ["object"]}), &[400, 422]),
        (json!("x"), &[400, 422]),
    ];
    for (number, (schema, codes)) in cases.into_iter().enumerate() {
        let shown: String = schema.to_string().chars().take(60).collect();
        let answer = client.post(DEFINITIONS, &definition(number, schema)).await;
        assert!(codes.contains(&answer.code), "{shown}: {} {}", answer.code, answer.text);
    }
    assert_eq!(client.get("/readyz").await.code, 200);
}
