//! What becomes of objects: fields, owners, immutability, policies.

use serde_json::json;
use slipway_cluster::helm::Status;
use slipway_cluster::{At, Patch, WriteOptions};
use slipway_manifest::Gvk;

use super::{World, annotated, config_map, deployment, job, text};

fn place(kind: &str, name: &str) -> At {
    let group = if kind == "Deployment" { "apps" } else { "" };
    At::new(Gvk::new(group, "v1", kind), Some("t1"), name)
}

/// Scenario 6: a field that left the chart leaves the cluster, even one an older Helm wrote.
#[tokio::test]
async fn s06_removed_fields_disappear() {
    let world = World::new();
    let mut before = config_map("a", "1");
    before["data"]["extra"] = "x".into();
    world.deployed(&[before]).await;
    // As a client-side Helm leaves it: written by `helm` with an update.
    let mut live = world.get("ConfigMap", "a").await.expect("is there");
    let entries = live["metadata"]["managedFields"].as_array_mut().expect("has owners");
    for entry in entries {
        entry["operation"] = "Update".into();
    }
    world
        .cluster
        .replace(&place("ConfigMap", "a"), &live, &WriteOptions::manager("helm"))
        .await
        .expect("writes");
    let plan = world.plan(&[config_map("a", "1")]).await.expect("plans");
    assert_eq!(plan.facts[0].after.as_ref().expect("was tried")["data"], json!({"key": "1"}));
    world.deployed(&[config_map("a", "1")]).await;
    let live = world.get("ConfigMap", "a").await.expect("is there");
    assert_eq!(live["data"], json!({"key": "1"}));
    let entries = live["metadata"]["managedFields"].as_array().expect("has owners");
    assert!(!entries.iter().any(|entry| entry["manager"] == "helm" && entry["operation"] == "Update"));
}

/// Scenarios 7 and 8: manual edits are reverted, fields of others stay.
#[tokio::test]
async fn s07_s08_edits_and_foreign_fields() {
    for keep in [false, true] {
        let mut world = World::new();
        world.options.keep_manual_changes = keep;
        world.deployed(&[config_map("a", "1")]).await;
        let edit = |manager: &'static str, data: serde_json::Value| {
            let (cluster, at) = (world.cluster.clone(), place("ConfigMap", "a"));
            async move {
                let patch = Patch::Merge(json!({ "data": data }));
                cluster.patch(&at, &patch, &WriteOptions::manager(manager), None).await.expect("writes")
            }
        };
        edit("kubectl-edit", json!({"key": "edited", "mine": "x"})).await;
        edit("ca-injector", json!({"bundle": "y"})).await;
        world.deployed(&[config_map("a", "1")]).await;
        let live = world.get("ConfigMap", "a").await.expect("is there");
        let mut expected = json!({"key": "1", "bundle": "y"});
        if keep {
            expected["mine"] = "x".into();
        }
        assert_eq!(live["data"], expected, "keep {keep}");
    }
}

/// Scenario 9: an autoscaler's replicas stay.
#[tokio::test]
async fn s09_autoscaled_replicas_stay() {
    let world = World::new();
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9}});
    world.deployed(&[deployment("web", "nginx:1"), scaler.clone()]).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let at = place("Deployment", "web");
    world.cluster.patch(&at, &patch, &WriteOptions::manager("hpa"), Some("scale")).await.expect("scales");
    world.deployed(&[deployment("web", "nginx:2"), scaler]).await;
    let live = world.get("Deployment", "web").await.expect("is there");
    assert_eq!(live["spec"]["replicas"], 5);
    assert!(world.said().contains("left to others"));
}

/// Scenario 10: replicas on creation last.
#[tokio::test]
async fn s10_replicas_on_creation() {
    let world = World::new();
    let web = |image: &str| {
        let mut web = annotated(deployment("web", image), json!({"werf.io/replicas-on-creation": "3"}));
        web["spec"].as_object_mut().expect("is a map").remove("replicas");
        web
    };
    world.deployed(&[web("nginx:1")]).await;
    assert_eq!(world.get("Deployment", "web").await.expect("is there")["spec"]["replicas"], 3);
    world.deployed(&[web("nginx:2")]).await;
    assert_eq!(world.get("Deployment", "web").await.expect("is there")["spec"]["replicas"], 3);
}

/// Scenario 11: what cannot change is refused before anything is written.
#[tokio::test]
async fn s11_immutable_is_refused() {
    let world = World::new();
    world.deployed(&[deployment("web", "nginx")]).await;
    let mut other = deployment("web", "nginx");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let failure = world.apply(&[other, config_map("new", "1")]).await.expect_err("is refused");
    assert!(failure.to_string().contains("cannot be changed in place"), "{failure}");
    assert_eq!(world.statuses().await, [(1, Status::Deployed)]);
    assert!(world.get("ConfigMap", "new").await.is_none());
}

/// Scenario 12: a Job is created again when it must change.
#[tokio::test]
async fn s12_jobs_are_recreated() {
    let world = World::new();
    world.deployed(&[job("once", "busybox:1")]).await;
    let before = world.get("Job", "once").await;
    world.deployed(&[job("once", "busybox:2")]).await;
    let after = world.get("Job", "once").await;
    assert_ne!(text(&before, "/metadata/uid"), text(&after, "/metadata/uid"));
    assert_eq!(text(&after, "/spec/template/spec/containers/0/image"), "busybox:2");
}

/// Scenario 26: what belongs to nobody is not taken over, and all of it is told at once.
#[tokio::test]
async fn s26_adoption() {
    let mut world = World::new();
    world.deployed(&[config_map("own", "1")]).await;
    for name in ["x", "y"] {
        let at = place("ConfigMap", name);
        let manifest = config_map(name, "theirs");
        world.cluster.create(&at, &manifest, &WriteOptions::manager("kubectl")).await.expect("creates");
    }
    let objects = [config_map("own", "1"), config_map("x", "1"), config_map("y", "1")];
    let failure = world.apply(&objects).await.expect_err("is refused").to_string();
    assert!(
        failure.contains("ConfigMap/x exists already") && failure.contains("ConfigMap/y exists"),
        "{failure}"
    );
    assert_eq!(world.statuses().await.len(), 1);
    world.options.force_adoption = true;
    world.deployed(&objects).await;
    assert_eq!(text(&world.get("ConfigMap", "x").await, "/data/key"), "1");
}

/// Scenario 28: policies on creating, updating, recreating.
#[tokio::test]
async fn s28_resource_policies() {
    let world = World::new();
    let policy = |name: &str, value: &str, word: &str| {
        annotated(config_map(name, value), json!({"werf.io/resource-policy": word}))
    };
    world.deployed(&[policy("never", "1", "skip-create"), policy("fixed", "1", "skip-update")]).await;
    assert!(world.get("ConfigMap", "never").await.is_none());
    world.deployed(&[policy("never", "1", "skip-create"), policy("fixed", "2", "skip-update")]).await;
    assert_eq!(text(&world.get("ConfigMap", "fixed").await, "/data/key"), "1");
}

/// Scenario 36: a plan writes nothing.
#[tokio::test]
async fn s36_plans_write_nothing() {
    let world = World::new();
    world.plan(&[config_map("a", "1")]).await.expect("plans");
    assert!(world.get("Namespace", "t1").await.is_none());
    world.deployed(&[config_map("a", "1")]).await;
    let before = world.cluster.calls();
    world.plan(&[config_map("a", "2")]).await.expect("plans");
    assert_eq!(world.cluster.calls().since(&before).writes(), 0);
}

/// Scenario 38: secrets are not shown.
#[tokio::test]
async fn s38_secrets_are_hidden() {
    let world = World::new();
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"password": value, "user": "admin-name"}})
    };
    world.deployed(&[secret("hunter2-old")]).await;
    let plan = world.plan(&[secret("hunter2-new")]).await.expect("plans");
    let shown = format!("{:?}", plan.view(&Default::default()));
    for hidden in ["hunter2", "aHVudGVyMi", "admin-name", "YWRtaW4tbmFtZQ"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    assert!(shown.matches("sensitive bytes").count() >= 2, "{shown}");
}

/// Scenario 49: what server-side apply cannot take is told by the plan.
#[tokio::test]
async fn s49_wrong_objects_are_found_by_the_plan() {
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let mut twice = deployment("web", "nginx");
    twice["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let mut unknown = deployment("api", "nginx");
    unknown["spec"]["nonsense"] = true.into();
    let failure = world.plan(&[twice, unknown]).await.expect_err("is refused").to_string();
    assert!(failure.contains("Deployment/web") && failure.contains("Deployment/api"), "{failure}");
    assert!(failure.contains("demo/templates/all.yaml"), "{failure}");
}

/// Scenarios 54 and 55: old mistakes do not block; lists and odd labels are settled.
#[tokio::test]
async fn s54_s55_tolerance() {
    let world = World::new();
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [config_map("a", "1"), config_map("b", "1")]});
    let mut odd = config_map("c", "1");
    odd["metadata"]["labels"] = json!({"number": 7, "good": "x"});
    world.deployed(&[list, odd]).await;
    assert!(world.get("ConfigMap", "b").await.is_some());
    assert_eq!(world.get("ConfigMap", "c").await.expect("is there")["metadata"]["labels"]["good"], "x");
    let wrong =
        annotated(config_map("a", "1"), json!({"werf.io/weight": "heavy", "werf.io/fail-mode": "Maybe"}));
    let failure = world.plan(&[wrong]).await.expect_err("is wrong").to_string();
    assert!(failure.contains("werf.io/weight") && failure.contains("werf.io/fail-mode"), "{failure}");
}

/// Scenario 40: a saved plan is carried out as it was made, or refused.
#[tokio::test]
async fn s40_saved_plans() {
    use slipway_release::{Failure, apply, saved};
    const KEY: &str = "00112233445566778899aabbccddeeff";
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hunter2"}});
    let plan = world.plan(&[config_map("a", "2"), secret]).await.expect("plans");
    assert!(saved::save(&plan, None).is_err(), "secrets are not written in clear");
    let bytes = saved::save(&plan, Some(KEY)).expect("saves");
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    assert!(saved::load(&bytes, None).is_err());
    assert!(saved::load(&bytes, Some("ffffffffffffffffffffffffffffffff")).is_err());
    let tampered = text.replace("\"revision\": 2", "\"revision\": 3");
    assert!(saved::load(tampered.as_bytes(), Some(KEY)).is_err());

    let patch = Patch::Merge(json!({"data": {"other": "x"}}));
    let at = place("ConfigMap", "a");
    let good = saved::load(&bytes, Some(KEY)).expect("loads");
    let run = |drift: bool| {
        let (world, good) = (&world, &good);
        async move {
            let check = |plan: &slipway_release::Plan| good.check(plan, drift);
            let token = tokio_util::sync::CancellationToken::new();
            apply::apply_checked(&world.cluster, &good.request, &world.apply, &world.events, token, check)
                .await
        }
    };
    world.cluster.patch(&at, &patch, &WriteOptions::manager("someone"), None).await.expect("writes");
    let refused = run(false).await;
    assert!(matches!(&refused, Err(Failure::Stale(_))), "{refused:?}");
    run(true).await.expect("is allowed");
    assert_eq!(text_of(&world).await, "2");
    let refused = run(true).await.expect_err("the revision is taken").to_string();
    assert!(refused.contains("revision"), "{refused}");
}

async fn text_of(world: &World) -> String {
    text(&world.get("ConfigMap", "a").await, "/data/key").to_owned()
}
