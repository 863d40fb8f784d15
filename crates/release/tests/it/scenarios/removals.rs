//! What goes, what stays, and what is left to nobody.

use serde_json::json;
use slipway_cluster::helm::RevisionStatus;
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_release::decide::KeptReason;

use crate::world::{World, annotated, config_map, place, text};

/// Scenario 23: what the release no longer has is deleted, unless kept or somebody else's.
#[tokio::test]
async fn removed_resources() {
    let world = World::new();
    let keep = json!({"helm.sh/resource-policy": "keep"});
    let names = ["gone", "live-kept", "theirs"];
    let mut objects: Vec<_> = names.iter().map(|name| config_map(name, "1")).collect();
    objects.push(annotated(config_map("kept", "1"), keep.clone()));
    objects.push(config_map("a", "1"));
    world.deployed(&objects).await;
    for (name, annotations) in
        [("live-kept", keep), ("theirs", json!({"meta.helm.sh/release-name": "other"}))]
    {
        let patch = ObjectPatch::Merge(json!({"metadata": {"annotations": annotations}}));
        let options = WriteOptions::for_manager("kubectl");
        world.cluster.patch(&place("ConfigMap", name), &patch, &options, None).await.expect("writes");
    }
    let mut remaining = world.plan(&[config_map("a", "1")]).await.expect("plans").kept;
    remaining.sort_by(|a, b| a.object.cmp(&b.object));
    let told: Vec<(&str, &KeptReason)> =
        remaining.iter().map(|kept| (kept.object.as_str(), &kept.why)).collect();
    let theirs = KeptReason::Owner("release t1/other".into());
    let expected = [
        ("ConfigMap/kept", &KeptReason::Policy),
        ("ConfigMap/live-kept", &KeptReason::Policy),
        ("ConfigMap/theirs", &theirs),
    ];
    assert_eq!(told, expected);
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "gone").await.is_none());
    for name in ["kept", "live-kept", "theirs"] {
        assert!(world.get("ConfigMap", name).await.is_some(), "{name}");
    }
}

/// Scenario 24: what a failed revision did not delete the next one does.
#[tokio::test]
async fn failed_revisions_do_not_leak() {
    let mut world = World::new();
    world.apply.presence_timeout = Some(std::time::Duration::from_millis(50));
    let never =
        annotated(config_map("b", "1"), json!({"x.external-dependency.werf.io/resource": "secrets/never"}));
    world.deployed(&[config_map("a", "1"), config_map("x", "1")]).await;
    world.failed(&[config_map("a", "1"), never]).await;
    assert!(world.get("ConfigMap", "x").await.is_some());
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "x").await.is_none());
    assert_eq!(
        world.statuses().await,
        [(1, RevisionStatus::Superseded), (2, RevisionStatus::Failed), (3, RevisionStatus::Deployed)]
    );
}

/// Scenario 25: an object that moves to another group or version is not deleted, and a stored kind nobody
/// serves any more blocks nothing.
#[tokio::test]
async fn moved_and_unknown_kinds() {
    let world = World::new();
    let web = crate::world::deployment("web", "nginx");
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}});
    world.deployed(&[web.clone(), ingress.clone()]).await;
    let before = (world.get("Deployment", "web").await, world.get("Ingress", "web").await);
    let mut record = world.history().await.releases[0].clone();
    record.manifest = record
        .manifest
        .replace("apps/v1", "apps/v1beta1")
        .replace("networking.k8s.io/v1", "extensions/v1beta1");
    record.manifest.push_str("---\napiVersion: extensions/v1beta1\nkind: Gone\nmetadata:\n  name: old\n");
    world.storage().update(&record).await.expect("stores");
    let plan = world.plan(&[web.clone(), ingress.clone()]).await.expect("plans");
    assert!(plan.deletions.is_empty());
    world.deployed(&[web, ingress]).await;
    let after = (world.get("Deployment", "web").await, world.get("Ingress", "web").await);
    assert_eq!(text(&before.0, "/metadata/uid"), text(&after.0, "/metadata/uid"));
    assert_eq!(text(&before.1, "/metadata/uid"), text(&after.1, "/metadata/uid"));
    world.delete().await;
}

/// Scenario 25: kinds that are gone cost no waiting, neither a plan nor a run. Time is virtual: only waiting
/// takes any.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_kinds_that_are_gone() {
    let world = World::bare();
    world.deployed(&[config_map("a", "1")]).await;
    let mut record = world.history().await.releases[0].clone();
    for number in 0..20 {
        record.manifest.push_str(&format!(
            "---\napiVersion: gone{number}.example.com/v1\nkind: Gone\nmetadata:\n  name: old{number}\n"
        ));
    }
    world.storage().update(&record).await.expect("stores");
    let started = tokio::time::Instant::now();
    world.plan(&[config_map("a", "2")]).await.expect("plans");
    world.deployed(&[config_map("a", "2")]).await;
    assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
}

/// Scenario 27: what belongs to anyone has no owner and survives.
#[tokio::test]
async fn ownership_anyone() {
    let world = World::new();
    let free = annotated(config_map("free", "1"), json!({"werf.io/ownership": "anyone"}));
    world.deployed(&[config_map("a", "1"), free.clone()]).await;
    let live = world.get("ConfigMap", "free").await;
    assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-name"), "");
    assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-namespace"), "");
    assert_eq!(text(&live, "/metadata/labels/app.kubernetes.io~1managed-by"), "");
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "free").await.is_some());
    world.deployed(&[config_map("a", "1"), free]).await;
    world.delete().await;
    assert!(world.get("ConfigMap", "free").await.is_some());
    assert!(world.get("ConfigMap", "a").await.is_none());
}

/// Scenario 28: policies on creating, updating, recreating, deleting.
#[tokio::test]
async fn resource_policies() {
    let world = World::new();
    let policy = |name: &str, value: &str, word: &str| {
        annotated(config_map(name, value), json!({"werf.io/resource-policy": word}))
    };
    let again = |value: &str| {
        let notes =
            json!({"werf.io/resource-policy": "skip-recreate", "werf.io/delete-policy": "before-creation"});
        annotated(config_map("again", value), notes)
    };
    let objects = |value: &str| {
        [
            policy("never", value, "skip-create"),
            policy("fixed", value, "skip-update"),
            policy("stays", value, "skip-delete"),
            again(value),
        ]
    };
    world.deployed(&objects("1")).await;
    assert!(world.get("ConfigMap", "never").await.is_none());
    let before = world.get("ConfigMap", "again").await;
    // What somebody changes by hand stays as well where nothing may be updated.
    let patch = ObjectPatch::Merge(json!({"data": {"key": "by hand"}}));
    let options = WriteOptions::for_manager("kubectl-edit");
    world.cluster.patch(&place("ConfigMap", "fixed"), &patch, &options, None).await.expect("writes");
    world.deployed(&objects("2")).await;
    assert!(world.get("ConfigMap", "never").await.is_none());
    assert_eq!(text(&world.get("ConfigMap", "fixed").await, "/data/key"), "by hand");
    assert_eq!(text(&world.get("ConfigMap", "stays").await, "/data/key"), "2");
    assert_eq!(world.get("ConfigMap", "again").await, before, "it is not made again");
    world.deployed(&[config_map("a", "1")]).await;
    assert!(world.get("ConfigMap", "stays").await.is_some());
    assert!(world.get("ConfigMap", "fixed").await.is_none());
    world.deployed(&[config_map("a", "1"), policy("stays-too", "1", "keep")]).await;
    let report = world.delete().await;
    assert!(world.get("ConfigMap", "stays-too").await.is_some());
    let kept: Vec<&str> = report.kept.iter().map(|kept| kept.object.as_str()).collect();
    assert_eq!(kept, ["ConfigMap/stays-too"]);
}

/// Scenario 54: a wrong annotation in what was stored before does not block.
#[tokio::test]
async fn old_mistakes_do_not_block() {
    let world = World::new();
    world.deployed(&[config_map("a", "1"), config_map("b", "1")]).await;
    let mut record = world.history().await.releases[0].clone();
    record.manifest = record.manifest.replace(
        "  name: b\n",
        "  name: b\n  annotations:\n    werf.io/weight: heavy\n    werf.io/fail-mode: Maybe\n",
    );
    assert!(record.manifest.contains("heavy"));
    world.storage().update(&record).await.expect("stores");
    world.deployed(&[config_map("a", "2")]).await;
    assert!(world.get("ConfigMap", "b").await.is_none());
}

/// What an earlier revision says wrongly becomes the safe choice.
#[tokio::test]
async fn old_mistakes_become_the_safe_choice() {
    for (note, stays) in [
        ("werf.io/resource-policy: sometimes", true),
        ("werf.io/ownership: nobody", false),
        ("werf.io/delete-propagation: Sideways", false),
        ("werf.io/delete-dependency-x: state=ready", false),
        ("werf.io/deploy-on: tomorrow", false),
    ] {
        let world = World::bare();
        world.deployed(&[config_map("a", "1"), config_map("b", "1")]).await;
        let mut record = world.history().await.releases[0].clone();
        let (old, new) = ("  name: b\n", format!("  name: b\n  annotations:\n    {note}\n"));
        record.manifest = record.manifest.replace(old, &new);
        world.storage().update(&record).await.expect("stores");
        world.deployed(&[config_map("a", "2")]).await;
        assert_eq!(world.get("ConfigMap", "b").await.is_some(), stays, "{note}");
    }
}
