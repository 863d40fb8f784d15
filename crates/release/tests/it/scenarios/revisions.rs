//! Installing, doing nothing, revisions, plans.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_cluster::helm::RevisionStatus;
use slipway_release::ReleaseStatus;
use slipway_release::plan::{self, ReleaseContent};
use slipway_release::{Failure, MissingNamespace, execute};
use tokio_util::sync::CancellationToken;

use crate::tap::Tap;
use crate::world::{World, annotated, config_map, deployment, fated, place, text};

/// Scenario 1: a fresh install makes the namespace, the objects and revision 1.
#[tokio::test]
async fn fresh_install() {
    let world = World::new();
    let report = world.deployed(&[config_map("a", "1"), deployment("web", "nginx")]).await;
    assert_eq!((report.status.as_str(), report.revision.get()), ("deployed", 1));
    assert!(world.get("Namespace", "t1").await.is_some());
    for (kind, name) in [("ConfigMap", "a"), ("Deployment", "web")] {
        let live = world.get(kind, name).await;
        assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-name"), "demo");
        assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-namespace"), "t1");
        assert_eq!(text(&live, "/metadata/labels/app.kubernetes.io~1managed-by"), "Helm");
        let managers = live.as_ref().and_then(|live| live["metadata"]["managedFields"].as_array().cloned());
        let is_ours = |entry: &Value| entry["manager"] == "helm" && entry["operation"] == "Apply";
        assert!(managers.unwrap_or_default().iter().any(is_ours));
    }
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Deployed)]);
    let record = world.get("Secret", "sh.helm.release.v1.demo.v1").await;
    for (label, value) in [("status", "deployed"), ("owner", "helm"), ("name", "demo"), ("version", "1")] {
        assert_eq!(text(&record, &format!("/metadata/labels/{label}")), value);
    }
    assert_eq!(text(&record, "/type"), "helm.sh/release.v1");
    assert_eq!(world.history().await.releases[0].info.description, "Install complete");
}

/// Scenario 2: a second run without changes writes nothing, not even a lock.
#[tokio::test]
async fn second_run_is_skipped() {
    let (world, tap) = World::new().tapped();
    let objects = [config_map("a", "1"), deployment("web", "nginx")];
    world.deployed(&objects).await;
    let before = tap.written().len();
    let versions = || async {
        let live = [world.get("ConfigMap", "a").await, world.get("Deployment", "web").await];
        live.map(|live| text(&live, "/metadata/resourceVersion").to_owned())
    };
    let known = versions().await;
    let report = world.deployed(&objects).await;
    assert_eq!((report.status.as_str(), report.revision.get()), ("skipped", 1));
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Deployed)]);
    let written = tap.written().split_off(before);
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(versions().await, known);
    assert!(world.plan(&objects).await.expect("plans").is_empty());
}

/// Scenario 3: values without effect on objects make a revision, and nothing else.
#[tokio::test]
async fn values_make_a_revision() {
    let mut world = World::new();
    let objects = [config_map("a", "1")];
    world.deployed(&objects).await;
    let before = world.get("ConfigMap", "a").await;
    world.values = json!({"unused": 1});
    let plan = world.plan(&objects).await.expect("plans");
    assert_eq!((plan.exit_code(), plan.reason.as_deref()), (3, Some("the values changed")));
    world.deployed(&objects).await;
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Superseded), (2, RevisionStatus::Deployed)]);
    assert_eq!(before, world.get("ConfigMap", "a").await);
}

/// Scenario 4: so do notes.
#[tokio::test]
async fn notes_make_a_revision() {
    let mut world = World::new();
    let objects = [config_map("a", "1")];
    world.deployed(&objects).await;
    world.notes = "hello".into();
    let plan = world.plan(&objects).await.expect("plans");
    assert_eq!((plan.exit_code(), plan.reason.as_deref()), (3, Some("the notes changed")));
    let report = world.deployed(&objects).await;
    assert_eq!((report.revision.get(), report.notes.as_str()), (2, "hello"));
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Superseded), (2, RevisionStatus::Deployed)]);
}

/// Scenario 5: only what changed is updated.
#[tokio::test]
async fn only_what_changed_is_updated() {
    let world = World::new();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    world.deployed(&[config_map("a", "1"), config_map("b", "1"), service.clone()]).await;
    let before = (world.get("ConfigMap", "b").await, world.get("Service", "s").await);
    let objects = [config_map("a", "2"), config_map("b", "1"), service];
    let view = world.plan(&objects).await.expect("plans").view(&Default::default());
    assert_eq!(view.summary, [("update".to_owned(), 1)]);
    assert!(view.changes[0].fields.iter().any(|field| field.contains("key")), "{:?}", view.changes[0].fields);
    world.deployed(&objects).await;
    assert_eq!(before, (world.get("ConfigMap", "b").await, world.get("Service", "s").await));
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "2");
}

/// Scenario 36: a plan asks, and writes nothing.
#[tokio::test]
async fn plans_write_nothing() {
    let (world, tap) = World::new().tapped();
    world.plan(&[config_map("a", "1")]).await.expect("plans");
    assert!(tap.written().is_empty() && world.get("Namespace", "t1").await.is_none());
    world.deployed(&[config_map("a", "1"), config_map("old", "1")]).await;
    // Somebody else's fields would have to be taken over, something has to go, something is new.
    let mut live = world.get("ConfigMap", "a").await.expect("is there");
    live["data"]["mine"] = "x".into();
    let options = slipway_cluster::WriteOptions::for_manager("kubectl-edit");
    world.cluster.replace(&place("ConfigMap", "a"), &live, &options).await.expect("writes");
    let before = tap.written().len();
    let plan = world.plan(&[config_map("a", "2"), config_map("new", "1")]).await.expect("plans");
    assert_eq!(plan.view(&Default::default()).changes.len(), 3);
    assert_eq!(tap.written().len(), before);
}

/// A plan is a value: what it was made for is checked under the lock, and it is never silently another one.
#[tokio::test]
async fn a_stale_plan_is_refused_and_writes_nothing() {
    let (world, tap) = World::new().tapped();
    let plan = world.plan(&[config_map("a", "1")]).await.expect("plans");
    assert!(plan.creates_namespace, "the namespace is part of the plan");
    let view = plan.view(&Default::default());
    let first = &view.changes[0];
    assert_eq!((first.action.as_str(), first.object.as_str()), ("create", "Namespace/t1"));
    assert_eq!(first.lines, ["+ apiVersion: v1", "+ kind: Namespace", "+ metadata:", "+   name: t1"]);
    assert_eq!((view.summary[0].1, plan.exit_code()), (view.changes.len(), 2));
    assert!(plan.verify(&world.cluster).await.is_ok());
    let run = |plan| execute(&world.cluster, plan, &world.apply, &world.events, CancellationToken::new());
    assert_eq!(run(plan).await.expect("is still true").revision, 1);

    let stale = world.plan(&[config_map("a", "2")]).await.expect("plans");
    assert!(!stale.creates_namespace);
    world.deployed(&[config_map("a", "3")]).await;
    assert!(matches!(stale.verify(&world.cluster).await, Err(Failure::Stale(_))));
    let before = tap.written().len();
    let failure = run(stale).await.expect_err("somebody else was there first");
    assert!(matches!(failure, Failure::Stale(_)), "{failure:?}");
    assert!(failure.to_string().contains("release `demo` changed since it was planned"), "{failure}");
    let written = tap.written().split_off(before);
    let is_lock = |path: &String| path.contains("werf-synchronization");
    assert!(written.iter().all(is_lock), "{written:?}");
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "3");
}

/// A namespace that is missing and may not be created is told with everything else; a preview does not need it.
#[tokio::test]
async fn a_missing_namespace_is_refused_with_all_other_problems() {
    let (mut world, tap) = World::new().tapped();
    world.options.missing_namespace = MissingNamespace::Refuse;
    assert!(world.plan(&[config_map("a", "1")]).await.is_ok());
    let wrong = annotated(config_map("a", "1"), json!({"werf.io/weight": "heavy"}));
    let told = world.failed(&[wrong]).await.to_string();
    assert!(told.contains("namespace `t1` does not exist") && told.contains("heavy"), "{told}");
    assert!(tap.written().is_empty());
    world.settle_in().await;
    world.deployed(&[config_map("a", "1")]).await;
}

/// Scenario 37: the exit codes of a plan.
#[tokio::test]
async fn exit_codes() {
    let mut world = World::new();
    let objects = [config_map("a", "1")];
    assert_eq!(world.plan(&objects).await.expect("plans").exit_code(), 2);
    world.deployed(&objects).await;
    assert_eq!(world.plan(&objects).await.expect("plans").exit_code(), 0);
    world.values = json!({"x": 1});
    assert_eq!(world.plan(&objects).await.expect("plans").exit_code(), 3);
    let wrong = annotated(config_map("a", "1"), json!({"werf.io/weight": "heavy"}));
    assert!(world.plan(&[wrong]).await.is_err());
}

/// Scenario 53: an unchanged release costs no write, and few requests however many objects it has. (How long
/// plans take is measured by `scale.rs` and the benchmark.)
#[tokio::test]
async fn no_change_costs_no_write() {
    let world = World::bare();
    let objects: Vec<_> = (0..200).map(|number| config_map(&format!("c{number}"), "1")).collect();
    world.deployed(&objects).await;
    let before = world.cluster.call_counts();
    let plan = world.plan(&objects).await.expect("plans");
    let calls = world.cluster.call_counts().since(&before);
    assert!(plan.is_empty());
    assert_eq!(calls.write_count(), 0, "{calls}");
    // One dry run for each object; everything else together is a handful.
    assert!(calls.total() <= 200 + 10, "{calls}");
}

/// Scenario 55: lists, odd labels, documents of nothing.
#[tokio::test]
async fn odd_documents() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let text_of = "---\n---\n# only a comment\n---\napiVersion: v1\nkind: List\nitems:\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: \"1\"}}\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, annotations: {helm.sh/hook: post-install}}}\n\
        ---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels:\n    number: 7\n    good: x\n\
        \x20   on: true\n---\n";
    fs::write(folder.path().join("all.yaml"), text_of).expect("writes");
    let request = world.source(folder.path(), Default::default());
    world.run(&request).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
    let live = world.get("ConfigMap", "c").await.expect("is there");
    assert_eq!(live["metadata"]["labels"], json!({"good": "x", "app.kubernetes.io/managed-by": "Helm"}));
    let plan = plan::plan(&world.cluster, &request, &world.events).await.expect("plans");
    let warnings = plan.warnings.to_string();
    assert!(
        warnings.contains("all.yaml:16") && warnings.contains("labels `number` is not text"),
        "{warnings}"
    );
    assert_eq!(world.history().await.releases[0].hooks[0].name, "b");
}

/// Scenario 56: objects in another namespace belong to the release all the same.
#[tokio::test]
async fn two_namespaces() {
    let world = World::new();
    let far = |value: &str| {
        let mut far = config_map("far", value);
        far["metadata"]["namespace"] = "t2".into();
        far
    };
    let t2 = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t2"}});
    world.deployed(&[config_map("a", "1"), far("1"), t2.clone()]).await;
    let at = slipway_manifest::ObjectRef::new(
        slipway_manifest::Gvk::new("", "v1", "ConfigMap"),
        Some("t2"),
        "far",
    );
    let live = world.cluster.get(&at).await.expect("can be read");
    assert_eq!(text(&live, "/metadata/annotations/meta.helm.sh~1release-namespace"), "t1");
    world.deployed(&[config_map("a", "1"), far("2"), t2.clone()]).await;
    let live = world.cluster.get(&at).await.expect("can be read");
    assert_eq!(text(&live, "/data/key"), "2");
    let mut near = config_map("a", "2");
    near["metadata"]["namespace"] = "t1".into();
    let failure = world.plan(&[config_map("a", "1"), near]).await.expect_err("is there twice");
    assert!(failure.to_string().contains("ConfigMap/a is there twice"), "{failure}");
    world.deployed(&[config_map("a", "1"), t2]).await;
    assert!(world.cluster.get(&at).await.expect("can be read").is_none());
}

/// Whatever a run that works or fails writes, and wherever it ends, one revision is the deployed one.
#[tokio::test]
async fn a_release_always_has_a_deployed_revision() {
    let mut world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    type States = Vec<Vec<(u32, RevisionStatus)>>;
    let states: Arc<Mutex<States>> = Arc::default();
    let (storage, kept) = (world.storage(), Arc::clone(&states));
    let tap = Tap::on(world.sandbox.service()).witness(move |_| {
        let (storage, kept) = (storage.clone(), Arc::clone(&kept));
        async move {
            let revisions = storage.list_revisions("demo").await.expect("can be read");
            let state = revisions.iter().map(|stored| (stored.revision, stored.status)).collect();
            kept.lock().expect("nobody panics with it").push(state);
        }
    });
    world.cluster = Cluster::new(tap.client());
    world.apply.auto_rollback = true;
    let bad = fated(deployment("bad", "nginx"), json!({"sim/fail": "imagepull"}));
    for run in ["upgrade", "rollback", "failed upgrade", "second upgrade"] {
        match run {
            "rollback" => {
                drop(world.run(&world.with(ReleaseContent::Revision(Some(1)))).await.expect("goes back"));
            }
            "failed upgrade" => drop(world.failed(&[config_map("a", "3"), bad.clone()]).await),
            _ => drop(world.deployed(&[config_map("a", run)]).await),
        }
        let seen = std::mem::take(&mut *states.lock().expect("nobody panics with it"));
        assert!(seen.len() > 3, "{run}: {seen:?}");
        for state in seen {
            let deployed = state.iter().filter(|(_, status)| *status == RevisionStatus::Deployed).count();
            assert!((1..=2).contains(&deployed), "{run}: {state:?}");
        }
        let end = world.statuses().await;
        let deployed: Vec<u32> = end
            .iter()
            .filter(|(_, status)| *status == RevisionStatus::Deployed)
            .map(|(revision, _)| *revision)
            .collect();
        assert_eq!(deployed.len(), 1, "{run}: {end:?}");
    }
}

/// A record that could not be superseded does not make the revision that is deployed a failed one.
#[tokio::test]
async fn a_deployed_revision_stays_deployed_when_the_old_one_cannot_be_superseded() {
    let mut world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let tap = Tap::on(world.sandbox.service()).answer(|seen| {
        let is_old = seen.is_write() && seen.path.ends_with("sh.helm.release.v1.demo.v1");
        is_old.then(|| slipway_sandbox::Status::new(403, "Forbidden", "no more"))
    });
    let usual = std::mem::replace(&mut world.cluster, Cluster::new(tap.client()));
    world.failed(&[config_map("a", "2")]).await;
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Deployed), (2, RevisionStatus::Deployed)]);
    world.cluster = usual;
    assert_eq!(world.deployed(&[config_map("a", "2")]).await.status, ReleaseStatus::Skipped);
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Superseded), (2, RevisionStatus::Deployed)]);
}
