//! When things are ready, when they have failed, and what they say meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::RevisionStatus;
use slipway_cluster::track::{Readiness, ReadinessContext, readiness_of};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_event::{Event, ObjectState};
use slipway_release::FailureCause;
use slipway_release::ReleaseStatus;
use slipway_sandbox::{ClockSpeed, Sandbox};

use crate::world::{World, annotated, boat, boats, config_map, deployment, fated, job, place};

/// Scenario 46: when an object counts as ready, kind by kind.
#[test]
fn readiness_formulas() {
    let of = |api: &str, kind: &str, generation: i64, spec: Value, state: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "generation": generation}, "spec": spec, "status": state});
    let deploy = |state: Value| of("apps/v1", "Deployment", 2, json!({"replicas": 2}), state);
    let set = |spec: Value, state: Value| of("apps/v1", "StatefulSet", 1, spec, state);
    let daemon = |spec: Value, state: Value| of("apps/v1", "DaemonSet", 1, spec, state);
    let full = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
    let mut lingering = full.clone();
    lingering["replicas"] = 3.into();
    let mut stale = full.clone();
    stale["observedGeneration"] = 1.into();
    let rolling = |partition: i64| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let set_state = |ready: i64, updated: i64, same: bool| {
        json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": updated,
            "currentRevision": "a", "updateRevision": if same { "a" } else { "b" }})
    };
    let daemon_state = json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1, "currentNumberScheduled": 2, "numberReady": 1});
    let condition =
        |kind: &str, state: &str| json!({"conditions": [{"type": kind, "status": state, "reason": "Why"}]});
    let custom = |state: Value| of("example.com/v1", "Boat", 2, json!({}), state);
    let pod = |phase: &str, ready: &str| {
        let mut state = condition("Ready", ready);
        state["phase"] = phase.into();
        of("v1", "Pod", 0, json!({"restartPolicy": "Always"}), state)
    };
    let (r, p, f) = ("ready", "progressing", "failed");
    let rows: Vec<(&str, Value, &str)> = vec![
        ("everything is new and available", deploy(full), r),
        ("an old pod lingers", deploy(lingering), p),
        ("the controller has not seen the change", deploy(stale), p),
        ("a set of the same revision", set(rolling(0), set_state(3, 3, true)), r),
        ("a set still rolling", set(rolling(0), set_state(3, 2, false)), p),
        ("a partition is reached", set(rolling(2), set_state(3, 1, false)), r),
        ("a partition is not reached", set(rolling(1), set_state(3, 1, false)), p),
        (
            "on delete, nobody deleted",
            set(json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}), set_state(3, 1, false)),
            r,
        ),
        (
            "on delete, all deleted",
            set(json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}), set_state(3, 3, false)),
            r,
        ),
        (
            "a daemon is not available everywhere",
            daemon(json!({"updateStrategy": {"type": "RollingUpdate"}}), daemon_state.clone()),
            p,
        ),
        ("a daemon nobody rolls", daemon(json!({"updateStrategy": {"type": "OnDelete"}}), daemon_state), r),
        ("a job done", of("batch/v1", "Job", 0, json!({}), condition("Complete", "True")), r),
        ("a job failed", of("batch/v1", "Job", 0, json!({}), condition("Failed", "True")), f),
        ("a job at work", of("batch/v1", "Job", 0, json!({}), json!({"active": 1})), p),
        ("a pod that runs", pod("Running", "True"), r),
        ("a pod that is not ready", pod("Running", "False"), p),
        ("a pod that failed", pod("Failed", "False"), f),
        ("a lost claim", of("v1", "PersistentVolumeClaim", 0, json!({}), json!({"phase": "Lost"})), f),
        ("a claim", of("v1", "PersistentVolumeClaim", 0, json!({}), json!({"phase": "Pending"})), p),
        ("a custom object that is not ready", custom(condition("Ready", "False")), p),
        ("a custom object that is", custom(condition("Ready", "True")), r),
        (
            "a stale custom object",
            custom({
                let mut state = condition("Ready", "True");
                state["observedGeneration"] = 1.into();
                state
            }),
            p,
        ),
        ("a custom object that says nothing", custom(json!({})), r),
    ];
    for (what, object, expected) in rows {
        let found = match readiness_of(&object, &ReadinessContext::default()) {
            Readiness::Ready | Readiness::Resting(_) => r,
            Readiness::Progressing(_) => p,
            Readiness::Failed(_) => f,
        };
        assert_eq!(found, expected, "{what}");
    }
    let hook = ReadinessContext { is_hook: true, ..ReadinessContext::default() };
    assert!(
        matches!(readiness_of(&pod("Running", "True"), &hook), Readiness::Progressing(_)),
        "a hook is done when it succeeded"
    );
    assert!(matches!(readiness_of(&pod("Succeeded", "False"), &hook), Readiness::Ready));
}

/// Scenario 46 on a cluster: a hook pod is waited for to its end, a late-binding claim blocks nobody.
#[tokio::test]
async fn hooks_and_claims_on_a_cluster() {
    let world = World::new();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late", "annotations": {"werf.io/weight": "-2"}},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": {"werf.io/weight": "-1"}}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}});
    let hook = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "once", "annotations": {"helm.sh/hook": "post-install"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}});
    let mut consumer = deployment("web", "nginx");
    consumer["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let (world, tap) = world.tapped();
    // The claim comes before its consumer and is not waited for: without a consumer it is never bound.
    let consumer = annotated(consumer, json!({"werf.io/track-termination-mode": "NonBlocking"}));
    world.deployed(&[class, claim, consumer, hook]).await;
    assert!(tap.position("/persistentvolumeclaims/data") < tap.position("/deployments/web"));
    let pod = world.get("Pod", "once").await.expect("is there");
    assert_eq!(pod["status"]["phase"], "Succeeded");
}

/// Scenario 46 in virtual time: custom objects are waited for, silent ones not, stuck ones given up.
#[tokio::test(start_paused = true)]
async fn custom_objects_in_time() {
    let world = World::bare();
    world.settle_in().await;
    world.deployed(&[boats()]).await;
    let started = tokio::time::Instant::now();
    world.deployed(&[boats(), boat("silent")]).await;
    assert!(started.elapsed() <= Duration::from_secs(10), "{:?}", started.elapsed());
    let say = |state: Value| {
        let cluster = world.cluster.clone();
        async move {
            let (patch, options) =
                (ObjectPatch::Merge(json!({"status": state})), WriteOptions::for_manager("harbour"));
            cluster.patch(&place("Boat", "busy"), &patch, &options, Some("status")).await.expect("writes");
        }
    };
    let condition = |state: &str| json!({"conditions": [{"type": "Ready", "status": state}]});
    let harbour = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        say(condition("False")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        say(condition("True")).await;
    };
    let (started, objects) = (tokio::time::Instant::now(), [boats(), boat("silent"), boat("busy")]);
    let (report, ()) = tokio::join!(world.deployed(&objects), harbour);
    assert_eq!(report.status, ReleaseStatus::Deployed);
    assert!(started.elapsed() >= Duration::from_secs(62), "{:?}", started.elapsed());
    say(json!({"conditions": null, "phase": "Creating"})).await;
    let mut busy = annotated(boat("busy"), json!({"werf.io/no-activity-timeout": "90s"}));
    busy["spec"]["sails"] = 3.into();
    let failure = world.failed(&[boats(), boat("silent"), busy]).await.to_string();
    assert!(failure.contains("nothing happened for 90 s"), "{failure}");
}

/// Scenario 47: failures count once each, and as many as allowed are borne.
#[tokio::test]
async fn failure_counting() {
    let flapping = |name: &str, failures: Option<&str>, allowed: Option<&str>| {
        let mut fate = json!({"sim/fail": "crashloop"});
        if let Some(failures) = failures {
            fate["sim/fail-count"] = failures.into();
        }
        let mut web = fated(deployment(name, "nginx"), fate);
        // The controller's own patience would end some of these first where time flies.
        web["spec"]["progressDeadlineSeconds"] = i32::MAX.into();
        match allowed {
            Some(allowed) => annotated(web, json!({"werf.io/failures-allowed-per-replica": allowed})),
            None => web,
        }
    };
    // One container that crashes once is one failure, however often its pod is updated.
    World::new().deployed(&[flapping("once", Some("1"), None)]).await;
    World::new().deployed(&[flapping("thrice", Some("3"), Some("3"))]).await;
    // For ever, or it might be over before anybody looks.
    let failure = World::new().failed(&[flapping("ever", None, None)]).await.to_string();
    assert!(failure.contains("failures, 1 allowed"), "{failure}");
    let failure = World::new().failed(&[flapping("none", None, Some("0"))]).await.to_string();
    assert!(failure.contains("CrashLoopBackOff"), "{failure}");
    let mut never = fated(job("never", "busybox"), json!({"sim/fail": "imagepull"}));
    never["metadata"]["annotations"] = json!({"werf.io/failures-allowed-per-replica": "5"});
    World::new().failed(&[never]).await;
}

/// Scenario 48: which lines are passed on, of how many pods, and without secrets.
#[tokio::test]
async fn log_filters() {
    let world = World::new();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": "tok-12345678"}});
    let said = "keep one\ndrop keep two\nkeep tok-12345678\nother";
    let talkative =
        |name: &str, notes: Value| annotated(fated(job(name, "busybox"), json!({"sim/logs": said})), notes);
    let mut two = talkative("two", json!({"werf.io/skip-logs-for-containers": "sidecar"}));
    two["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "c", "image": "busybox"}, {"name": "sidecar", "image": "busybox"}]);
    let mut many = talkative("many", json!({"werf.io/show-logs-only-for-number-of-replicas": "2"}));
    many["spec"]["completions"] = 4.into();
    many["spec"]["parallelism"] = 4.into();
    world
        .deployed(&[
            secret,
            talkative("all", json!({})),
            talkative("some", json!({"werf.io/log-regex": "keep", "werf.io/log-regex-skip": "drop"})),
            talkative("for", json!({"werf.io/log-regex-for-c": "other"})),
            talkative("none", json!({"werf.io/skip-logs": "true"})),
            two,
            many,
        ])
        .await;
    let mut lines: Vec<(String, String, String)> = Vec::new();
    for record in world.heard.drain() {
        if let Event::Log { object: Some(pod), container: Some(container), line, .. } = record.event {
            lines.push((pod.name, container, line));
        }
    }
    let of = |job: &str| -> Vec<&str> {
        let prefix = format!("{job}-");
        lines.iter().filter(|(pod, ..)| pod.starts_with(&prefix)).map(|(.., line)| line.as_str()).collect()
    };
    assert_eq!(of("all"), ["keep one", "drop keep two", "keep ***", "other"]);
    assert_eq!(of("some"), ["keep one", "keep ***"]);
    assert_eq!(of("for"), ["other"]);
    assert!(of("none").is_empty());
    assert!(lines.iter().any(|(pod, container, _)| pod.starts_with("two-") && container == "c"));
    assert!(!lines.iter().any(|(_, container, _)| container == "sidecar"));
    let pods: std::collections::BTreeSet<&str> =
        lines.iter().filter(|(pod, ..)| pod.starts_with("many-")).map(|(pod, ..)| pod.as_str()).collect();
    assert!((1..=2).contains(&pods.len()), "{pods:?}");
}

/// Events of the cluster are shown where an annotation asks for them, and only there.
#[tokio::test(start_paused = true)]
async fn events_of_the_cluster_are_told_when_asked_for() {
    let (world, tap) = World::bare().tapped();
    world.settle_in().await;
    world.deployed(&[boats()]).await;
    world.heard.drain();
    let rule = |shown: &str| json!({"slipway.dev/ready-when": "{.status.phase}==Afloat", "werf.io/show-service-messages": shown});
    let objects = [boats(), annotated(boat("loud"), rule("true")), annotated(boat("quiet"), rule("false"))];
    let harbour = async {
        // An event is news to whoever watches already: written once both are followed, it cannot be missed.
        let watches = || {
            let seen = tap.seen();
            seen.iter()
                .filter(|seen| seen.path.ends_with("/events") && seen.query.contains("watch=true"))
                .count()
        };
        while watches() == 0
            || world.get("Boat", "loud").await.is_none()
            || world.get("Boat", "quiet").await.is_none()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for name in ["loud", "quiet"] {
            let uid = world.get("Boat", name).await.expect("is there")["metadata"]["uid"].clone();
            let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.1")},
                "involvedObject": {"apiVersion": "example.com/v1", "kind": "Boat", "name": name, "namespace": "t1", "uid": uid},
                "reason": "Leaking", "message": format!("water in {name}"), "type": "Normal"});
            world.create("harbour", &event).await;
        }
        let mut told = String::new();
        while !told.contains("Leaking: water in loud") {
            tokio::time::sleep(Duration::from_millis(10)).await;
            told.push_str(&world.said());
        }
        for name in ["quiet", "loud"] {
            let (patch, options) = (
                ObjectPatch::Merge(json!({"status": {"phase": "Afloat"}})),
                WriteOptions::for_manager("harbour"),
            );
            world
                .cluster
                .patch(&place("Boat", name), &patch, &options, Some("status"))
                .await
                .expect("writes");
        }
        told
    };
    let (report, told) = tokio::time::timeout(Duration::from_secs(600), async {
        tokio::join!(world.deployed(&objects), harbour)
    })
    .await
    .expect("the event is told");
    assert_eq!(report.status, ReleaseStatus::Deployed);
    let told = told + &world.said();
    assert!(!told.contains("water in quiet"), "{told}");
}

/// What a terminal needs to show: operations, objects and their pods as they go.
#[tokio::test]
async fn progress_is_told() {
    // Slow enough to be watched.
    let sandbox =
        Sandbox::builder().seed(1).speed(ClockSpeed::Times(20.0)).build().expect("the sandbox starts");
    let world = World::on(sandbox);
    let web = fated(deployment("web", "nginx"), json!({"sim/delay": "40s", "sim/logs": "hello"}));
    world.deployed(&[config_map("a", "1"), web]).await;
    let heard = world.heard.drain();
    let node = "track readiness: Deployment/web";
    let mut states: Vec<(String, ObjectState, Option<String>)> = Vec::new();
    for record in &heard {
        if let Event::Object { object, state, node: about, .. } = &record.event {
            let about = about.as_ref().map(ToString::to_string);
            states.push((format!("{}/{}", object.gvk.kind, object.name), *state, about));
        }
    }
    let has = |name: &str, state: ObjectState| {
        states.iter().any(|(who, is, _)| who.starts_with(name) && *is == state)
    };
    assert!(has("ConfigMap/a", ObjectState::Created) && has("Deployment/web", ObjectState::Created));
    assert!(has("Deployment/web", ObjectState::Waiting) && has("Deployment/web", ObjectState::Ready));
    assert!(has("Pod/web-", ObjectState::Waiting) && has("Pod/web-", ObjectState::Ready), "{states:#?}");
    assert!(
        states
            .iter()
            .filter(|(who, ..)| who.starts_with("Pod/"))
            .all(|(.., about)| about.as_deref() == Some(node))
    );
    let started = heard.iter().any(
        |record| matches!(&record.event, Event::NodeStarted { node: started, .. } if started.id == node),
    );
    assert!(started);
}

/// Jobs that are deleted as soon as they are done are waited for all the same.
#[tokio::test]
async fn jobs_with_a_life_of_zero_seconds_count() {
    let brief = |name: &str, fate: Value| {
        let mut brief = fated(job(name, "busybox"), fate);
        brief["spec"]["ttlSecondsAfterFinished"] = 0.into();
        brief["spec"]["backoffLimit"] = 0.into();
        brief
    };
    let world = World::new();
    let hook = annotated(brief("before", json!({})), json!({"helm.sh/hook": "pre-install"}));
    world.deployed(&[brief("task", json!({})), hook, config_map("a", "1")]).await;
    let failure = world.failed(&[brief("bad", json!({"sim/fail": "true"}))]).await.to_string();
    assert!(failure.contains("Job/bad did not become ready: BackoffLimitExceeded"), "{failure}");
}

/// What nobody brings further is as ready as it gets, and that is said.
#[tokio::test]
async fn what_rests_is_not_waited_for() {
    let world = World::new();
    let mut paused = deployment("paused", "nginx");
    paused["spec"]["paused"] = true.into();
    let mut suspended = job("suspended", "busybox");
    suspended["spec"]["suspend"] = true.into();
    let set = |image: &str| {
        let mut set = deployment("set", image);
        set["kind"] = "StatefulSet".into();
        set["spec"]["serviceName"] = "set".into();
        set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        set
    };
    world.deployed(&[paused.clone(), suspended.clone(), set("nginx:1")]).await;
    let said = world.said();
    for why in ["is not waited for: paused", "is not waited for: suspended"] {
        assert!(said.contains(why), "{why}: {said}");
    }
    world.deployed(&[paused, suspended, set("nginx:2")]).await;
    assert!(world.said().contains("0 of 1 pods updated: the others are when somebody deletes them"));
}

/// Whoever waits for a load balancer that nobody makes is told so.
#[tokio::test(start_paused = true)]
async fn a_missing_load_balancer_is_said_after_half_a_minute() {
    let world = World::bare();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let started = world.events.clock().now();
    let failure = world.failed(&[service]).await;
    assert!(failure.to_string().contains("no address of the load balancer"), "{failure}");
    let told: Vec<_> = world
        .heard
        .drain()
        .into_iter()
        .filter(|record| format!("{:?}", record.event).contains("no address of a load balancer for 30 s"))
        .map(|record| record.time.duration_since(started).as_secs())
        .collect();
    assert_eq!(told, [30], "once, and when it is due");
}

/// Five minutes unless the object, the run or a limit for the whole says otherwise.
#[tokio::test(start_paused = true)]
async fn readiness_has_a_limit() {
    let seconds = Duration::from_secs;
    let note = |time: &str| json!({"slipway.dev/ready-timeout": time});
    for (own, of_run, of_all, expected) in [
        (None, None, None, 300),
        (Some("20s"), None, None, 20),
        (Some("20s"), Some(seconds(40)), None, 20),
        (None, Some(seconds(40)), None, 40),
        (None, None, Some(seconds(400)), 400),
        (Some("0s"), Some(seconds(40)), Some(seconds(500)), 500),
        (None, Some(seconds(0)), Some(seconds(500)), 500),
    ] {
        let mut world = World::bare();
        (world.apply.readiness_timeout, world.apply.timeout) = (of_run, of_all.map(Into::into));
        let object = deployment("web", "nginx");
        let object = own.map_or(object.clone(), |own| annotated(object, note(own)));
        let started = tokio::time::Instant::now();
        let failure = world.failed(&[object]).await;
        assert_eq!(failure.cause(), FailureCause::Timeout, "{failure}");
        let took = started.elapsed().as_secs();
        assert!((expected..expected + 5).contains(&took), "{own:?} {of_run:?} {of_all:?}: {took}");
    }
    let failure = World::bare().failed(&[annotated(deployment("web", "nginx"), note("soon"))]).await;
    assert!(
        failure.to_string().contains("`slipway.dev/ready-timeout`: `soon` is not a duration"),
        "{failure}"
    );
}

/// What may fail does not hold the release up.
#[tokio::test]
async fn failures_that_are_to_be_ignored_are() {
    let world = World::new();
    let note = json!({"werf.io/fail-mode": "IgnoreAndContinueDeployProcess"});
    let bad = annotated(fated(deployment("bad", "nginx"), json!({"sim/fail": "imagepull"})), note);
    world.deployed(&[bad, config_map("a", "1")]).await;
    assert!(world.said().contains("is not ready, and that is to be ignored"));
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Deployed)]);
}
