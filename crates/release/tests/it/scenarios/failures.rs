//! What happens when something goes wrong.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::RevisionStatus;
use slipway_cluster::{ErrorClass, lock};
use slipway_event::Event;
use slipway_release::ReleaseStatus;
use slipway_release::{Failure, FailureCause};
use slipway_sandbox::{ClockSpeed, Fault, FaultLayer, FaultRule, Sandbox, Status as Answer};
use tokio_util::sync::CancellationToken;

use crate::tap::Tap;
use crate::world::{World, annotated, config_map, deployment, fated, hasty, place, text};

/// Something that never comes about: it waits for what never comes.
fn never(name: &str) -> Value {
    annotated(config_map(name, "1"), json!({"x.external-dependency.werf.io/resource": "secrets/never"}))
}

fn failing() -> World {
    let mut world = World::new();
    world.apply.presence_timeout = Some(Duration::from_millis(50));
    world
}

/// Scenario 29: a failure is recorded and explained, and the last good revision stays the deployed one.
#[tokio::test]
async fn failures_are_recorded() {
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let mut bad = fated(
        deployment("web", "nginx"),
        json!({"sim/fail": "crashloop", "sim/logs": "cannot open the harbour"}),
    );
    bad["spec"]["replicas"] = 2.into();
    // The controller's own patience would end it first where time flies; this is how Kubernetes writes "none".
    bad["spec"]["progressDeadlineSeconds"] = i32::MAX.into();
    let after = annotated(config_map("z", "1"), json!({"werf.io/weight": "5"}));
    let failure = world.failed(&[config_map("a", "2"), bad, after]).await;
    assert_eq!(failure.cause(), FailureCause::NotReady);
    let told = failure.to_string();
    for part in ["Deployment/web", "CrashLoopBackOff", "cannot open the harbour", "2 allowed"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let report = failure.report().expect("it ran");
    assert_eq!(report.status, ReleaseStatus::Failed);
    assert!(report.completed_operations.contains(&"update: ConfigMap/a".to_owned()), "{report:?}");
    assert_eq!(report.canceled_operations, ["create: ConfigMap/z"]);
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Deployed), (2, RevisionStatus::Failed)]);
    let history = world.history().await;
    assert!(history.releases[1].info.description.contains("Deployment/web"));
}

/// Scenario 30: rolling back by itself.
#[tokio::test]
async fn auto_rollback() {
    let mut world = failing();
    world.apply.auto_rollback = true;
    world.deployed(&[config_map("a", "1")]).await;
    let early = annotated(config_map("extra", "1"), json!({"werf.io/weight": "-1"}));
    let failure = world.failed(&[config_map("a", "2"), early, never("b")]).await;
    let rolled = failure.report().and_then(|report| report.rollback.as_ref()).expect("rolled back");
    assert_eq!((rolled.status.as_str(), rolled.revision.get()), ("deployed", 3));
    assert!(failure.to_string().ends_with("rolled back to revision 1, as revision 3"), "{failure}");
    let expected =
        [(1, RevisionStatus::Superseded), (2, RevisionStatus::Failed), (3, RevisionStatus::Deployed)];
    assert_eq!(world.statuses().await, expected);
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
    assert!(world.get("ConfigMap", "extra").await.is_none());
    let history = world.history().await;
    assert_eq!(history.releases[2].manifest, history.releases[0].manifest);
}

/// There is nothing to go back to after a first install: the release goes, as with Helm.
#[tokio::test]
async fn a_failed_first_install_is_deleted_if_it_is_to_be_undone() {
    let mut world = failing();
    world.apply.auto_rollback = true;
    world.notes = "it works".into();
    let early = annotated(config_map("a", "1"), json!({"werf.io/weight": "-1"}));
    let failure = world.failed(&[early.clone(), never("b")]).await;
    let told = "deleted again: there is no revision to roll back to";
    assert!(failure.to_string().ends_with(told), "{failure}");
    let report = failure.report().expect("wrote");
    assert_eq!((report.status.as_str(), report.notes.as_str()), ("failed", told));
    let undone = report.rollback.as_ref().expect("was undone");
    assert_eq!(undone.status, ReleaseStatus::Uninstalled);
    assert!(world.statuses().await.is_empty());
    assert!(world.get("ConfigMap", "a").await.is_none());
    // What was kept of a release that was deleted before is kept again.
    world.deployed(std::slice::from_ref(&early)).await;
    world.options.keep_history = true;
    world.delete().await;
    world.options.keep_history = false;
    world.failed(&[early, never("b")]).await;
    assert!(world.get("ConfigMap", "a").await.is_none());
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Uninstalled), (2, RevisionStatus::Uninstalled)]);
    // Notes of a run that failed do not say that it works.
    world.apply.auto_rollback = false;
    let failure = world.failed(&[never("b")]).await;
    assert_eq!(failure.report().map(|report| report.notes.as_str()), Some(""));
}

/// What was there before, hooks and what a policy keeps are left alone; without the flag everything is.
#[tokio::test]
async fn a_failed_run_deletes_what_it_created_if_it_is_to_clean_up() {
    let mut world = failing();
    world.deployed(&[config_map("a", "1")]).await;
    let early = |name: &str| annotated(config_map(name, "1"), json!({"werf.io/weight": "-1"}));
    let kept = annotated(
        config_map("kept", "1"),
        json!({"werf.io/weight": "-1", "helm.sh/resource-policy": "keep"}),
    );
    let objects = [config_map("a", "2"), early("extra"), kept, never("b")];
    world.failed(&objects).await;
    assert!(world.get("ConfigMap", "extra").await.is_some(), "nobody asked for it to go");

    world.apply.cleanup_on_fail = true;
    let objects = [&objects[..], &[early("new")]].concat();
    world.failed(&objects).await;
    assert!(world.get("ConfigMap", "new").await.is_none(), "the run created it");
    assert!(world.get("ConfigMap", "extra").await.is_some(), "it was there before");
    world.failed(&[&objects[..], &[early("last")]].concat()).await;
    for (name, is_there) in [("a", true), ("kept", true), ("last", false), ("new", false)] {
        assert_eq!(world.get("ConfigMap", name).await.is_some(), is_there, "{name}");
    }
    let statuses: Vec<RevisionStatus> =
        world.statuses().await.into_iter().map(|(_, status)| status).collect();
    assert_eq!(statuses[0], RevisionStatus::Deployed);
    assert!(statuses[1..].iter().all(|status| *status == RevisionStatus::Failed), "{statuses:?}");
}

/// Scenario 31: a stopped run leaves a failed revision and a free lock; a killed one is taken over.
#[tokio::test]
async fn stopped_and_killed_runs() {
    let world = World::new();
    let objects = [config_map("a", "1"), never("b")];
    let (cancel, request) = (CancellationToken::new(), world.request(&objects));
    let stop = async {
        while world.get("ConfigMap", "a").await.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    world.settle_in().await;
    let (stopped, ()) = tokio::join!(world.run_until(&request, cancel.clone()), stop);
    assert!(matches!(stopped, Err(Failure::Cancelled { .. })), "{stopped:?}");
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Failed)]);
    let lock = world.get("ConfigMap", "werf-synchronization").await.expect("is there");
    assert!(lock["metadata"]["annotations"].as_object().is_none_or(serde_json::Map::is_empty), "{lock}");

    // Killed: the future is dropped where it stands, with everything it started.
    let killed = async {
        while world.statuses().await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = world.run(&request) => panic!("{ended:?}"),
        () = killed => {}
    }
    assert_eq!(world.statuses().await[1], (2, RevisionStatus::PendingInstall));
    let world = World { cluster: world.cluster.with_lease(Duration::from_millis(100)), ..world };
    let later = world.later(Duration::from_secs(15));
    later.deployed(&[config_map("a", "1")]).await;
    let expected = [(1, RevisionStatus::Failed), (2, RevisionStatus::Failed), (3, RevisionStatus::Deployed)];
    assert_eq!(later.statuses().await, expected);
    assert!(later.history().await.releases[1].info.description.contains("taken over by revision 3"));
}

/// Scenario 32: time runs out while something becomes ready.
#[tokio::test]
async fn timeouts() {
    let sandbox = Sandbox::builder().seed(1).speed(ClockSpeed::Real).build().expect("the sandbox starts");
    let mut world = World::on(sandbox);
    // Long enough for a busy machine to get to where it waits.
    world.apply.timeout = Some(Duration::from_secs(10).into());
    let slow = fated(deployment("web", "nginx"), json!({"sim/fail": "pending"}));
    let failure = world.failed(&[slow]).await;
    assert_eq!(failure.cause(), FailureCause::Timeout);
    let told = failure.to_string();
    for part in ["the timeout of 10s passed", "Deployment/web", "is not ready after", "web-"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Failed)]);
}

/// Scenario 33: a server that goes away for a while and watches that break do not break a deploy.
#[tokio::test]
async fn watches_may_break() {
    let faults = FaultLayer::new(1);
    faults.add(FaultRule::new(Fault::DropWatch { after: 1 }));
    let world = World::new().troubled(&faults);
    let slow = fated(deployment("web", "nginx"), json!({"sim/delay": "30s"}));
    // Away: nothing is answered once the deployment is written.
    faults.add(FaultRule::new(Fault::Reset).skip(25).times(8));
    let report = world.deployed(&[slow]).await;
    assert_eq!(report.status, ReleaseStatus::Deployed);
    assert!(faults.hits() > 0);
}

/// Scenario 34: who may not watch or read pods and events can still deploy, and is told once.
#[tokio::test]
async fn watching_may_be_forbidden() {
    let faults = FaultLayer::new(1);
    for part in ["/pods", "/events", "watch=", "/replicasets"] {
        faults.add(FaultRule::new(Fault::ServerError(403)).path_contains(part));
    }
    let world = World::new().troubled(&faults);
    let slow = fated(deployment("web", "nginx"), json!({"sim/delay": "30s"}));
    assert_eq!(world.deployed(&[slow]).await.status, ReleaseStatus::Deployed);
    let heard = world.heard.drain();
    let warnings: Vec<String> = heard
        .iter()
        .filter_map(|record| match &record.event {
            Event::Warning { problem } => Some(problem.message.clone()),
            _ => None,
        })
        .collect();
    let once: std::collections::BTreeSet<&String> = warnings.iter().collect();
    assert_eq!(once.len(), warnings.len(), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("cannot follow pods")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("cannot follow events")), "{warnings:?}");
}

/// Scenario 35: runs of one release follow each other, those of others do not wait; a lease of another tool
/// counts as long as it is renewed, whatever time it names.
#[tokio::test(start_paused = true)]
async fn locks() {
    let world = World::bare();
    world.deployed(&[config_map("a", "0")]).await;
    let (one, two) = ([config_map("a", "1")], [config_map("a", "2")]);
    let (first, second) = tokio::join!(world.apply(&one), world.apply(&two));
    let mut revisions = [first.expect("runs").revision.get(), second.expect("runs").revision.get()];
    revisions.sort_unstable();
    assert_eq!(revisions, [2, 3]);

    let lease = |seconds: i64| {
        let expires = world.events.clock().now().as_second() + seconds;
        let lease = json!({"uuid": "5a7e", "lockName": "release/demo", "ExpireAtTimestamp": expires,
            "SharedHoldersCount": 1, "IsShared": false, "QueueMembers": {}});
        let key = lock::annotation_key("release/demo");
        slipway_cluster::ObjectPatch::Merge(json!({"metadata": {"annotations": {key: lease.to_string()}}}))
    };
    let at = place("ConfigMap", "werf-synchronization");
    let write = |seconds: i64| {
        let (cluster, at, patch) = (world.cluster.clone(), at.clone(), lease(seconds));
        async move { cluster.patch(&at, &patch, &slipway_cluster::WriteOptions::for_manager("werf"), None).await }
    };
    write(8).await.expect("writes");
    let started = tokio::time::Instant::now();
    let mut other = world.request(&[config_map("elsewhere", "1")]);
    other.name = "other".into();
    world.run(&other).await.expect("does not wait");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    world.deployed(&[config_map("a", "3")]).await;
    assert!(world.said().contains("LockWaiting { lock: \"release/demo\""));
    let waited = started.elapsed().as_secs();
    assert!((7..=12).contains(&waited), "{waited} s");

    write(-1).await.expect("writes");
    let started = tokio::time::Instant::now();
    world.deployed(&[config_map("a", "4")]).await;
    assert_eq!(started.elapsed().as_secs(), 10, "nobody renews it, and its time is of another clock");

    write(600).await.expect("writes");
    let mut hurried = World { apply: world.apply.clone(), ..world };
    hurried.apply.timeout = Some(Duration::from_secs(5).into());
    let failure = hurried.failed(&[config_map("a", "5")]).await;
    assert!(matches!(failure, Failure::Locked(_)), "{failure}");
}

/// A run that lost its lock stops, and has no last word.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_ends_the_run() {
    let world = World::bare();
    world.settle_in().await;
    let objects = [config_map("a", "1"), never("b")];
    let steal = async {
        while world.get("ConfigMap", "a").await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let key = lock::annotation_key("release/demo");
        let patch = slipway_cluster::ObjectPatch::Merge(json!({"metadata": {"annotations": {key: null}}}));
        let at = place("ConfigMap", "werf-synchronization");
        world
            .cluster
            .patch(&at, &patch, &slipway_cluster::WriteOptions::for_manager("thief"), None)
            .await
            .expect("steals");
    };
    let (ended, ()) = tokio::join!(world.apply(&objects), steal);
    assert_eq!(ended.expect_err("lost").cause(), FailureCause::LockLost);
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Failed)]);
}

/// Scenario 50: a webhook whose backend comes with the same release is waited for.
#[tokio::test]
async fn webhooks_come_up() {
    let world = World::new();
    let down = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let asked = down.clone();
    let tap = Tap::on(world.sandbox.service()).answer(move |seen| {
        let is_guarded = seen.path.ends_with("/configmaps/guarded") && seen.method != http::Method::GET;
        // Up once the real write was tried a few times, as if its backend had started meanwhile.
        if !is_guarded || (seen.is_write() && asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 3) {
            return None;
        }
        let message = "Internal error occurred: failed calling webhook \"guard.example.com\": failed to call webhook: \
            Post \"https://guard.t1.svc:443/\": dial tcp 10.96.0.9:443: connect: connection refused";
        Some(Answer::new(500, "InternalError", message))
    });
    let world = World { cluster: slipway_cluster::Cluster::new(tap.client()).with_retry(hasty()), ..world };
    let report = world.deployed(&[config_map("guarded", "1"), deployment("guard", "nginx")]).await;
    assert_eq!(report.status, ReleaseStatus::Deployed);
    assert!(world.get("ConfigMap", "guarded").await.is_some());
    assert_eq!(down.load(std::sync::atomic::Ordering::SeqCst), 4);
}

/// Failures say what kind they are; nobody has to read their words.
#[tokio::test]
async fn failures_have_a_cause() {
    let world = failing();
    assert_eq!(world.failed(&[never("a")]).await.cause(), FailureCause::Timeout);
    let faults = FaultLayer::new(1);
    faults.add(FaultRule::new(Fault::ServerError(403)).verb("patch").name("b"));
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let world = world.troubled(&faults);
    let failure = world.failed(&[config_map("a", "1"), config_map("b", "1")]).await;
    assert!(matches!(failure, Failure::Problems(_) | Failure::Source(_)), "{failure}");
    let faults = FaultLayer::new(1);
    faults.add(FaultRule::new(Fault::ServerError(409)).verb("patch").name("b").skip(1));
    let world = world.troubled(&faults);
    let failure = world.failed(&[config_map("a", "1"), config_map("b", "1")]).await;
    assert_eq!(failure.cause(), FailureCause::Cluster(ErrorClass::Conflict), "{failure}");
}
