//! What clients ask before anything else.

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
