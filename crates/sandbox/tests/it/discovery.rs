//! What clients ask before anything else.

use serde_json::{Value, json};

use crate::client::bare;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn aggregated_discovery_is_cached_by_tag() {
    let (_sandbox, client) = bare();
    let first = client.request("GET", "/apis", &[("accept", AGGREGATED)], "").await;
    assert_eq!(
        first.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(first.body["items"][1]["metadata"]["name"], "apps");
    let tag = first.headers["etag"].to_str().unwrap();
    let second = client.request("GET", "/apis", &[("accept", AGGREGATED), ("if-none-match", tag)], "").await;
    assert_eq!((second.code, second.text.as_str()), (304, ""));
}

#[tokio::test]
async fn legacy_discovery_and_the_rest() {
    let (_sandbox, client) = bare();
    let resources = client.get("/api/v1").await.body;
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    assert!(names.contains(&"pods/log") && names.is_sorted());
    assert_eq!(client.get("/apis/autoscaling").await.body["preferredVersion"]["version"], "v2");
    assert_eq!(client.get("/version").await.body["gitVersion"], "v1.37.0");
    assert_eq!(client.get("/readyz").await.text, "ok");
    for (path, code, text) in
        [("/nope", 404, "404 page not found\n"), ("/apis/nope/v1", 404, "404 page not found\n")]
    {
        let answer = client.get(path).await;
        assert_eq!((answer.code, answer.text.as_str()), (code, text), "{path}");
    }
    let unknown = client.get("/api/v1/nope").await;
    assert_eq!(unknown.body["message"], "the server could not find the requested resource");
    assert_eq!(client.get("/api/v1/namespaces/%2e%2e/pods").await.code, 400);
}

#[tokio::test]
async fn kube_clients_work_without_sockets() {
    let (sandbox, _client) = bare();
    let client = sandbox.client();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.37.0");
    let groups = client.list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|g| g.name == "apps"));
}

/// What a real server publishes of a definition.
static PUBLISHED: &str = include_str!("recorded/openapi.json");

#[tokio::test]
async fn definitions_are_published_as_clients_expect() {
    let (sandbox, client) = bare();
    let recorded: Value = serde_json::from_str(PUBLISHED).unwrap();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.post(path, &recorded["definition"]).await.code, 201);
    sandbox.settle().await;
    let v2 = client.get("/openapi/v2").await.body;
    for (name, schema) in recorded["v2"].as_object().unwrap() {
        assert_eq!(&v2["definitions"][name], schema, "{name}");
    }
    for version in ["v1", "v2"] {
        let v3 = client.get(&format!("/openapi/v3/apis/example.com/{version}")).await.body;
        for (name, schema) in recorded["v3"].as_object().unwrap() {
            if !name.contains("example") || name.contains(&format!(".{version}.")) {
                assert_eq!(&v3["components"]["schemas"][name], schema, "{name}");
            }
        }
    }
    client.delete(&format!("{path}/foos.example.com")).await;
    sandbox.settle().await;
    assert!(client.get("/openapi/v2").await.body["definitions"]["com.example.v1.Foo"].is_null());
}

#[tokio::test]
async fn references_stand_alone_and_structs_have_defaults() {
    let (_sandbox, client) = bare();
    let apps = client.get("/openapi/v3/apis/apps/v1").await.body;
    let spec = &apps["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"];
    let reference = |name: &str| json!([{"$ref": format!("#/components/schemas/{name}")}]);
    assert_eq!(
        spec["template"],
        json!({"allOf": reference("io.k8s.api.core.v1.PodTemplateSpec"), "default": {}})
    );
    assert_eq!(
        spec["selector"],
        json!({"allOf": reference("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")})
    );
    let schemas = &apps["components"]["schemas"];
    let container = &schemas["io.k8s.api.core.v1.Container"]["properties"];
    assert_eq!(container["name"], json!({"type": "string", "default": ""}));
    assert_eq!(container["env"]["items"], json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.EnvVar"}));
    let quantity = &schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
}
