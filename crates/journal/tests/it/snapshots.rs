//! Snapshots and the stores they are kept in.

use slipway_journal::{
    FileStore, NodeSnapshot, NodeStatus, RecordDocument, RecordStore as _, RunSnapshot, RunStatus, StoreError,
};

fn snapshot() -> RunSnapshot {
    let mut done = NodeSnapshot::new("crds", "apply", Some("sha256:1".to_owned()));
    done.status = Some(NodeStatus::Succeeded);
    let open = NodeSnapshot::new("chart", "helm", None);
    RunSnapshot::new("demo", "sha256:2".to_owned(), "1.0", "2026-01-02T03:04:05Z", vec![done, open])
}

#[tokio::test]
async fn a_snapshot_comes_back_from_a_file_as_it_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(folder.path().join("deep/record.json"));
    assert!(RunSnapshot::load(&store).await.unwrap().is_none());
    snapshot().save(&store).await.unwrap();
    assert_eq!(RunSnapshot::load(&store).await.unwrap(), Some(snapshot()));
    store.remove().await.unwrap();
    store.remove().await.unwrap();
    assert!(RunSnapshot::load(&store).await.unwrap().is_none());
}

#[tokio::test]
async fn statuses_are_written_in_the_words_of_khook() {
    let mut snapshot = snapshot();
    snapshot.run_status = RunStatus::Succeeded;
    let value = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(value["runStatus"], "ok");
    assert_eq!((&value["steps"][0]["status"], value["steps"][1].get("status")), (&"ok".into(), None));
    for wrong in
        [r#""runStatus":"odd""#, r#""runStatus":"ok","steps":[{"name":"a","type":"b","status":"odd"}]"#]
    {
        let text = format!(
            r#"{{"apiVersion":"khook.io/state.v1","specName":"a","specHash":"","startedAt":"","updatedAt":"",{wrong}}}"#
        );
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path().join("record.json"));
        let document = RecordDocument { content: text.into_bytes(), ..RecordDocument::default() };
        store.save(&document).await.unwrap();
        let refused = RunSnapshot::load(&store).await.unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    }
}

#[tokio::test]
async fn a_document_of_another_version_counts_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(folder.path().join("record.json"));
    let content = br#"{"apiVersion":"khook.io/state.v9"}"#.to_vec();
    store.save(&RecordDocument { content, ..RecordDocument::default() }).await.unwrap();
    assert!(RunSnapshot::load(&store).await.unwrap().is_none());
}

#[test]
fn only_success_with_the_same_input_is_proof() {
    let mut node = NodeSnapshot::new("a", "apply", Some("sha256:1".to_owned()));
    assert!(!node.proves(Some("sha256:1")), "it has not ended");
    node.status = Some(NodeStatus::Succeeded);
    assert!(node.proves(Some("sha256:1")));
    assert!(!node.proves(Some("sha256:2")) && !node.proves(None));
    node.status = Some(NodeStatus::Failed);
    assert!(!node.proves(Some("sha256:1")));
}

#[test]
fn a_long_error_is_cut_at_a_character() {
    let mut node = NodeSnapshot::new("a", "apply", None);
    node.set_error(Some(&"ä".repeat(2000)));
    let error = node.error.unwrap();
    assert!(error.ends_with("…(truncated)") && error.len() < 2100, "{}", error.len());
}
