//! Lists: selectors, pages that agree, and revisions.

use serde_json::json;

use crate::client::{CONFIG_MAPS, Client, bare, config_map};

async fn fill(client: &Client) {
    for (name, labels) in [
        ("m0", json!({"app": "a"})),
        ("m1", json!({"app": "a"})),
        ("m2", json!({"app": "b"})),
        ("m3", json!({})),
    ] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = labels;
        client.post(CONFIG_MAPS, &object).await;
    }
}

fn names(body: &serde_json::Value) -> Vec<&str> {
    body["items"].as_array().unwrap().iter().filter_map(|o| o["metadata"]["name"].as_str()).collect()
}

#[tokio::test]
async fn selectors() {
    let (_sandbox, client) = bare();
    fill(&client).await;
    for (query, expected) in [
        ("labelSelector=app%3Da", vec!["m0", "m1"]),
        ("labelSelector=app!%3Da", vec!["kube-root-ca.crt", "m2", "m3"]),
        ("labelSelector=app+in+(a,b)", vec!["m0", "m1", "m2"]),
        ("labelSelector=!app", vec!["kube-root-ca.crt", "m3"]),
        ("fieldSelector=metadata.name%3Dm2", vec!["m2"]),
    ] {
        let list = client.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(names(&list.body), expected, "{query}");
    }
    let unknown = client.get(&format!("{CONFIG_MAPS}?fieldSelector=foo%3Dx")).await;
    assert_eq!(
        unknown.body["message"],
        "\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
}

#[tokio::test]
async fn pages_show_one_moment() {
    let (_sandbox, client) = bare();
    fill(&client).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.body;
    assert_eq!(names(&first), ["kube-root-ca.crt", "m0"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    // What happens between two pages is not seen by the second.
    client.delete(&format!("{CONFIG_MAPS}/m1")).await;
    client.post(CONFIG_MAPS, &config_map("m15")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&second), ["m1", "m2"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&third), ["m3"]);
    assert_eq!(third["metadata"].get("continue"), None);
}

#[tokio::test]
async fn revisions() {
    let (sandbox, client) = bare();
    fill(&client).await;
    let rev = sandbox.store().current_revision();
    client.delete(&format!("{CONFIG_MAPS}/m0")).await;
    let exact =
        client.get(&format!("{CONFIG_MAPS}?resourceVersion={rev}&resourceVersionMatch=Exact")).await.body;
    assert!(names(&exact).contains(&"m0"));
    let future = client.get(&format!("{CONFIG_MAPS}?resourceVersion=99999999")).await;
    assert_eq!((future.code, future.headers["retry-after"].to_str().unwrap()), (504, "1"));
    sandbox.store().compact_history();
    let old = client.get(&format!("{CONFIG_MAPS}?resourceVersion={rev}&resourceVersionMatch=Exact")).await;
    assert_eq!((old.code, &old.body["reason"]), (410, &json!("Expired")));
}
