//! helm steps: scenarios 34, 36 to 45 and 52.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::helm::{ReleaseHistory, ReleaseStorage, RevisionStatus, StorageDriver};
use slipway_runbook::ErrorKind;

use crate::world::{World, error};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {size: \"{{ .Values.size }}\", list: \"{{ .Values.list }}\", gone: \"{{ .Values.gone }}\"}\n";
const DEFAULTS: &str = "size: 1\nlist: [a]\ngone: here\n";

async fn history(world: &World) -> ReleaseHistory {
    let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
    ReleaseStorage::new(cluster, StorageDriver::Secret, "default").read_history("app").await.unwrap()
}

async fn revisions(world: &World) -> Vec<(u32, RevisionStatus)> {
    history(world).await.releases.iter().map(|release| (release.version, release.info.status)).collect()
}

fn step(more: &str) -> String {
    format!("  - {{name: app, timeout: 60s, helm: {{chart: ./app{more}}}}}\n")
}

/// Scenario S-36 of the specification.
#[tokio::test]
async fn every_run_makes_a_revision_and_ten_are_kept() {
    let world = World::new();
    world.chart("app", DEFAULTS, MAP);
    let report = world.apply(&step("")).await;
    assert!(report.is_success(), "{report:?}");
    assert_eq!(report.step("app").unwrap().note.as_deref(), Some("installed revision 1"));
    assert_eq!(revisions(&world).await, [(1, RevisionStatus::Deployed)]);
    assert!(world.apply(&step("")).await.is_success());
    assert_eq!(revisions(&world).await, [(1, RevisionStatus::Superseded), (2, RevisionStatus::Deployed)]);
    for _ in 0..13 {
        assert!(world.apply(&step("")).await.is_success());
    }
    let kept = revisions(&world).await;
    assert_eq!((kept.len(), kept.last().unwrap().0), (10, 15));
    let live = world.config_map("app").await.unwrap();
    assert!(live["metadata"]["managedFields"].to_string().contains("\"manager\":\"helm\""));
}

/// Scenarios S-37, S-44 of the specification.
#[tokio::test]
async fn values_come_from_the_document_alone() {
    let world = World::new();
    world.chart("app", DEFAULTS, MAP);
    world.file("v.yaml", "size: 2\nlist: [b, c]\n");
    world.shelf.files.lock().unwrap().insert("https://values.example/v.yaml".into(), b"size: 3\n".to_vec());
    let from = ", valuesFrom: [{file: v.yaml}, {url: 'https://values.example/v.yaml'}], values: {size: 4, gone: null}";
    assert!(world.apply(&step(from)).await.is_success());
    assert_eq!(
        world.config_map("app").await.unwrap()["data"],
        json!({"size": "4", "list": "[b c]", "gone": ""})
    );
    assert!(world.apply(&step(from).replace("size: 4, ", "")).await.is_success());
    assert_eq!(world.config_map("app").await.unwrap()["data"]["size"], "3");
    // Taken out of the document, they are gone.
    assert!(world.apply(&step("")).await.is_success());
    assert_eq!(
        world.config_map("app").await.unwrap()["data"],
        json!({"size": "1", "list": "[a]", "gone": "here"})
    );
    assert!(history(&world).await.last_release().unwrap().config.is_empty());
    // All violations of the schema at once.
    world.file(
        "app/values.schema.json",
        r#"{"type": "object", "properties": {"size": {"type": "integer"}, "gone": {"type": "string"}}}"#,
    );
    let told = error(&world.apply(&step(", values: {size: big, gone: 1}")).await, "app");
    assert!(told.contains("size") && told.contains("gone"), "{told}");
}

/// Scenario S-38 of the specification.
#[tokio::test]
async fn a_failed_first_install_is_not_installed() {
    let world = World::new();
    world.chart(
        "app",
        DEFAULTS,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, annotations: {sim/reject: not today}}\n",
    );
    let report = world
        .apply(&step(", skipIf: installed").replace("timeout", "retries: 1, retryDelay: 1ms, timeout"))
        .await;
    assert_eq!(report.step("app").unwrap().attempts, Some(2), "{report:?}");
    assert!(error(&report, "app").contains("not today"));
    assert!(revisions(&world).await.iter().all(|(_, status)| *status == RevisionStatus::Failed));
    world.chart("app", DEFAULTS, MAP);
    assert!(world.apply(&step(", skipIf: installed")).await.is_success());
    assert!(world.config_map("app").await.is_some());
    let before = world.cluster.call_counts();
    let report = world.apply(&step(", skipIf: installed")).await;
    assert!(report.step("app").unwrap().note.as_ref().unwrap().contains("skipIf: installed"));
    assert_eq!(world.cluster.call_counts().since(&before).write_count(), 0);
}

/// Scenario S-39 of the specification.
#[tokio::test]
async fn what_was_left_pending() {
    let world = World::new();
    world.chart("app", DEFAULTS, MAP);
    assert!(world.apply(&step("")).await.is_success());
    let pending = async || {
        let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
        let storage = ReleaseStorage::new(cluster, StorageDriver::Secret, "default");
        let mut release = history(&world).await.last_release().unwrap().clone();
        release.info.status = RevisionStatus::PendingUpgrade;
        storage.update(&release).await.unwrap();
    };
    pending().await;
    let report = world.apply(&step("")).await;
    assert!(error(&report, "app").contains("another operation is in progress"), "{report:?}");
    world.clock.advance(Duration::from_secs(90));
    let report = world.apply(&step("")).await;
    assert!(report.is_success(), "{report:?}");
    assert!(world.said().contains("abandoned operation recovered"));
    assert_eq!(revisions(&world).await, [(1, RevisionStatus::Failed), (2, RevisionStatus::Deployed)]);
}

/// Without a deadline: simulated time passes it while pulls of an image are tried again and again.
const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec:\n  progressDeadlineSeconds: 2147483647\n  selector: {matchLabels: {app: app}}\n  template:\n    metadata: {labels: {app: app}, annotations: {sim/fail: \"{{ .Values.fail }}\"}}\n    spec: {containers: [{name: c, image: \"i:{{ .Values.tag }}\"}]}\n";

/// Scenario S-40 of the specification.
#[tokio::test]
async fn atomic_leaves_nothing_half_done() {
    let world = World::new();
    world.chart("app", "fail: ''\ntag: 1\n", WEB);
    let bad = step(", atomic: true, values: {fail: imagepull, tag: 2}").replace("60s", "5s");
    let report = world.apply(&bad).await;
    let told = error(&report, "app");
    assert!(told.contains("uninstalled"), "{told}");
    assert!(told.to_lowercase().contains("pull"), "{told}");
    assert!(revisions(&world).await.is_empty());
    assert!(world.get("apps/v1", "Deployment", "default", "app").await.is_none());
    // With something to go back to, that comes back as a revision of its own.
    assert!(world.apply(&step(", wait: true")).await.is_success());
    let report = world.apply(&bad).await;
    assert_eq!(report.step("app").unwrap().error_kind, Some(ErrorKind::Rollback), "{report:?}");
    let kept = revisions(&world).await;
    assert_eq!(
        kept,
        [(1, RevisionStatus::Superseded), (2, RevisionStatus::Failed), (3, RevisionStatus::Deployed)]
    );
    let live = world.get("apps/v1", "Deployment", "default", "app").await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "i:1");
}

/// Scenario S-41 of the specification.
#[tokio::test]
async fn objects_of_others_are_refused_all_at_once() {
    let world = World::new();
    let two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n";
    world.chart("app", DEFAULTS, two);
    for name in ["one", "two"] {
        world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"mine": "yes"}})).await;
    }
    let report = world.apply(&step("").replace("timeout", "retries: 2, timeout")).await;
    let told = error(&report, "app");
    assert!(told.contains("one") && told.contains("two"), "{told}");
    assert!(revisions(&world).await.is_empty());
    assert_eq!(world.config_map("one").await.unwrap()["data"], json!({"mine": "yes"}));
}

/// Scenario S-42 of the specification.
#[tokio::test]
async fn a_hook_that_fails_shows_its_last_lines() {
    let world = World::new();
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\nspec:\n  backoffLimit: 0\n  template:\n    metadata: {annotations: {sim/fail: \"{{ .Values.fail }}\", sim/logs: the hook broke}}\n    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}\n---\n";
    world.chart("app", "fail: 'true'\n", &format!("{hook}{MAP}"));
    let report = world.apply(&step("")).await;
    let told = error(&report, "app");
    assert!(told.contains("hook") && told.contains("the hook broke"), "{told}");
    // The next run replaces the hook of the run before.
    let uid =
        async || world.get("batch/v1", "Job", "default", "hook").await.unwrap()["metadata"]["uid"].clone();
    let before = uid().await;
    assert!(world.apply(&step(", values: {fail: ''}")).await.is_success());
    assert_ne!(uid().await, before);
    // A hook is waited for though nothing comes after it and the step does not wait.
    let last = hook
        .replace("pre-install", "post-upgrade")
        .replace("name: hook", "name: last")
        .replace("the hook", "the last");
    world.chart("app", "fail: 'true'\n", &format!("{last}{MAP}"));
    let report = world.apply(&step("")).await;
    assert!(error(&report, "app").contains("the last broke"), "{report:?}");
}

/// Scenario S-43 of the specification.
#[tokio::test]
async fn definitions_beside_templates() {
    let world = World::new();
    world.chart("app", DEFAULTS, "apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: w}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n");
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.demo.io}\nspec:\n  group: demo.io\n  scope: Namespaced\n  names: {plural: widgets, singular: widget, kind: Widget}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
    world.file("app/crds/w.yaml", crd);
    let report = world.apply(&step("")).await;
    assert!(report.is_success(), "{report:?}");
    assert!(world.get("demo.io/v1", "Widget", "default", "w").await.is_some());
    // An upgrade leaves definitions as they are.
    world.file("app/crds/w.yaml", &crd.replace("singular: widget,", "singular: widget, shortNames: [wdg],"));
    assert!(world.apply(&step("")).await.is_success());
    let definition = world
        .get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.demo.io")
        .await
        .unwrap();
    assert!(definition["spec"]["names"]["shortNames"].is_null(), "{definition}");
    let before = world.cluster.call_counts();
    let report = world.apply("  - {name: d, timeout: 60s, delete: {release: app}}\n").await;
    assert!(report.is_success(), "{report:?}");
    assert!(world.cluster.call_counts().since(&before).count_of(slipway_cluster::RequestVerb::Delete) > 0);
    assert!(world.get("demo.io/v1", "Widget", "default", "w").await.is_none());
    assert!(
        world
            .get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.demo.io")
            .await
            .is_some()
    );
    assert!(world.config_map("kept").await.is_some());
}

/// Scenario S-52 of the specification.
#[tokio::test]
async fn a_release_is_deleted_once_and_only_what_is_its_own() {
    let world = World::new();
    world.chart("app", DEFAULTS, &format!("{MAP}---\n{}", MAP.replace("name: app", "name: taken")));
    assert!(world.apply(&step("")).await.is_success());
    // Somebody else's release has taken one of the objects over.
    let mut taken = world.config_map("taken").await.unwrap();
    taken["metadata"].as_object_mut().unwrap().remove("managedFields");
    taken["metadata"]["annotations"]["meta.helm.sh/release-name"] = "other".into();
    world.put(taken).await;
    let report = world.apply("  - {name: d, timeout: 60s, delete: {release: app}}\n").await;
    assert!(report.is_success(), "{report:?}");
    assert!(world.config_map("app").await.is_none());
    assert!(world.config_map("taken").await.is_some());
    let told = world.said();
    assert!(told.contains("taken") && told.contains("other"), "{told}");
    assert!(revisions(&world).await.is_empty());
    // A second delete finds nothing, and may be told to mind.
    let report = world.apply("  - {name: d, delete: {release: app}}\n").await;
    assert!(report.is_success() && report.step("d").unwrap().note.as_ref().unwrap().contains("not there"));
    assert!(
        !world.apply("  - {name: d, delete: {release: app, ignoreNotFound: false}}\n").await.is_success()
    );
}

/// Scenario S-45 of the specification.
#[tokio::test]
async fn charts_come_through_the_remote() {
    let world = World::new();
    world.chart("app", DEFAULTS, MAP);
    let path = world.dir.path().join("app");
    world.shelf.charts.lock().unwrap().insert("app@1.0.0".into(), path.clone());
    world.shelf.charts.lock().unwrap().insert("oci://registry.example/charts/app:1.0.0".into(), path);
    let steps = "  - {name: app, timeout: 60s, helm: {chart: 'app:1.0.0', repo: 'https://charts.example', createNamespace: true, namespace: one}}
  - {name: other, timeout: 60s, helm: {chart: 'oci://registry.example/charts/app', version: 1.0.0, createNamespace: true, namespace: two}}
";
    let report = world.apply(steps).await;
    assert!(report.is_success(), "{report:?}");
    for namespace in ["one", "two"] {
        assert!(world.get("v1", "ConfigMap", namespace, "app").await.is_some());
    }
    let missing =
        world.apply("  - {name: x, helm: {chart: 'app:9.9.9', repo: 'https://charts.example'}}\n").await;
    assert_eq!(missing.step("x").unwrap().error_kind, Some(ErrorKind::Fetch));
    // A namespace that is not there and not to be made.
    world.chart("app", DEFAULTS, MAP);
    assert!(error(&world.apply(&step(", namespace: nowhere")).await, "app").contains("nowhere"));
}

/// Scenario S-34 of the specification.
#[tokio::test]
async fn a_release_that_is_stopped_is_failed_not_pending() {
    let world = World::new();
    world.chart("app", "fail: pending\ntag: 1\n", WEB);
    let document = world.document("state: {}", &step(", wait: true"));
    let stop = async {
        while world.get("apps/v1", "Deployment", "default", "app").await.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        world.cancel.cancel();
    };
    let (report, ()) = tokio::join!(world.try_apply(&document), stop);
    let report = report.unwrap();
    assert!(report.canceled, "{report:?}");
    assert_eq!(revisions(&world).await, [(1, RevisionStatus::Failed)]);
    let mut world = world;
    world.reconnect();
    assert!(world.apply_with("state: {}", &step(", wait: true, values: {fail: ''}")).await.is_success());
    assert_eq!(revisions(&world).await.last().unwrap(), &(2, RevisionStatus::Deployed));
}
