//! apply, delete, patch: scenarios 46 to 53.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::{CallCounts, RequestVerb};

use crate::world::{World, error, inline, statuses};

fn since(world: &World, before: &CallCounts) -> CallCounts {
    world.cluster.call_counts().since(before)
}

/// Scenario S-46 of the specification.
#[tokio::test]
async fn apply_creates_then_patches() {
    let world = World::new();
    let step = |data: &str| {
        format!(
            "  - name: a\n    apply:\n      manifests:\n        - inline: |\n            apiVersion: v1\n            kind: ConfigMap\n            metadata: {{name: a}}\n            data: {data}\n"
        )
    };
    let before = world.cluster.call_counts();
    assert!(world.apply(&step("{x: '1', z: '2'}")).await.is_success());
    let calls = since(&world, &before);
    assert_eq!(
        (
            calls.count_of(RequestVerb::Create),
            calls.count_of(RequestVerb::Patch),
            calls.count_of(RequestVerb::Apply)
        ),
        (1, 0, 0),
        "{calls}"
    );
    let before = world.cluster.call_counts();
    assert!(world.apply(&step("{x: '3'}")).await.is_success());
    let calls = since(&world, &before);
    assert_eq!(
        (
            calls.count_of(RequestVerb::Create),
            calls.count_of(RequestVerb::Patch),
            calls.count_of(RequestVerb::Apply)
        ),
        (1, 1, 0),
        "{calls}"
    );
    let live = world.config_map("a").await.unwrap();
    // What the manifest no longer says stays.
    assert_eq!(live["data"], json!({"x": "3", "z": "2"}));
    assert!(live["metadata"]["annotations"].is_null());
    // A list is replaced as a whole.
    let service = |ports: &str| {
        format!(
            "  - {{name: s, apply: {{manifests: [{{inline: '{{apiVersion: v1, kind: Service, metadata: {{name: s}}, spec: {{ports: {ports}}}}}'}}]}}}}\n"
        )
    };
    assert!(world.apply(&service("[{name: a, port: 80}, {name: b, port: 81}]")).await.is_success());
    assert!(world.apply(&service("[{name: c, port: 82}]")).await.is_success());
    let ports = world.get("v1", "Service", "default", "s").await.unwrap()["spec"]["ports"].clone();
    assert_eq!(ports.as_array().unwrap().len(), 1, "{ports}");
    assert_eq!(ports[0]["port"], 82);
    let manager = |live: &serde_json::Value| live["metadata"]["managedFields"][0]["manager"].clone();
    assert_eq!(manager(&live), "khook");
}

/// Scenario S-46 of the specification.
#[tokio::test]
async fn server_side_takes_fields_over() {
    let world = World::new();
    world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "old"}})).await;
    let before = world.cluster.call_counts();
    let report = world
        .apply(&format!(
            "  - {{name: a, apply: {{serverSide: true, manifests: [{}]}}}}\n",
            inline("a", "new")
        ))
        .await;
    assert!(report.is_success(), "{report:?}");
    let calls = since(&world, &before);
    assert_eq!((calls.count_of(RequestVerb::Create), calls.count_of(RequestVerb::Apply)), (0, 1), "{calls}");
    assert!(
        world.sent().iter().any(|line| line.contains("force=true") && line.contains("fieldManager=khook"))
    );
    assert_eq!(world.config_map("a").await.unwrap()["data"]["key"], "new");
}

/// Scenario S-46 of the specification.
#[tokio::test]
async fn namespaces_lists_and_generated_names() {
    let world = World::new();
    let report = world
        .apply(
            "  - name: a
    apply:
      namespace: shop
      createNamespace: true
      manifests:
        - inline: |
            apiVersion: v1
            kind: List
            items:
              - {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
              - {apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: default}}
              - {apiVersion: v1, kind: Namespace, metadata: {name: third}}
            ---
            # nothing here
",
        )
        .await;
    assert!(report.is_success(), "{report:?}");
    assert!(world.get("v1", "ConfigMap", "shop", "one").await.is_some());
    assert!(world.get("v1", "ConfigMap", "default", "two").await.is_some());
    assert!(world.get("v1", "Namespace", "", "third").await.is_some());
    for (text, said) in [
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: x-}}", "generateName"),
        ("{kind: Pod, metadata: {name: x}}", "apiVersion"),
        ("# nothing", "no object"),
        ("a: b: c", "manifests[0]"),
        ("[1, 2]", "map"),
    ] {
        let steps = format!(
            "  - name: a\n    retries: 3\n    retryDelay: 1ms\n    apply:\n      manifests:\n        - inline: '{text}'\n"
        );
        let report = world.apply(&steps).await;
        assert!(error(&report, "a").contains(said), "{text}: {report:?}");
        assert_eq!(report.step("a").unwrap().attempts, Some(1), "{text}");
    }
}

/// Scenario S-46 of the specification.
#[tokio::test]
async fn sources_file_url_and_kustomize() {
    let world = World::new();
    world.file(
        "m.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-file}\ndata: {mode: \"1\"}\n",
    );
    world.file("k/kustomization.yaml", "resources: [cm.yaml]\nnamePrefix: pre-\n");
    world.file("k/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kustomized}\n");
    world.shelf.files.lock().unwrap().insert(
        "https://user:pw@files.example/m.yaml".into(),
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-url}\n".to_vec(),
    );
    let steps = "  - name: a
    apply:
      manifests:
        - file: m.yaml
        - url: https://user:pw@files.example/m.yaml
        - kustomize: ./k
";
    let report = world.apply(steps).await;
    assert!(report.is_success(), "{report:?}");
    for name in ["from-file", "from-url", "pre-kustomized"] {
        assert!(world.config_map(name).await.is_some(), "{name}");
    }
    // What cannot be read, reached, or is too big.
    world.shelf.files.lock().unwrap().insert("https://files.example/big".into(), vec![b' '; 33 << 20]);
    world.file("latin.yaml", "");
    std::fs::write(world.dir.path().join("latin.yaml"), b"a: \xff").unwrap();
    for (source, said) in [
        ("file: missing.yaml", "missing.yaml"),
        ("file: latin.yaml", "UTF-8"),
        ("url: https://u:secretpw@down.example/x", "connection refused"),
        ("url: https://files.example/big", "33554432 are allowed"),
        ("kustomize: ./nowhere", "nowhere"),
    ] {
        let report = world.apply(&format!("  - {{name: a, apply: {{manifests: [{{{source}}}]}}}}\n")).await;
        let told = error(&report, "a");
        assert!(told.contains(said), "{source}: {told}");
        assert!(!told.contains("secretpw"), "{told}");
    }
}

const WIDGETS: &str = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.demo.io}, spec: {group: demo.io, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}";

/// Scenario S-47 of the specification.
#[tokio::test]
async fn a_definition_and_its_object_in_one_step() {
    let world = World::new();
    let steps = format!(
        "  - name: a\n    timeout: 60s\n    apply:\n      manifests:\n        - inline: '{WIDGETS}'\n        - inline: '{{apiVersion: demo.io/v1, kind: Widget, metadata: {{name: w}}, spec: {{size: 1}}}}'\n"
    );
    let report = world.apply(&steps).await;
    assert!(report.is_success(), "{report:?}");
    assert!(world.get("demo.io/v1", "Widget", "default", "w").await.is_some());
    // Destroying twice is fine although the kind is gone the second time.
    for _ in 0..2 {
        let report = world.destroy_with("", &steps).await;
        assert!(report.is_success(), "{report:?}");
    }
    assert!(world.get("demo.io/v1", "Widget", "default", "w").await.is_none());
    // A kind that never comes is told by name.
    let steps = "  - {name: b, apply: {manifests: [{inline: '{apiVersion: no.io/v1, kind: Nothing, metadata: {name: x}}'}]}}\n";
    assert!(error(&world.apply(steps).await, "b").contains("Nothing"));
}

/// Scenario S-48 of the specification.
#[tokio::test]
async fn skip_if_exists() {
    let world = World::new();
    let steps = |timeout: &str, wait: &str| {
        format!(
            "  - {{name: a, timeout: {timeout}, apply: {{skipIf: exists, manifests: [{}, {}]{wait}}}}}\n",
            inline("one", "new"),
            inline("two", "new")
        )
    };
    let put = |name: &'static str| {
        world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "old"}}))
    };
    put("one").await;
    assert!(world.apply(&steps("60s", "")).await.is_success());
    assert_eq!(world.config_map("one").await.unwrap()["data"]["key"], "new");
    put("one").await;
    let before = world.cluster.call_counts();
    let report = world.apply(&steps("60s", "")).await;
    assert!(report.is_success());
    assert!(report.step("a").unwrap().note.as_ref().unwrap().contains("skipIf"));
    assert_eq!(since(&world, &before).write_count(), 0);
    assert_eq!(world.config_map("one").await.unwrap()["data"]["key"], "old");
    // The wait is made all the same, and can fail.
    assert!(world.apply(&steps("60s", ", waitFor: 'jsonpath={.data.key}'")).await.is_success());
    let report = world.apply(&steps("5s", ", waitFor: 'jsonpath={.data.key}=never'")).await;
    assert!(error(&report, "a").contains("0 of 2 objects meet"), "{report:?}");
}

/// Scenario S-49 of the specification.
#[tokio::test]
async fn a_condition_on_what_has_no_status() {
    let world = World::new();
    let steps = "  - name: a
    timeout: 6s
    apply:
      waitFor: condition=Available
      manifests:
        - inline: '{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}'
        - inline: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}'
";
    let report = world.apply(steps).await;
    assert!(error(&report, "a").contains("serviceaccount/sa@default"), "{report:?}");
    assert!(world.said().contains("serviceaccount/sa@default has no status"));
}

/// Scenario S-50 of the specification.
#[tokio::test]
async fn a_condition_of_an_older_generation_does_not_count() {
    let world = World::on(
        slipway_sandbox::Sandbox::builder().seed(1).without_workloads().build().unwrap(),
        slipway_sandbox::User::admin(),
    );
    let deployment = |status: serde_json::Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": status})
    };
    world.put(deployment(json!({}))).await;
    let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
    let at = slipway_manifest::ObjectRef::new(
        slipway_manifest::Gvk::new("apps", "v1", "Deployment"),
        Some("default"),
        "d",
    );
    let set = |observed: i64| {
        let status = json!({"status": {"observedGeneration": observed, "conditions": [{"type": "Available", "status": "True"}]}});
        let (cluster, at) = (cluster.clone(), at.clone());
        async move {
            let options = slipway_cluster::WriteOptions::for_manager("controller");
            cluster
                .patch(&at, &slipway_cluster::ObjectPatch::Merge(status), &options, Some("status"))
                .await
                .unwrap();
        }
    };
    // Its second generation, of which only the first was seen.
    let grown = slipway_cluster::ObjectPatch::Merge(json!({"spec": {"replicas": 2}}));
    let options = slipway_cluster::WriteOptions::for_manager("somebody");
    cluster.patch(&at, &grown, &options, None).await.unwrap();
    set(1).await;
    let steps = |timeout: &str| {
        format!("  - {{name: w, timeout: {timeout}, wait: {{for: condition=Available, on: deployment/d}}}}\n")
    };
    assert!(!world.apply(&steps("1s")).await.is_success());
    set(2).await;
    assert!(world.apply(&steps("60s")).await.is_success());
}

/// Scenario S-51 of the specification.
#[tokio::test]
async fn delete_in_all_its_forms() {
    let world = World::new();
    let map = |name: &str, labels: serde_json::Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
    for name in ["a", "b", "c"] {
        world.put(map(name, json!({"app": "x"}))).await;
    }
    world.put(map("keep", json!({}))).await;
    let before = world.cluster.call_counts();
    let report = world.apply("  - {name: d, delete: {resource: cm, selector: app=x}}\n").await;
    assert!(report.is_success(), "{report:?}");
    assert_eq!(since(&world, &before).count_of(RequestVerb::Delete), 3);
    assert!(world.config_map("a").await.is_none() && world.config_map("keep").await.is_some());
    // Absent is fine, unless it is not.
    assert!(world.apply("  - {name: d, delete: {resource: configmap/a}}\n").await.is_success());
    let strict = "  - {name: d, delete: {resource: cm, selector: app=x, ignoreNotFound: false}}\n";
    assert!(error(&world.apply(strict).await, "d").contains("does not exist"));
    let report =
        world.apply(&format!("  - {{name: d, delete: {{manifests: [{}]}}}}\n", inline("keep", "1"))).await;
    assert!(report.is_success() && world.config_map("keep").await.is_none());
    // A typo in a type is an error; a kind that is gone is absent in manifests.
    assert!(error(&world.apply("  - {name: d, delete: {resource: poods}}\n").await, "d").contains("poods"));
    let gone = "  - {name: d, delete: {manifests: [{inline: '{apiVersion: no.io/v1, kind: Nothing, metadata: {name: x}}'}]}}\n";
    assert!(world.apply(gone).await.is_success());
    // Pods of a job go with it.
    world.put(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})).await;
    world.sandbox.settle().await;
    assert!(world.apply("  - {name: d, delete: {resource: job/j}}\n").await.is_success());
    world.sandbox.settle().await;
    let left = world
        .apply("  - {name: w, timeout: 60s, wait: {for: delete, on: pods, selector: job-name=j}}\n")
        .await;
    assert!(left.is_success(), "{left:?}");
}

/// Scenario S-51 of the specification.
#[tokio::test]
async fn what_holds_an_object_is_named() {
    let world = World::new();
    world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stuck", "finalizers": ["demo.io/hold"]}})).await;
    let report = world.apply("  - {name: d, timeout: 5s, delete: {resource: configmap/stuck}}\n").await;
    let told = error(&report, "d");
    assert!(told.contains("demo.io/hold") && told.contains("being deleted since"), "{told}");
    // One of the same name that came after it counts as gone.
    let again = async {
        while world.config_map("stuck").await.is_some_and(|live| live["metadata"]["finalizers"].is_array()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
            let at = slipway_manifest::ObjectRef::new(
                slipway_manifest::Gvk::new("", "v1", "ConfigMap"),
                Some("default"),
                "stuck",
            );
            let free = slipway_cluster::ObjectPatch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = cluster.patch(&at, &free, &slipway_cluster::WriteOptions::default(), None).await;
        }
        world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stuck"}})).await;
    };
    let (report, ()) = tokio::join!(
        world.apply("  - {name: d, timeout: 60s, delete: {resource: configmap/stuck}}\n"),
        again
    );
    assert!(report.is_success(), "{report:?}");
}

/// Scenario S-53 of the specification.
#[tokio::test]
async fn patches() {
    let world = World::new();
    world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "list": "y"}})).await;
    let before = world.cluster.call_counts();
    let report = world.apply("  - {name: p, patch: {target: configmap/a, patch: {data: {x: '2'}}}}\n").await;
    assert!(report.is_success(), "{report:?}");
    let calls = since(&world, &before);
    assert_eq!((calls.count_of(RequestVerb::Patch), calls.write_count()), (1, 1), "{calls}");
    assert!(
        world
            .apply("  - {name: p, patch: {target: configmap/a, type: merge, patch: {data: {list: null}}}}\n")
            .await
            .is_success()
    );
    assert_eq!(world.config_map("a").await.unwrap()["data"], json!({"x": "2"}));
    let json_patch =
        "  - {name: p, patch: {target: configmap/a, type: json, patch: [{op: remove, path: /data/x}]}}\n";
    assert!(world.apply(json_patch).await.is_success());
    assert!(error(&world.apply(json_patch).await, "p").contains("done again"));
    let missing = "  - {name: p, patch: {target: configmap/none, patch: {data: {a: b}}}}\n";
    assert!(error(&world.apply(missing).await, "p").contains("must exist by the time this step runs"));
    // The namespace of a cluster-wide kind does not matter.
    let report = world.apply("  - {name: p, patch: {target: namespace/default, namespace: nowhere, type: merge, patch: {metadata: {labels: {a: b}}}}}\n").await;
    assert!(report.is_success(), "{report:?}");
    // Custom resources take no strategic patch.
    let crd = format!(
        "  - {{name: a, timeout: 60s, apply: {{manifests: [{{inline: '{WIDGETS}'}}, {{inline: '{{apiVersion: demo.io/v1, kind: Widget, metadata: {{name: w}}}}'}}]}}}}\n"
    );
    let report = world.apply(&crd).await;
    assert_eq!(statuses(&report), ["a ok"], "{report:?}");
    let told =
        error(&world.apply("  - {name: p, patch: {target: widget/w, patch: {spec: {a: 1}}}}\n").await, "p");
    assert!(told.contains("type: merge"), "{told}");
}

/// `kubectl label`, `annotate` and `scale` written as manifests that say only what shall change.
#[tokio::test]
async fn applies_a_minimal_manifest_onto_an_existing_object() {
    use slipway_runbook::plan::{self, Show, StepVerb};
    for more in ["", ", serverSide: true"] {
        for (minimal, pointer, expected) in [
            ("metadata: {name: web, labels: {tier: front}}", "/metadata/labels/tier", json!("front")),
            ("metadata: {name: web, annotations: {by: me}}", "/metadata/annotations/by", json!("me")),
            ("metadata: {name: web}, spec: {replicas: 3}", "/spec/replicas", json!(3)),
        ] {
            let world = World::new();
            world.put(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})).await;
            let steps = format!(
                "  - {{name: a, apply: {{manifests: [{{inline: '{{apiVersion: apps/v1, kind: Deployment, {minimal}}}'}}]{more}}}}}\n"
            );
            let document = world.document("", &steps);
            let planned =
                plan::plan(&document, world.place(), Show::Differences, None).await.expect("is planned");
            let step = planned.step("a").expect("is there");
            assert_eq!(step.action(), Some(StepVerb::Configure), "{step:?}");
            assert!(step.diff().is_some_and(slipway_runbook::Difference::is_change), "{step:?}");
            let report = world.apply(&steps).await;
            assert!(report.is_success(), "{minimal}{more}: {report:?}");
            let live = world.get("apps/v1", "Deployment", "default", "web").await.expect("is there");
            assert_eq!(live.pointer(pointer), Some(&expected), "{minimal}{more}");
            assert_eq!(live["spec"]["selector"]["matchLabels"]["app"], "web");
        }
    }
    // One that is not there must be whole.
    let world = World::new();
    let report = world
        .apply("  - {name: a, apply: {manifests: [{inline: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: none}}'}]}}\n")
        .await;
    assert!(error(&report, "a").contains("spec.selector"), "{report:?}");
}
