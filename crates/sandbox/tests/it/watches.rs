//! Watches deliver every event once and in order.

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client, MERGE, bare, config_map};

async fn events(client: &Client, query: &str, count: usize) -> Vec<Value> {
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=5&{query}");
    let mut body = client.send("GET", &path, &[], "").await.into_body();
    let mut found = Vec::new();
    let mut text = String::new();
    while found.len() < count
        && let Some(frame) = body.frame().await
    {
        text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        while let Some(end) = text.find('\n') {
            found.push(serde_json::from_str(&text[..end]).unwrap());
            text.drain(..=end);
        }
    }
    found
}

fn short(events: &[Value]) -> Vec<(String, String)> {
    events
        .iter()
        .map(|e| {
            (
                e["type"].as_str().unwrap().to_owned(),
                e["object"]["metadata"]["name"].as_str().unwrap_or("").to_owned(),
            )
        })
        .collect()
}

#[tokio::test]
async fn history_is_replayed() {
    let (sandbox, client) = bare();
    let rev = sandbox.store().current_revision();
    client.post(CONFIG_MAPS, &config_map("x")).await;
    client.patch(&format!("{CONFIG_MAPS}/x"), MERGE, &json!({"data": {"a": "2"}})).await;
    client.delete(&format!("{CONFIG_MAPS}/x")).await;
    let found = events(&client, &format!("resourceVersion={rev}"), 3).await;
    let expected = [("ADDED", "x"), ("MODIFIED", "x"), ("DELETED", "x")];
    assert_eq!(short(&found), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let revs: Vec<u64> = found
        .iter()
        .map(|e| e["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(revs.is_sorted() && revs[0] > rev);
}

#[tokio::test]
async fn leaving_a_selection_looks_like_deletion() {
    let (sandbox, client) = bare();
    let mut object = config_map("x");
    object["metadata"]["labels"] = json!({"t": "0"});
    client.post(CONFIG_MAPS, &object).await;
    let rev = sandbox.store().current_revision();
    let path = format!("{CONFIG_MAPS}/x");
    client.patch(&path, MERGE, &json!({"metadata": {"labels": {"t": "1"}}})).await;
    client.patch(&path, MERGE, &json!({"data": {"a": "2"}})).await;
    client.patch(&path, MERGE, &json!({"metadata": {"labels": {"t": "0"}}, "data": {"a": "3"}})).await;
    let found = events(&client, &format!("labelSelector=t%3D1&resourceVersion={rev}"), 3).await;
    let kinds: Vec<&str> = found.iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(found[2]["object"]["data"]["a"], "2");
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let (_sandbox, client) = bare();
    client.post(CONFIG_MAPS, &config_map("x")).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let found = events(&client, query, 3).await;
    let last = &found[2];
    assert_eq!(last["type"], "BOOKMARK");
    assert_eq!(last["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn too_old_is_an_error_frame() {
    let (sandbox, client) = bare();
    client.post(CONFIG_MAPS, &config_map("x")).await;
    sandbox.store().compact_history();
    let found = events(&client, "resourceVersion=1", 1).await;
    assert_eq!((&found[0]["type"], &found[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}
