//! wait, rollout, job: scenarios 54 to 58.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use slipway_cluster::RequestVerb;
use slipway_cluster::wait::WaitCondition;

use crate::world::{World, error};

/// Scenario S-54 of the specification.
#[tokio::test]
async fn what_is_not_there_yet_is_waited_for() {
    let world = World::new();
    let later = async {
        while world.wire.sent.lock().unwrap().iter().filter(|line| line.contains("/pods")).count() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        world.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await;
    };
    let steps = "  - {name: w, timeout: 60s, wait: {for: condition=Ready, on: pods, selector: app=x}}\n";
    let before = world.cluster.call_counts();
    let (report, ()) = tokio::join!(world.apply(steps), later);
    assert!(report.is_success(), "{report:?}");
    assert_eq!(world.cluster.call_counts().since(&before).write_count(), 0);
    // A kind that comes later, and one that never does.
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.demo.io"},
        "spec": {"group": "demo.io", "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let report = world.apply("  - {name: w, timeout: 5s, wait: {for: condition=Ready, on: gadgets}}\n").await;
    assert!(error(&report, "w").contains("serves no type `gadgets`"), "{report:?}");
    let later = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        world.put(crd).await;
        world.sandbox.settle().await;
        loop {
            let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
            if cluster
                .find_kind(&slipway_manifest::Gvk::new("demo.io", "v1", "Gadget"))
                .await
                .unwrap()
                .is_some()
            {
                break;
            }
        }
        world.put(json!({"apiVersion": "demo.io/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"on": true}})).await;
    };
    let steps = "  - {name: w, timeout: 60s, wait: {for: 'jsonpath={.spec.on}=true', on: gadget/g}}\n";
    let (report, ()) = tokio::join!(world.apply(steps), later);
    assert!(report.is_success(), "{report:?}");
}

/// An object with everything paths can lead to.
fn sample() -> serde_json::Value {
    json!({
        "metadata": {"annotations": {"a.b/c": "v"}},
        "quoted": [{"s": "a\"b", "n": 7}],
        "list": [{"n": 1, "s": "one", "t": {"deep": true}}, {"n": 2, "s": "two"}, {"n": 3, "s": "three", "flag": false}],
        "mixed": [1, "1", null, {"n": 2}, 2.5],
        "none": null, "empty": [], "hollow": {}, "text": "x", "blank": "", "zero": 0, "no": false, "half": 0.5,
        "map": {"k1": "v1", "k2": "v2"},
    })
}

/// Scenario S-55 of the specification.
#[test]
fn every_form_of_a_path() {
    let (sample, mut wrong) = (sample(), Vec::new());
    for (path, met) in [
        // Keys: there, missing, null, of the wrong type.
        ("{.text}=x", true),
        ("{.nope}", false),
        ("{.none}", false),
        ("{.text.deeper}", false),
        ("{.list.n}", false),
        ("text=x", true),
        (".text=x", true),
        ("{text}=x", true),
        ("{$.text}=x", true),
        ("{@.text}=x", true),
        ("{.text}='x'", true),
        ("{.text}=\"x\"", true),
        ("{.text}= x ", true),
        (r"{.metadata.annotations.a\.b/c}=v", true),
        ("{.metadata.annotations['a.b/c']}=v", true),
        ("{.metadata.annotations[\"a.b/c\"]}=v", true),
        ("{.metadata.annotations['nope']}", false),
        ("{.text['k']}", false),
        // Elements.
        ("{.list[0].s}=one", true),
        ("{.list[-1].s}=three", true),
        ("{.list[7].s}", false),
        ("{.list[-7].s}", false),
        ("{.empty[0]}", false),
        ("{.none[0]}", false),
        ("{.text[0]}", false),
        ("{.map[0]}", false),
        // Slices.
        ("{.list[0:2].s}=two", true),
        ("{.list[0:2].s}=three", false),
        ("{.list[1:].s}=three", true),
        ("{.list[:1].s}=two", false),
        ("{.list[0:9].s}=three", true),
        ("{.list[::2].s}=two", false),
        ("{.list[::2].s}=three", true),
        ("{.empty[0:1]}", false),
        ("{.none[0:1]}", false),
        ("{.text[0:1]}", false),
        // All of them.
        ("{.list[*].n}=2", true),
        ("{.list[*].n}=9", false),
        ("{.map.*}=v2", true),
        // Elements are those of a list, as in kubectl.
        ("{.map[*]}=v1", false),
        ("{.empty[*]}", false),
        ("{.hollow.*}", false),
        ("{.none[*]}", false),
        // Several.
        ("{.list[0,2].s}=three", true),
        ("{.list[0,2].s}=two", false),
        ("{.map['k1','k2']}=v2", true),
        ("{.map['k1','nope']}=v1", true),
        // At any depth.
        ("{..deep}=true", true),
        ("{..nope}", false),
        ("{..s}=two", true),
        // Filters: there, missing, null, of the wrong type.
        ("{.list[?(@.flag)].s}=three", true),
        ("{.list[?(@.t)].s}=one", true),
        ("{.list[?(@.nope)].s}", false),
        ("{.list[?(@.s==\"two\")].n}=2", true),
        ("{.list[?(@.s=='two')].n}=2", true),
        ("{.list[?(@.s == 'two')].n}=2", true),
        ("{.list[?(@.s!='two')].n}=2", false),
        ("{.list[?(@.n>1)].s}=one", false),
        ("{.list[?(@.n>=3)].s}=three", true),
        ("{.list[?(@.n<2)].s}=one", true),
        ("{.list[?(@.n<=1)].s}=two", false),
        ("{.list[?(@.flag==false)].s}=three", true),
        ("{.list[?(@.t.deep==true)].s}=one", true),
        ("{.list[?(@.n==\"1\")].s}", false),
        ("{.list[?(@.nope>1)].s}", false),
        (r#"{.quoted[?(@.s=="a\"b")].n}=7"#, true),
        ("{.mixed[?(@>1)]}=2.5", true),
        ("{.mixed[?(@.n==2)].n}=2", true),
        ("{.empty[?(@.n==1)]}", false),
        ("{.none[?(@.n==1)]}", false),
        ("{.text[?(@.n==1)]}", false),
        // What counts as a value.
        ("{.empty}", false),
        ("{.hollow}", false),
        ("{.blank}", false),
        ("{.zero}", true),
        ("{.zero}=0", true),
        ("{.no}", true),
        ("{.no}=false", true),
        ("{.half}=0.5", true),
        ("{.list}", true),
        ("{.list}=1", false),
        ("{.map}=v1", false),
    ] {
        match WaitCondition::parse(&format!("jsonpath={path}")) {
            Ok(until) if until.is_met(Some(&sample)) == met && !until.is_met(None) => {}
            Ok(_) => wrong.push(format!("{path} is {}", if met { "not met" } else { "met" })),
            Err(error) => wrong.push(format!("{path}: {}", error.message)),
        }
    }
    for path in [
        "{range .list[*]}",
        "{.list[?(@.n==1 && @.s=='one')]}",
        "{.list[?(@.s=~'o.*')]}",
        "{.a}{.b}",
        "{.a}b",
        "{.a",
        "{}",
        "",
        "{.a}=",
        "a{b}",
        ".list[?(@.s==\"two\")].n=2",
        "{.list[}",
        "{.list[abc]}",
    ] {
        if WaitCondition::parse(&format!("jsonpath={path}")).is_ok() {
            wrong.push(format!("{path} is taken for a path"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scenario S-55 of the specification.
#[tokio::test]
async fn a_path_that_leads_nowhere_yet_is_waited_for() {
    let world = World::new();
    let widget = |ingress: serde_json::Value| json!({"apiVersion": "demo.io/v1", "kind": "Gadget", "metadata": {"name": "g"}, "status": {"loadBalancer": {"ingress": ingress}}});
    world.put(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.demo.io"},
        "spec": {"group": "demo.io", "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})).await;
    world.sandbox.settle().await;
    world.put(widget(json!([]))).await;
    let steps = "  - {name: w, timeout: 60s, wait: {for: 'jsonpath={.status.loadBalancer.ingress[0].ip}', on: gadget/g}}\n";
    let later = async {
        while world.wire.sent.lock().unwrap().iter().filter(|line| line.contains("/gadgets/g")).count() < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        world.put(widget(json!([{"ip": "10.0.0.1"}]))).await;
    };
    let (report, ()) = tokio::join!(world.apply(steps), later);
    assert!(report.is_success(), "{report:?}");
}

/// Scenario S-56 of the specification.
#[tokio::test]
async fn nothing_to_wait_for_is_gone_already() {
    let world = World::new();
    for on in ["configmap/none", "cm, selector: app=none", "nokind"] {
        let report = world.apply(&format!("  - {{name: w, wait: {{for: delete, on: {on}}}}}\n")).await;
        assert!(report.is_success(), "{on}: {report:?}");
    }
}

fn workload(kind: &str, more: serde_json::Value, annotations: serde_json::Value) -> serde_json::Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}, "annotations": annotations}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// Scenario S-57 of the specification.
#[tokio::test]
async fn rollouts() {
    let world = World::new();
    let status = |kind: &str| {
        format!("  - {{name: r, timeout: 60s, rollout: {{status: {kind}/w, namespace: default}}}}\n")
    };
    world.put(workload("Deployment", json!({"replicas": 2}), json!({}))).await;
    assert!(world.apply(&status("deployment")).await.is_success());
    let before = world.cluster.call_counts();
    let restart = "  - {name: r, rollout: {restart: deployment/w, namespace: default}}\n";
    assert!(world.apply(restart).await.is_success());
    let calls = world.cluster.call_counts().since(&before);
    assert_eq!(
        (calls.count_of(RequestVerb::Patch), calls.count_of(RequestVerb::Get), calls.write_count()),
        (1, 1, 1),
        "{calls}"
    );
    let live = world.get("apps/v1", "Deployment", "default", "w").await.unwrap();
    let first =
        live["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].clone();
    assert!(first.is_string());
    // Twice within a second restarts twice.
    assert!(world.apply(restart).await.is_success());
    let live = world.get("apps/v1", "Deployment", "default", "w").await.unwrap();
    assert_ne!(
        live["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"],
        first
    );
    world.put(workload("Deployment", json!({"replicas": 2, "paused": true}), json!({}))).await;
    assert!(error(&world.apply(restart).await, "r").contains("paused"));
    assert!(
        error(
            &world.apply("  - {name: r, rollout: {restart: daemonset/none, namespace: default}}\n").await,
            "r"
        )
        .contains("does not exist")
    );
    world.put(workload("StatefulSet", json!({"replicas": 3, "serviceName": "w", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}), json!({}))).await;
    assert!(world.apply(&status("statefulset")).await.is_success());
    world.put(workload("DaemonSet", json!({"updateStrategy": {"type": "OnDelete"}}), json!({}))).await;
    assert!(error(&world.apply(&status("daemonset")).await, "r").contains("OnDelete"));
    world.remove("apps/v1", "DaemonSet", "default", "w").await;
    // Not there yet is waited for.
    let later = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.put(workload("DaemonSet", json!({}), json!({}))).await;
    };
    let steps = status("daemonset");
    let (report, ()) = tokio::join!(world.apply(&steps), later);
    assert!(report.is_success(), "{report:?}");
}

/// Scenario S-57 of the specification.
#[tokio::test]
async fn a_rollout_that_is_stuck_ends_early() {
    let world = World::new();
    world
        .put(workload("Deployment", json!({"progressDeadlineSeconds": 1}), json!({"sim/fail": "imagepull"})))
        .await;
    world.sandbox.settle().await;
    world.sandbox.advance(Duration::from_secs(30)).await;
    let report = world
        .apply("  - {name: r, timeout: 60s, rollout: {status: deployment/w, namespace: default}}\n")
        .await;
    assert!(error(&report, "r").contains("ProgressDeadlineExceeded"), "{report:?}");
}

/// Scenario S-58 of the specification.
#[tokio::test]
async fn jobs_succeed_fail_and_tell_why() {
    let world = World::new();
    let steps = "  - {name: j, timeout: 60s, job: {image: i, command: [sh], args: ['-c', 'true'], env: {B: '2', A: '1'}}}\n";
    let before = world.cluster.call_counts();
    let report = world.apply(steps).await;
    assert!(report.is_success(), "{report:?}");
    let calls = world.cluster.call_counts().since(&before);
    assert_eq!(
        (calls.count_of(RequestVerb::Create), calls.count_of(RequestVerb::Delete), calls.write_count()),
        (1, 0, 1),
        "{calls}"
    );
    let job = world.get("batch/v1", "Job", "default", "j").await.unwrap();
    assert_eq!(job["metadata"]["labels"]["app.kubernetes.io/managed-by"], "khook");
    assert_eq!(job["spec"]["backoffLimit"], 0);
    let deadline = job["spec"]["activeDeadlineSeconds"].as_i64().unwrap();
    assert!((1..=60).contains(&deadline));
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
    // Run again it is replaced; with skipIf it is not.
    let report = world.apply(steps).await;
    assert!(report.is_success());
    let again = world.get("batch/v1", "Job", "default", "j").await.unwrap();
    assert_ne!(again["metadata"]["uid"], job["metadata"]["uid"]);
    let before = world.cluster.call_counts();
    let report = world.apply("  - {name: j, job: {image: i, skipIf: succeeded}}\n").await;
    assert!(report.is_success() && report.step("j").unwrap().note.as_ref().unwrap().contains("skipIf"));
    assert_eq!(world.cluster.call_counts().since(&before).write_count(), 0);
    // A failure shows the last lines of the right container.
    *world.wire.pods.lock().unwrap() = BTreeMap::from([
        ("sim/fail".to_owned(), "true".to_owned()),
        ("sim/exit-code".to_owned(), "3".to_owned()),
        ("sim/logs".to_owned(), "line one\nit broke badly".to_owned()),
    ]);
    let report = world.apply(steps).await;
    let told = error(&report, "j");
    assert!(told.contains("job \"j\" failed") && told.contains("it broke badly"), "{told}");
    assert!(world.sent().iter().any(|line| line.contains("container=j") && line.contains("tailLines=20")));
    // Somebody puts another container into the pod; of many lines the last 20 are told.
    let lines: Vec<String> = (1..=30).map(|line| format!("line {line:02}")).collect();
    world.wire.pods.lock().unwrap().insert("sim/logs".to_owned(), lines.join("\n"));
    world.wire.sidecar.store(true, std::sync::atomic::Ordering::SeqCst);
    let told = error(&world.apply(steps).await, "j");
    let shown: Vec<&str> = told.lines().filter(|line| line.contains("| line")).collect();
    assert_eq!((shown.len(), shown.first().map(|line| line.trim())), (20, Some("| line 11")), "{told}");
    world.wire.sidecar.store(false, std::sync::atomic::Ordering::SeqCst);
    // skipIf does not spare one that failed.
    world.wire.pods.lock().unwrap().clear();
    assert!(
        world.apply("  - {name: j, timeout: 60s, job: {image: i, skipIf: succeeded}}\n").await.is_success()
    );
    // An image that cannot be pulled is named when time runs out.
    world.wire.pods.lock().unwrap().insert("sim/fail".to_owned(), "imagepull".to_owned());
    let report = world.apply("  - {name: j, timeout: 8s, job: {image: i}}\n").await;
    let told = error(&report, "j");
    assert!(told.contains("Pull") || told.contains("pull"), "{told}");
}

/// Scenario S-58 of the specification.
#[tokio::test]
async fn a_job_of_somebody_else_is_left_alone() {
    let world = World::new();
    world.put(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})).await;
    let uid = world.get("batch/v1", "Job", "default", "j").await.unwrap()["metadata"]["uid"].clone();
    let steps = "  - {name: j, job: {image: i}}\n";
    let report = world.apply(steps).await;
    assert!(error(&report, "j").contains("not managed by khook"));
    assert_eq!(report.step("j").unwrap().error_kind, Some(slipway_runbook::ErrorKind::Ownership));
    let report = world.destroy_with("", steps).await;
    assert!(error(&report, "j").contains("not managed by khook"));
    assert_eq!(world.get("batch/v1", "Job", "default", "j").await.unwrap()["metadata"]["uid"], uid);
}
