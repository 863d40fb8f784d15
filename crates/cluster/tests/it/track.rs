//! Following workloads of the sandbox until they are ready, or are not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::track::{
    FailMode, FieldCondition, ReadyRules, SeenObject, TrackError, TrackOptions, Tracker,
};
use slipway_cluster::{
    Cluster, DeleteOptions, ErrorClass, ObjectPatch, RequestVerb, WriteOptions, logs, wait,
};
use slipway_event::{Event, Events, Memory, ObjectState, Redactor, RunId, SystemClock};
use slipway_sandbox::{Fault, FaultLayer, FaultRule, Sandbox, User};

use crate::world::{at, bare, config_map, helm, soon, troubled};

struct World {
    cluster: Cluster,
    tracker: Tracker,
    memory: Arc<Memory>,
    _sandbox: Sandbox,
}

fn tracker(cluster: &Cluster) -> (Tracker, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let clock = Arc::new(SystemClock);
    let events = Events::new(RunId::generate(&*clock), clock, Redactor::new(), memory.clone());
    (Tracker::new(cluster.clone(), events, TrackOptions::default()), memory)
}

fn world() -> World {
    let sandbox = Sandbox::builder().seed(1).build().unwrap();
    let cluster = Cluster::new(sandbox.client());
    let (tracker, memory) = tracker(&cluster);
    World { cluster, tracker, memory, _sandbox: sandbox }
}

fn template(annotations: Value) -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "example.com/web:1"}]}})
}

fn workload(kind: &str, name: &str, annotations: Value) -> Value {
    let mut spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": template(annotations)});
    let mut api_version = "apps/v1";
    match kind {
        "DaemonSet" => {
            spec.as_object_mut().unwrap().remove("replicas");
        }
        // The controller's own patience would end some waits first where time flies.
        "Deployment" => spec["progressDeadlineSeconds"] = i32::MAX.into(),
        "StatefulSet" => spec["serviceName"] = "web".into(),
        "Job" => {
            api_version = "batch/v1";
            spec = json!({"template": spec["template"], "backoffLimit": 1});
            spec["template"]["spec"]["restartPolicy"] = "Never".into();
        }
        _ => {}
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

async fn apply(cluster: &Cluster, manifest: &Value) -> slipway_manifest::ObjectRef {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap();
    let place = at(text("/apiVersion"), text("/kind"), text("/metadata/name"));
    cluster.apply(&place, manifest, &helm()).await.unwrap();
    place
}

fn states(memory: &Memory) -> Vec<ObjectState> {
    let records = memory.drain().into_iter();
    records
        .filter_map(|record| match record.event {
            Event::Object { state, .. } => Some(state),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn workloads_become_ready() {
    let world = world();
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "Job"] {
        let place = apply(&world.cluster, &workload(kind, "web", json!({}))).await;
        soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
        let live = world.cluster.get(&place).await.unwrap().unwrap();
        match kind {
            "Deployment" => assert_eq!(live["status"]["availableReplicas"], 2),
            "Job" => assert_eq!(live["status"]["succeeded"], 1),
            _ => {}
        }
        assert_eq!(states(&world.memory).last(), Some(&ObjectState::Ready), "{kind}");
        // What is ready already costs one read.
        let before = world.cluster.call_counts();
        soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
        let calls = world.cluster.call_counts().since(&before);
        assert_eq!(calls.count_of(RequestVerb::Get), 1, "{kind}: {calls}");
    }
}

#[tokio::test]
async fn an_update_is_waited_for() {
    let world = world();
    let place = apply(&world.cluster, &workload("Deployment", "web", json!({}))).await;
    soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
    for version in 2..5 {
        let mut manifest = workload("Deployment", "web", json!({}));
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] =
            format!("example.com/web:{version}").into();
        apply(&world.cluster, &manifest).await;
        soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
        let live = world.cluster.get(&place).await.unwrap().unwrap();
        assert_eq!(live["status"]["updatedReplicas"], 2);
        assert_eq!(live["status"]["replicas"], 2);
    }
}

#[tokio::test]
async fn what_only_exists_needs_no_call() {
    let world = world();
    let place = apply(&world.cluster, &config_map("a", "1")).await;
    let before = world.cluster.call_counts();
    world.tracker.wait_ready(&place, &ReadyRules::default()).await.unwrap();
    assert_eq!(world.cluster.call_counts().since(&before).total(), 0);
}

#[tokio::test]
async fn crashes_fail_with_a_digest() {
    let world = world();
    let place = apply(&world.cluster, &workload("Deployment", "web", json!({"sim/fail": "crashloop"}))).await;
    let error = soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap_err();
    let TrackError::NotReady { why, digest, .. } = &error else { panic!("{error}") };
    assert!(why.contains("CrashLoopBackOff"), "{why}");
    assert!(
        digest.containers.iter().all(|c| c.container == "c" && !c.state.to_string().is_empty()),
        "{digest}"
    );
    assert!(
        !digest.containers.is_empty() && !digest.events.is_empty() && !digest.logs.is_empty(),
        "{digest}"
    );
    assert_eq!(states(&world.memory).last(), Some(&ObjectState::Failed));
}

/// The missed deadline of the rollout before stands until the next one makes progress.
#[tokio::test]
async fn a_deployment_that_is_mended_after_its_deadline_becomes_ready() {
    let world = world();
    let mut stuck = workload("Deployment", "web", json!({"sim/fail": "pending"}));
    stuck["spec"]["progressDeadlineSeconds"] = 5.into();
    for _ in 0..3 {
        let place = apply(&world.cluster, &stuck).await;
        let error = soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap_err();
        assert!(error.to_string().contains("ProgressDeadlineExceeded"), "{error}");
        apply(&world.cluster, &workload("Deployment", "web", json!({}))).await;
        soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
    }
}

#[tokio::test]
async fn bad_images_fail() {
    let world = world();
    for kind in ["Deployment", "Job"] {
        let place = apply(&world.cluster, &workload(kind, "web", json!({"sim/fail": "imagepull"}))).await;
        let error = soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap_err();
        assert!(error.to_string().contains("ImagePull"), "{error}");
    }
}

#[tokio::test]
async fn a_few_failures_are_allowed() {
    let world = world();
    let crashing = json!({"sim/fail": "crashloop", "sim/fail-count": "2"});
    let place = apply(&world.cluster, &workload("Deployment", "web", crashing)).await;
    let rules = ReadyRules { allowed_failures_per_replica: Some(10), ..ReadyRules::default() };
    soon(world.tracker.wait_ready(&place, &rules)).await.unwrap();
}

#[tokio::test]
async fn failed_jobs_fail_or_are_ignored() {
    let world = world();
    let place = apply(&world.cluster, &workload("Job", "web", json!({"sim/fail": "true"}))).await;
    let error = soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap_err();
    assert!(error.to_string().contains("BackoffLimitExceeded"), "{error}");
    let rules = ReadyRules { fail_mode: FailMode::Ignore, ..ReadyRules::default() };
    soon(world.tracker.wait_ready(&place, &rules)).await.unwrap();
}

/// A Job may be deleted the moment it is done: what the watch showed last says how it ended.
#[tokio::test]
async fn jobs_that_vanish_when_done_are_judged_by_their_last_state() {
    let world = world();
    for (fate, ends) in [(json!({}), None), (json!({"sim/fail": "true"}), Some("BackoffLimitExceeded"))] {
        let mut job = workload("Job", "web", fate);
        job["spec"]["ttlSecondsAfterFinished"] = 0.into();
        let place = at("batch/v1", "Job", "web");
        let vigil = world.tracker.watch_early(&place).await.unwrap();
        let written = world.cluster.apply(&place, &job, &helm()).await.unwrap();
        let uid = written["metadata"]["uid"].as_str().unwrap().to_owned();
        soon(world.tracker.wait_absent(&place, Some(&uid), None)).await.unwrap();
        let rules = ReadyRules { uid: Some(uid), ..ReadyRules::default() };
        let ended = soon(world.tracker.wait_ready_since(
            &place,
            &rules,
            SeenObject { vigil: Some(vigil), ..SeenObject::default() },
        ))
        .await;
        match ends {
            None => ended.unwrap(),
            Some(why) => assert!(ended.unwrap_err().to_string().contains(why)),
        }
    }
}

/// One that went before the one that was written says nothing about it.
#[tokio::test(start_paused = true)]
async fn an_earlier_job_of_the_same_name_is_another() {
    let (_sandbox, cluster) = bare();
    let (tracker, _) = tracker(&cluster);
    let place = at("batch/v1", "Job", "web");
    let vigil = tracker.watch_early(&place).await.unwrap();
    apply(&cluster, &workload("Job", "web", json!({}))).await;
    let done = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z",
        "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}});
    let options = WriteOptions::for_manager("controller");
    cluster.patch(&place, &ObjectPatch::Merge(done), &options, Some("status")).await.unwrap();
    cluster.delete(&place, &DeleteOptions::default()).await.unwrap();
    let rules = ReadyRules { uid: Some("another".to_owned()), ..ReadyRules::default() };
    let error = tracker
        .wait_ready_since(&place, &rules, SeenObject { vigil: Some(vigil), ..SeenObject::default() })
        .await
        .unwrap_err();
    assert!(matches!(error, TrackError::Deleted { .. }), "{error}");
}

/// However soon a workload is ready, what its pods said until then is passed on.
#[tokio::test]
async fn what_pods_said_until_they_were_ready_is_passed_on() {
    let world = world();
    let all = (0..15).map(|index| {
        let (cluster, tracker) = (world.cluster.clone(), world.tracker.clone());
        async move {
            let name = format!("web-{index}");
            let mut manifest = workload("Deployment", &name, json!({"sim/logs": "one\ntwo\nthree"}));
            manifest["spec"]["replicas"] = 1.into();
            let labels = json!({"app": name});
            manifest["spec"]["selector"]["matchLabels"] = labels.clone();
            manifest["spec"]["template"]["metadata"]["labels"] = labels;
            let place = apply(&cluster, &manifest).await;
            let rules =
                ReadyRules { just_written: true, node: Some(name.as_str().into()), ..ReadyRules::default() };
            tracker.wait_ready(&place, &rules).await.unwrap();
        }
    });
    soon(futures::future::join_all(all)).await;
    let mut said: std::collections::BTreeMap<String, Vec<String>> = Default::default();
    for record in world.memory.drain() {
        if let Event::Log { node: Some(node), line, .. } = record.event {
            said.entry(node.to_string()).or_default().push(line);
        }
    }
    assert_eq!(said.len(), 15, "{said:#?}");
    for (name, lines) in said {
        assert_eq!(lines, ["one", "two", "three"], "{name}");
    }
}

#[tokio::test]
async fn logs_of_a_job_are_passed_on() {
    let world = world();
    let place = apply(&world.cluster, &workload("Job", "web", json!({}))).await;
    soon(world.tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
    let pods = world.cluster.find_kind(&slipway_manifest::Gvk::new("", "v1", "Pod")).await.unwrap().unwrap();
    let options = slipway_cluster::ListOptions::with_labels("app=web");
    let mut listed = world.cluster.list(&pods, Some("default"), &options).await.unwrap();
    let pod = listed.items.remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
    let source = logs::LogSource { namespace: "default".into(), pod, container: "c".into() };
    let said = logs::read_logs(&world.cluster, &source, &logs::ContainerLogOptions::default()).await.unwrap();
    let said: Vec<String> = said.into_iter().map(|line| line.text).collect();
    assert!(!said.is_empty());
    let mut followed = Vec::new();
    let mut take = |line: logs::ContainerLogLine| followed.push(line.text);
    soon(logs::follow_logs(&world.cluster, &source, &logs::ContainerLogOptions::default(), &mut take))
        .await
        .unwrap();
    assert_eq!(followed, said, "each line once");
}

#[tokio::test]
async fn nothing_is_lost_in_foul_weather() {
    let sandbox = Sandbox::builder().seed(3).build().unwrap();
    let faults = FaultLayer::new(9);
    for fault in [
        Fault::TooManyRequests { retry_after: 0 },
        Fault::ServerError(500),
        Fault::ServerError(503),
        Fault::Reset,
    ] {
        faults.add(FaultRule::new(fault).probability(0.05));
    }
    faults.add(FaultRule::new(Fault::DropWatch { after: 1 }).path_contains("watch=true").probability(0.5));
    let cluster = troubled(&sandbox, &faults);
    let (tracker, _) = tracker(&cluster);
    let all = (0..12).map(|index| {
        let (cluster, tracker) = (cluster.clone(), tracker.clone());
        async move {
            let mut manifest = workload("Deployment", &format!("web-{index}"), json!({}));
            let labels = json!({"app": format!("web-{index}")});
            manifest["spec"]["selector"]["matchLabels"] = labels.clone();
            manifest["spec"]["template"]["metadata"]["labels"] = labels;
            let place = apply(&cluster, &manifest).await;
            tracker.wait_ready(&place, &ReadyRules::default()).await
        }
    });
    for result in soon(futures::future::join_all(all)).await {
        result.unwrap();
    }
    assert!(faults.hits() > 0);
}

#[tokio::test]
async fn missing_rights_degrade_to_reading() {
    let sandbox = Sandbox::builder().seed(3).rbac(true).build().unwrap();
    let admin = Cluster::new(sandbox.client());
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jo"}]});
    apply(&admin, &role).await;
    apply(&admin, &binding).await;
    let place = apply(&admin, &workload("Deployment", "web", json!({"sim/delay": "1s"}))).await;
    let jo = User { name: "jo".into(), groups: vec!["system:authenticated".into()], ..User::default() };
    let cluster = Cluster::new(kube::Client::new(sandbox.service_as(jo), "default"));
    let (tracker, memory) = tracker(&cluster);
    soon(tracker.wait_ready(&place, &ReadyRules::default())).await.unwrap();
    let warnings = memory.drain().into_iter().filter(|r| matches!(r.event, Event::Warning { .. })).count();
    assert!(warnings <= 4, "each gap is told once: {warnings}");
}

#[tokio::test(start_paused = true)]
async fn quiet_custom_objects_time_out() {
    let (_sandbox, cluster) = bare();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let place = slipway_manifest::ObjectRef::new(
        slipway_manifest::Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
        "things.example.com",
    );
    cluster.apply(&place, &definition, &helm()).await.unwrap();
    slipway_cluster::crd::wait_until_served(&cluster, &definition, Duration::from_secs(60)).await.unwrap();
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let place = apply(&cluster, &thing).await;
    let (tracker, _) = tracker(&cluster);

    // Nothing is said about it: it is taken as it is, after a moment of grace.
    let started = tokio::time::Instant::now();
    tracker.wait_ready(&place, &ReadyRules::default()).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 5);

    let say = |phase: &str| ObjectPatch::Merge(json!({"status": {"phase": phase}}));
    let options = WriteOptions::default();
    cluster.patch(&place, &say("Creating"), &options, Some("status")).await.unwrap();
    let started = tokio::time::Instant::now();
    let error = tracker.wait_ready(&place, &ReadyRules::default()).await.unwrap_err();
    assert!(error.to_string().contains("nothing happened for 240 s: phase Creating"), "{error}");
    assert!(started.elapsed().as_secs() <= 241);

    let rules = ReadyRules { timeout: Some(Duration::from_secs(3)), ..ReadyRules::default() };
    let error = tracker.wait_ready(&place, &rules).await.unwrap_err();
    assert!(matches!(error, TrackError::TimedOut { .. }), "{error}");
    let own = |rule: &str| ReadyRules {
        ready_when: Some(FieldCondition::parse(rule).unwrap()),
        ..ReadyRules::default()
    };
    tracker.wait_ready(&place, &own("{.status.phase}==Creating")).await.unwrap();

    // Watched, not polled: the change itself wakes the one who waits.
    let change = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        cluster.patch(&place, &say("Ready"), &options, Some("status")).await.unwrap();
    };
    let (started, rules) = (tokio::time::Instant::now(), ReadyRules::default());
    let (ready, ()) = tokio::join!(tracker.wait_ready(&place, &rules), change);
    ready.unwrap();
    assert_eq!(started.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn there_and_gone() {
    let (_sandbox, cluster) = bare();
    let (tracker, _) = tracker(&cluster);
    let place = at("v1", "ConfigMap", "a");
    let error = tracker.wait_present(&place, Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap default/a is not there after 5 s: it does not exist");
    let create = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut manifest = config_map("a", "1");
        manifest["metadata"]["finalizers"] = json!(["example.com/hold"]);
        cluster.apply(&place, &manifest, &helm()).await.unwrap();
    };
    let (present, ()) = tokio::join!(tracker.wait_present(&place, Duration::from_secs(60)), create);
    present.unwrap();

    cluster.delete(&place, &DeleteOptions::default()).await.unwrap();
    let error = tracker.wait_absent(&place, None, Some(Duration::from_secs(5))).await.unwrap_err();
    assert!(error.to_string().contains("its finalizers hold it: example.com/hold"), "{error}");
    tracker.wait_absent(&place, Some("another"), Some(Duration::from_secs(5))).await.unwrap();
    let free = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let patch = ObjectPatch::Merge(json!({"metadata": {"finalizers": null}}));
        cluster.patch(&place, &patch, &WriteOptions::default(), None).await.unwrap();
    };
    let (absent, ()) = tokio::join!(tracker.wait_absent(&place, None, None), free);
    absent.unwrap();
    tracker.wait_absent(&at("example.com/v1", "Nothing", "a"), None, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_not_waited_for() {
    let (_sandbox, cluster) = bare();
    let (tracker, _) = tracker(&cluster);
    let place = apply(&cluster, &workload("Deployment", "web", json!({}))).await;
    let delete = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cluster.delete(&place, &DeleteOptions::default()).await.unwrap();
    };
    let rules = ReadyRules::default();
    let (result, ()) = tokio::join!(tracker.wait_ready(&place, &rules), delete);
    assert!(matches!(result, Err(TrackError::Deleted { .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn conditions_are_waited_for() {
    let (_sandbox, cluster) = bare();
    let place = apply(&cluster, &config_map("a", "1")).await;
    let condition = wait::WaitCondition::parse("jsonpath={.data.a}=2").unwrap();
    let late =
        wait::wait_until(&cluster, &place, &condition, Some(Duration::from_secs(2))).await.unwrap_err();
    assert_eq!(late.class, ErrorClass::Timeout);
    assert!(late.message.contains("jsonpath={.data.a}=2 is not met after 2 s"), "{late}");
    let change = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        cluster.apply(&place, &config_map("a", "2"), &helm()).await.unwrap();
    };
    let (met, ()) = tokio::join!(wait::wait_until(&cluster, &place, &condition, None), change);
    assert_eq!(met.unwrap().unwrap()["data"]["a"], "2");
    let gone = wait::WaitCondition::parse("delete").unwrap();
    let delete = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.delete(&place, &DeleteOptions::default()).await.unwrap();
    };
    let (met, ()) = tokio::join!(wait::wait_until(&cluster, &place, &gone, None), delete);
    assert!(met.unwrap().is_none());
}

#[tokio::test]
async fn many_trackers_share_one_watch() {
    let world = world();
    let all = (0..10).map(|index| {
        let world = &world;
        async move {
            let mut manifest = workload("Deployment", &format!("web-{index}"), json!({}));
            let labels = json!({"app": format!("web-{index}")});
            manifest["spec"]["selector"]["matchLabels"] = labels.clone();
            manifest["spec"]["template"]["metadata"]["labels"] = labels;
            let place = apply(&world.cluster, &manifest).await;
            world.tracker.wait_ready(&place, &ReadyRules::default()).await.unwrap();
        }
    });
    soon(futures::future::join_all(all)).await;
    let calls = world.cluster.call_counts();
    // Deployments, replica sets, pods, events; perhaps begun anew once everything was ready for a moment.
    assert!(calls.count_of(RequestVerb::Watch) <= 8 && calls.count_of(RequestVerb::List) <= 8, "{calls}");
}
