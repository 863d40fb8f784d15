//! Install, upgrade, roll back, delete.

use serde_json::json;
use slipway_cluster::helm::Status;
use slipway_release::plan::Content;

use super::{World, annotated, config_map, deployment, text};

/// Scenario 1: a fresh install makes the namespace, the objects and revision 1.
#[tokio::test]
async fn s01_fresh_install() {
    let world = World::new();
    let report = world.deployed(&[config_map("a", "1"), deployment("web", "nginx")]).await;
    assert_eq!((report.status.as_str(), report.revision), ("deployed", 1));
    assert!(world.get("Namespace", "t1").await.is_some());
    for (kind, name) in [("ConfigMap", "a"), ("Deployment", "web")] {
        let live = world.get(kind, name).await;
        assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-name"), "demo");
        assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-namespace"), "t1");
        assert_eq!(text(&live, "/metadata/labels/app.kubernetes.io~1managed-by"), "Helm");
        let managers = live.as_ref().and_then(|live| live["metadata"]["managedFields"].as_array().cloned());
        let is_ours = |entry: &serde_json::Value| entry["manager"] == "helm" && entry["operation"] == "Apply";
        assert!(managers.unwrap_or_default().iter().any(is_ours));
    }
    assert_eq!(world.statuses().await, [(1, Status::Deployed)]);
    let record = world.get("Secret", "sh.helm.release.v1.demo.v1").await;
    assert_eq!(text(&record, "/metadata/labels/status"), "deployed");
    assert_eq!(text(&record, "/type"), "helm.sh/release.v1");
    assert_eq!(world.history().await.releases[0].info.description, "Install complete");
}

/// Scenario 2: a second run without changes writes nothing.
#[tokio::test]
async fn s02_second_run_is_skipped() {
    let world = World::new();
    let objects = [config_map("a", "1"), deployment("web", "nginx")];
    world.deployed(&objects).await;
    let before = world.get("Deployment", "web").await;
    let counted = world.cluster.calls();
    let report = world.deployed(&objects).await;
    assert_eq!(report.status, "skipped");
    assert_eq!(world.statuses().await, [(1, Status::Deployed)]);
    let after = world.get("Deployment", "web").await;
    assert_eq!(text(&before, "/metadata/resourceVersion"), text(&after, "/metadata/resourceVersion"));
    assert!(world.plan(&objects).await.expect("plans").is_empty());
    let _ = counted;
}

/// Scenarios 3, 4 and 37: values or notes alone make a revision; the exit codes tell.
#[tokio::test]
async fn s03_s04_s37_values_and_notes_make_revisions() {
    let mut world = World::new();
    let objects = [config_map("a", "1")];
    assert_eq!(world.plan(&objects).await.expect("plans").exit_code(), 2);
    world.deployed(&objects).await;
    assert_eq!(world.plan(&objects).await.expect("plans").exit_code(), 0);
    world.values = json!({"unused": 1});
    let plan = world.plan(&objects).await.expect("plans");
    assert_eq!((plan.exit_code(), plan.reason.as_deref()), (3, Some("the values changed")));
    world.deployed(&objects).await;
    assert_eq!(world.statuses().await, [(1, Status::Superseded), (2, Status::Deployed)]);
    world.notes = "hello".into();
    let plan = world.plan(&objects).await.expect("plans");
    assert_eq!((plan.exit_code(), plan.reason.as_deref()), (3, Some("the notes changed")));
}

/// Scenario 5: only what changed is updated.
#[tokio::test]
async fn s05_only_what_changed_is_updated() {
    let world = World::new();
    world.deployed(&[config_map("a", "1"), config_map("b", "1")]).await;
    let before = world.get("ConfigMap", "b").await;
    let objects = [config_map("a", "2"), config_map("b", "1")];
    let view = world.plan(&objects).await.expect("plans").view(&Default::default());
    assert_eq!(view.summary, [("update".to_owned(), 1)]);
    assert!(view.changes[0].fields.iter().any(|field| field.contains("key")), "{:?}", view.changes[0].fields);
    world.deployed(&objects).await;
    let after = world.get("ConfigMap", "b").await;
    assert_eq!(text(&before, "/metadata/resourceVersion"), text(&after, "/metadata/resourceVersion"));
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "2");
}

/// Scenario 23: what the release no longer has is deleted, unless kept or somebody else's.
#[tokio::test]
async fn s23_removed_resources() {
    let world = World::new();
    let keep = json!({"helm.sh/resource-policy": "keep"});
    world
        .deployed(&[config_map("a", "1"), config_map("gone", "1"), annotated(config_map("kept", "1"), keep)])
        .await;
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "gone").await.is_none());
    assert!(world.get("ConfigMap", "kept").await.is_some());
}

/// Scenario 27: what belongs to anyone has no owner and survives.
#[tokio::test]
async fn s27_ownership_anyone() {
    let world = World::new();
    let free = annotated(config_map("free", "1"), json!({"werf.io/ownership": "anyone"}));
    world.deployed(&[config_map("a", "1"), free]).await;
    let live = world.get("ConfigMap", "free").await;
    assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-name"), "");
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "free").await.is_some());
}

/// Scenario 43: the history has a limit, and the deployed revision is never the one to go.
#[tokio::test]
async fn s43_history_limit() {
    let mut world = World::new();
    world.apply.history_limit = 3;
    for number in 0..5 {
        world.deployed(&[config_map("a", &number.to_string())]).await;
    }
    let expected = [(3, Status::Superseded), (4, Status::Superseded), (5, Status::Deployed)];
    assert_eq!(world.statuses().await, expected);
}

/// Scenario 44: rolling back, without and with a revision.
#[tokio::test]
async fn s44_rollback() {
    let world = World::new();
    world.deployed(&[config_map("a", "1"), config_map("old", "1")]).await;
    world.deployed(&[config_map("a", "2")]).await;
    let report = world.run(&world.with(Content::Revision(None))).await.expect("rolls back");
    assert_eq!((report.status.as_str(), report.revision), ("deployed", 3));
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
    assert!(world.get("ConfigMap", "old").await.is_some());
    assert_eq!(world.history().await.releases[2].info.description, "Rollback to 1");
    let again = world.run(&world.with(Content::Revision(Some(3)))).await.expect("has nothing to do");
    assert_eq!(again.status, "skipped");
    let missing = world.run(&world.with(Content::Revision(Some(9)))).await.expect_err("does not exist");
    assert!(missing.to_string().contains("no revision 9"), "{missing}");
}

/// Scenario 45: deleting takes everything but what is kept, and the records.
#[tokio::test]
async fn s45_delete() {
    let world = World::new();
    let keep = json!({"werf.io/resource-policy": "keep"});
    let hook = annotated(super::job("bye", "busybox"), json!({"helm.sh/hook": "pre-delete"}));
    world.deployed(&[config_map("a", "1"), annotated(config_map("kept", "1"), keep), hook]).await;
    assert!(world.get("Job", "bye").await.is_none());
    let report = world.run(&world.with(Content::Nothing)).await.expect("deletes");
    assert_eq!(report.status, "uninstalled");
    assert!(world.get("ConfigMap", "a").await.is_none());
    assert!(world.get("ConfigMap", "kept").await.is_some());
    assert!(world.get("Job", "bye").await.is_some(), "the hook ran");
    assert!(world.history().await.releases.is_empty());
    let again = world.run(&world.with(Content::Nothing)).await.expect_err("is gone");
    assert!(again.to_string().contains("not found"), "{again}");
}

/// Scenario 56: objects in another namespace belong to the release all the same.
#[tokio::test]
async fn s56_two_namespaces() {
    let world = World::new();
    let mut far = config_map("far", "1");
    far["metadata"]["namespace"] = "t2".into();
    let t2 = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t2"}});
    world.deployed(&[config_map("a", "1"), far.clone(), t2]).await;
    let at = slipway_cluster::At::new(slipway_manifest::Gvk::new("", "v1", "ConfigMap"), Some("t2"), "far");
    let live = world.cluster.get(&at).await.expect("can be read");
    assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-namespace"), "t1");
    let mut near = config_map("a", "2");
    near["metadata"]["namespace"] = "t1".into();
    let failure = world.plan(&[config_map("a", "1"), near]).await.expect_err("is there twice");
    assert!(failure.to_string().contains("ConfigMap/a is there twice"), "{failure}");
}

/// Scenarios 25 and 42: a stored kind nobody serves any more, and histories Helm leaves behind, block nothing.
#[tokio::test]
async fn s25_s42_old_records_do_not_block() {
    use slipway_cluster::helm::{Driver, Storage};
    let mut world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let storage = Storage::new(world.cluster.clone(), Driver::Secret, "t1");
    let mut record = world.history().await.releases[0].clone();
    record.manifest.push_str("---\napiVersion: extensions/v1beta1\nkind: Ingress\nmetadata:\n  name: old\n");
    storage.update(&record).await.expect("stores");
    world.deployed(&[config_map("a", "2")]).await;
    world.options.keep_history = true;
    world.run(&world.with(Content::Nothing)).await.expect("deletes");
    assert_eq!(world.statuses().await.last(), Some(&(2, Status::Uninstalled)));
    let report = world.deployed(&[config_map("a", "3")]).await;
    assert_eq!(
        (report.revision, world.history().await.releases[2].info.description.as_str()),
        (3, "Install complete")
    );
}

/// Scenario 53: an unchanged release costs no write, and few requests however many objects it has.
#[tokio::test]
async fn s53_no_change_costs_no_write() {
    let world = World::new();
    let objects: Vec<_> = (0..100).map(|number| config_map(&format!("c{number}"), "1")).collect();
    world.deployed(&objects).await;
    let before = world.cluster.calls();
    let plan = world.plan(&objects).await.expect("plans");
    let calls = world.cluster.calls().since(&before);
    assert!(plan.is_empty());
    assert_eq!(calls.writes(), 0, "{calls}");
    // One dry run for each object; everything else together is a handful.
    assert!(calls.total() <= 100 + 10, "{calls}");
}
