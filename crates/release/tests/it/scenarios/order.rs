//! Hooks, weights, dependencies, definitions.

use serde_json::{Value, json};

use super::{World, annotated, config_map, deployment, job, text};

fn version(object: &Option<Value>) -> u64 {
    text(object, "/metadata/resourceVersion").parse().expect("is a number")
}

/// Scenario 14: hooks run again with every deploy.
#[tokio::test]
async fn s14_hooks_run_every_time() {
    let world = World::new();
    let hook = annotated(job("migrate", "busybox"), json!({"helm.sh/hook": "pre-install,pre-upgrade"}));
    world.deployed(&[config_map("a", "1"), hook.clone()]).await;
    let before = world.get("Job", "migrate").await;
    assert!(before.is_some());
    world.deployed(&[config_map("a", "2"), hook]).await;
    let after = world.get("Job", "migrate").await;
    assert_ne!(text(&before, "/metadata/uid"), text(&after, "/metadata/uid"));
    let history = world.history().await;
    assert_eq!(history.releases[1].hooks[0].last_run.phase, "Succeeded");
}

/// Scenario 15: what succeeded is cleaned up after its stage.
#[tokio::test]
async fn s15_hooks_are_cleaned_up() {
    let world = World::new();
    let note = json!({"helm.sh/hook": "post-install", "helm.sh/hook-delete-policy": "hook-succeeded"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}});
    let mut task = job("task", "busybox");
    task["spec"]["template"]["spec"]["serviceAccountName"] = "runner".into();
    world.deployed(&[config_map("a", "1"), annotated(account, note.clone()), annotated(task, note)]).await;
    assert!(world.get("Job", "task").await.is_none());
    assert!(world.get("ServiceAccount", "runner").await.is_none());
}

/// Scenario 17: weights are strict.
#[tokio::test]
async fn s17_weights() {
    let world = World::new();
    let weighed =
        |name: &str, weight: &str| annotated(config_map(name, "1"), json!({"werf.io/weight": weight}));
    world.deployed(&[weighed("c", "10"), weighed("a", "-5"), weighed("b", "0")]).await;
    let versions = [
        version(&world.get("ConfigMap", "a").await),
        version(&world.get("ConfigMap", "b").await),
        version(&world.get("ConfigMap", "c").await),
    ];
    assert!(versions.is_sorted(), "{versions:?}");
}

/// Scenarios 18 and 19: dependencies by hand and by reference come first.
#[tokio::test]
async fn s18_s19_dependencies() {
    let world = World::new();
    let ready = json!({"werf.io/deploy-dependency-back": "state=ready,kind=Deployment,name=back"});
    let mut web = deployment("web", "nginx");
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "zz"}}]);
    world
        .deployed(&[
            annotated(config_map("front", "1"), ready),
            web,
            deployment("back", "nginx"),
            config_map("zz", "1"),
        ])
        .await;
    let front = world.get("ConfigMap", "front").await;
    let back = world.get("Deployment", "back").await.expect("is there");
    assert_eq!(back["status"]["availableReplicas"], 1);
    assert!(front.is_some());
    let created = |object: Option<Value>| text(&object, "/metadata/creationTimestamp").to_owned();
    assert!(created(world.get("ConfigMap", "zz").await) <= created(world.get("Deployment", "web").await));
}

/// Scenario 20: weights that contradict references win; contradictions by hand are named.
#[tokio::test]
async fn s20_contradictions() {
    let world = World::new();
    let mut web = deployment("web", "nginx");
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "late"}}]);
    let late = annotated(config_map("late", "1"), json!({"werf.io/weight": "10"}));
    let plan = world.plan(&[web, late]).await.expect("plans");
    assert!(plan.warnings.to_string().contains("does not wait for"), "{}", plan.warnings);
}

/// Scenario 21: something outside is waited for.
#[tokio::test]
async fn s21_external_dependencies() {
    let mut world = World::new();
    world.apply.presence_timeout = Some(std::time::Duration::from_millis(200));
    let wait = json!({"token.external-dependency.werf.io/resource": "secrets/token"});
    let object = annotated(config_map("a", "1"), wait);
    let failure = world.apply(std::slice::from_ref(&object)).await.expect_err("it never comes").to_string();
    assert!(failure.contains("token"), "{failure}");
    let at = slipway_cluster::At::new(slipway_manifest::Gvk::new("", "v1", "Secret"), Some("t1"), "token");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "t1"}});
    world.cluster.create(&at, &secret, &Default::default()).await.expect("creates");
    world.deployed(&[object]).await;
}

/// Scenario 22: a definition and an object of it in one release.
#[tokio::test]
async fn s22_definitions_first() {
    let world = World::new();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": {"sails": 2}});
    world.deployed(&[boat.clone(), definition.clone()]).await;
    let at =
        slipway_cluster::At::new(slipway_manifest::Gvk::new("example.com", "v1", "Boat"), Some("t1"), "one");
    assert!(world.cluster.get(&at).await.expect("can be read").is_some());
    assert_eq!(world.deployed(&[boat, definition]).await.status, "skipped");
}

/// Scenario 52: many that wait do not keep out the one they wait for.
#[tokio::test]
async fn s52_waiting_takes_no_place() {
    let mut world = World::new();
    world.apply.parallelism = 2;
    let mut objects: Vec<Value> = (0..12).map(|number| deployment(&format!("d{number}"), "nginx")).collect();
    objects.push(config_map("zz-last", "1"));
    world.deployed(&objects).await;
}
