//! What was acknowledged is still there after a restart.

use serde_json::json;
use slipway_sandbox::{DataNotice, Sandbox};

use crate::client::{CONFIG_MAPS, Client, MERGE, config_map};

fn open(dir: &std::path::Path) -> (Sandbox, Client) {
    let sandbox = Sandbox::builder().without_workloads().data_dir(dir).build().unwrap();
    let client = Client::new(&sandbox);
    (sandbox, client)
}

#[tokio::test]
async fn restart_keeps_objects_revisions_and_history() {
    let dir = tempfile::tempdir().unwrap();
    let (sandbox, client) = open(dir.path());
    client.post(CONFIG_MAPS, &config_map("x")).await;
    let before = client.patch(&format!("{CONFIG_MAPS}/x"), MERGE, &json!({"data": {"a": "2"}})).await.body;
    client.post(CONFIG_MAPS, &config_map("y")).await;
    client.delete(&format!("{CONFIG_MAPS}/y")).await;
    let (rev, address) = (sandbox.store().current_revision(), ([127, 0, 0, 1], 1).into());
    let kubeconfig = sandbox.kubeconfig(address);
    drop((sandbox, client));
    let (sandbox, client) = open(dir.path());
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/x")).await.body, before);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/y")).await.code, 404);
    assert_eq!(sandbox.store().current_revision(), rev);
    assert_eq!(sandbox.kubeconfig(address), kubeconfig);
    let exact =
        client.get(&format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", rev - 1)).await;
    assert_eq!(exact.body["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn what_was_never_acknowledged_is_cut_off_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (sandbox, client) = open(dir.path());
    client.post(CONFIG_MAPS, &config_map("x")).await;
    sandbox.settle().await;
    drop((sandbox, client));
    let log = dir.path().join("log");
    let whole = std::fs::read(&log).unwrap();
    for cut in [1, 7, 9, 40] {
        // The beginning of one more record, as a crash leaves it.
        let torn = [&whole[..], &whole[8..8 + cut]].concat();
        std::fs::write(&log, &torn).unwrap();
        let (sandbox, client) = open(dir.path());
        assert_eq!(client.get(&format!("{CONFIG_MAPS}/x")).await.code, 200, "{cut}");
        assert!(matches!(sandbox.notices(), [DataNotice::TornTail { bytes, .. }] if *bytes == cut));
        drop((sandbox, client));
        std::fs::write(&log, &whole[..whole.len() - cut]).unwrap();
        let refused = Sandbox::builder().data_dir(dir.path()).build().err().map(|e| e.to_string());
        assert!(refused.is_some_and(|e| e.contains("missing")), "{cut}");
        std::fs::write(&log, &whole).unwrap();
    }
}

#[tokio::test]
async fn a_damaged_identity_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (sandbox, client) = open(dir.path());
    client.post(CONFIG_MAPS, &config_map("x")).await;
    drop((sandbox, client));
    let file = dir.path().join("identity.json");
    let whole = std::fs::read_to_string(&file).unwrap();
    let mut parts: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let mut broken = vec![String::new(), "{}".into(), whole[..whole.len() / 2].to_owned()];
    for key in ["ca_certificate", "ca_key", "token", "token_key", "checksum"] {
        let kept = parts[key].clone();
        let text = kept.as_str().unwrap();
        let middle = text.len() / 2;
        let other = if &text[middle..=middle] == "0" { "1" } else { "0" };
        parts[key] = format!("{}{other}{}", &text[..middle], &text[middle + 1..]).into();
        broken.push(parts.to_string());
        parts[key] = kept;
    }
    for text in broken {
        std::fs::write(&file, &text).unwrap();
        let error = Sandbox::builder().data_dir(dir.path()).build().err().map(|e| e.to_string());
        let error = error.unwrap_or_else(|| panic!("taken as it was: {text}"));
        assert!(error.contains("identity.json is damaged"), "{error}");
        assert!(!error.contains(parts["token"].as_str().unwrap()), "{error}");
    }
    // A file of an older version has no checksum and gets one.
    parts.as_object_mut().unwrap().remove("checksum");
    std::fs::write(&file, parts.to_string()).unwrap();
    drop(open(dir.path()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);
    std::fs::remove_file(&file).unwrap();
    let (sandbox, _client) = open(dir.path());
    assert!(matches!(sandbox.notices(), [DataNotice::IdentityMissing { .. }]), "{:?}", sandbox.notices());
}

#[tokio::test]
async fn saved_clusters_can_be_loaded() {
    let (from, client) = crate::client::bare();
    client.post(CONFIG_MAPS, &config_map("x")).await;
    let mut file = Vec::new();
    from.save(&mut file).unwrap();
    let (to, other) = crate::client::bare();
    to.load(&mut file.as_slice()).unwrap();
    let read = async |client: &Client| {
        let mut object = client.get(&format!("{CONFIG_MAPS}/x")).await.body;
        // Revisions are each cluster's own.
        object["metadata"]["resourceVersion"].take();
        object
    };
    assert_eq!(read(&other).await, read(&client).await);
}

#[test]
fn a_directory_belongs_to_one_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let (_sandbox, _client) = open(dir.path());
    let second = Sandbox::builder().data_dir(dir.path()).build();
    assert!(matches!(second, Err(slipway_sandbox::BuildError::Locked { .. })));
}

#[tokio::test]
async fn damage_is_reported_instead_of_losing_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let (sandbox, client) = open(dir.path());
    client.post(CONFIG_MAPS, &config_map("x")).await;
    drop((sandbox, client));
    let log = dir.path().join("log");
    let whole = std::fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    damaged[40] ^= 0x20;
    let refused = |file: &str, bytes: &[u8]| {
        std::fs::write(dir.path().join(file), bytes).unwrap();
        let error = Sandbox::builder().data_dir(dir.path()).build().err().map(|e| e.to_string());
        let error = error.unwrap_or_else(|| panic!("{file} was taken as it was"));
        assert!(error.contains(file) && error.contains("damaged"), "{error}");
    };
    refused("log", &damaged);
    refused("log", b"somebody else's log");
    std::fs::write(&log, &whole).unwrap();
    refused("snapshot", b"short");
    std::fs::remove_file(dir.path().join("snapshot")).unwrap();
    refused("identity.json", b"{");
}
