//! Every kind of step makes the calls of the specification's table, in that order and no others, and does
//! with every answer what the table of trouble says.

use serde_json::json;
use slipway_runbook::plan::{self, Show};
use slipway_runbook::{ErrorKind, RunReport};
use slipway_sandbox::{Fault, Rule};

use crate::world::{World, inline, map_step};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

async fn put_map(world: &World, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "x"}}, "data": {"key": "0"}});
    world.put(map).await;
}

async fn put_web(world: &World) {
    world.put(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})).await;
    world.sandbox.settle().await;
}

/// Runs a step and says which calls it made.
async fn calls(world: &World, steps: &str) -> Vec<String> {
    world.calls();
    let report = world.apply(steps).await;
    assert!(report.is_success(), "{steps}: {report:?}");
    world.calls()
}

#[tokio::test]
async fn apply_posts_then_patches() {
    let world = World::new();
    let step = |more: &str| {
        format!("  - {{name: a, timeout: 60s, apply: {{manifests: [{}]{more}}}}}\n", inline("a", "1"))
    };
    let post = format!("POST {MAPS}?fieldManager=khook");
    assert_eq!(calls(&world, &step("")).await, [post.as_str()]);
    let patch = format!("PATCH {MAPS}/a?fieldManager=khook merge-patch+json");
    assert_eq!(calls(&world, &step("")).await, [post.as_str(), &patch]);
    let apply = format!("PATCH {MAPS}/a?fieldManager=khook&force=true apply-patch+yaml");
    assert_eq!(calls(&world, &step(", serverSide: true")).await, [apply]);
    // The probe and the wait read the same object, so the reads stand as one.
    let get = format!("GET {MAPS}/a");
    assert_eq!(
        calls(&world, &step(", skipIf: exists, waitFor: 'jsonpath={.data.key}=1'")).await,
        [get.as_str()]
    );
    assert_eq!(
        calls(&world, &step(", waitFor: 'jsonpath={.data.key}=1'")).await,
        [post.as_str(), &patch, &get]
    );
    let made = calls(&world, &step(", namespace: shop, createNamespace: true")).await;
    assert_eq!(
        made,
        [
            "GET /api/v1/namespaces/shop",
            "POST /api/v1/namespaces?fieldManager=khook",
            "POST /api/v1/namespaces/shop/configmaps?fieldManager=khook",
        ]
    );
}

#[tokio::test]
async fn delete_says_what_becomes_of_dependents_and_looks_until_it_is_gone() {
    let world = World::new();
    let (get, delete) = (format!("GET {MAPS}/a"), format!("DELETE {MAPS}/a Background"));
    let one = [get.clone(), delete.clone(), get.clone()];
    put_map(&world, "a").await;
    assert_eq!(calls(&world, "  - {name: d, delete: {resource: configmap/a}}\n").await, one);
    assert_eq!(calls(&world, "  - {name: d, delete: {resource: configmap/a}}\n").await, [get.as_str()]);
    put_map(&world, "a").await;
    let manifests = format!("  - {{name: d, delete: {{manifests: [{}]}}}}\n", inline("a", "1"));
    assert_eq!(calls(&world, &manifests).await, one);
    // All are told to go before any is waited for.
    put_map(&world, "a").await;
    put_map(&world, "b").await;
    let set = calls(&world, "  - {name: d, delete: {resource: cm, selector: app=x}}\n").await;
    assert_eq!(
        set,
        [
            format!("GET {MAPS}?labelSelector=app=x"),
            delete,
            format!("DELETE {MAPS}/b Background"),
            get,
            format!("GET {MAPS}/b"),
        ]
    );
    world.put(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})).await;
    world.sandbox.settle().await;
    let job = calls(&world, "  - {name: d, timeout: 60s, delete: {resource: job/j}}\n").await;
    assert_eq!(
        job,
        [format!("GET {JOBS}/j"), format!("DELETE {JOBS}/j Foreground"), format!("GET {JOBS}/j")]
    );
}

#[tokio::test]
async fn patch_sends_one_request() {
    let world = World::new();
    put_map(&world, "a").await;
    for (step, how) in [
        ("patch: {data: {x: '1'}}", "strategic-merge-patch+json"),
        ("type: merge, patch: {data: {x: '2'}}", "merge-patch+json"),
        ("type: json, patch: [{op: add, path: /data/y, value: '1'}]", "json-patch+json"),
    ] {
        let made = calls(&world, &format!("  - {{name: p, patch: {{target: cm/a, {step}}}}}\n")).await;
        assert_eq!(made, [format!("PATCH {MAPS}/a?fieldManager=khook {how}")]);
    }
    let wide = "  - {name: p, patch: {target: ns/default, namespace: x, type: merge, patch: {metadata: {labels: {a: b}}}}}\n";
    let patch = "PATCH /api/v1/namespaces/default?fieldManager=khook merge-patch+json";
    assert_eq!(calls(&world, wide).await, [patch]);
}

#[tokio::test]
async fn wait_and_rollout_status_only_read() {
    let world = World::new();
    put_map(&world, "a").await;
    put_web(&world).await;
    for (step, read) in [
        ("wait: {for: 'jsonpath={.data.key}', on: configmap/a}", format!("GET {MAPS}/a")),
        (
            "wait: {for: 'jsonpath={.data.key}', on: cm, selector: app=x}",
            format!("GET {MAPS}?labelSelector=app=x"),
        ),
        (
            "wait: {for: delete, on: cm, allNamespaces: true, fieldSelector: metadata.name=none}",
            "GET /api/v1/configmaps?fieldSelector=metadata.name=none".to_owned(),
        ),
        (
            "wait: {for: 'jsonpath={.metadata.uid}', on: namespace/default}",
            "GET /api/v1/namespaces/default".to_owned(),
        ),
        ("rollout: {status: deployment/web, namespace: default}", format!("GET {WEB}")),
    ] {
        assert_eq!(
            calls(&world, &format!("  - {{name: w, timeout: 60s, {step}}}\n")).await,
            [read],
            "{step}"
        );
    }
}

#[tokio::test]
async fn rollout_restart_reads_and_patches() {
    let world = World::new();
    put_web(&world).await;
    let made = calls(&world, "  - {name: r, rollout: {restart: deployment/web, namespace: default}}\n").await;
    assert_eq!(
        made,
        [format!("GET {WEB}"), format!("PATCH {WEB}?fieldManager=khook strategic-merge-patch+json")]
    );
}

#[tokio::test]
async fn job_replaces_its_own_and_reads_the_words_of_one_that_failed() {
    let world = World::new();
    let step = "  - {name: j, timeout: 60s, job: {image: i}}\n";
    let (get, post) = (format!("GET {JOBS}/j"), format!("POST {JOBS}?fieldManager=khook"));
    assert_eq!(calls(&world, step).await, [get.as_str(), &post, &get]);
    let delete = format!("DELETE {JOBS}/j Foreground");
    assert_eq!(calls(&world, step).await, [get.as_str(), &delete, &get, &post, &get]);
    let skip = "  - {name: j, job: {image: i, skipIf: succeeded}}\n";
    assert_eq!(calls(&world, skip).await, [get.as_str()]);
    world
        .wire
        .pods
        .lock()
        .unwrap()
        .extend([("sim/fail".to_owned(), "true".to_owned()), ("sim/logs".to_owned(), "broken".to_owned())]);
    assert!(!world.apply(step).await.is_success());
    let made = world.calls();
    let pods = "GET /api/v1/namespaces/default/pods?labelSelector=batch.kubernetes.io/job-name=j";
    assert_eq!(made[..6], [get.as_str(), &delete, &get, &post, &get, pods]);
    assert_eq!(made.len(), 7, "{made:?}");
    assert!(made[6].starts_with("GET /api/v1/namespaces/default/pods/j-"), "{made:?}");
    assert!(made[6].ends_with("/log?container=j&limitBytes=65536&tailLines=20"), "{made:?}");
}

/// Calls of the release engine without its lock, its watches and its looks at pods.
fn of_the_release(calls: Vec<String>) -> Vec<String> {
    let own = |line: &String| {
        !line.contains("werf-synchronization")
            && !line.contains("coordination.k8s.io")
            && !line.contains("watch=")
            && !line.contains("/pods")
            && !line.contains("/events")
    };
    calls.into_iter().filter(own).collect()
}

#[tokio::test]
async fn helm_stores_a_revision_before_it_applies_and_marks_it_after() {
    let world = World::new();
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    world.chart("app", "", &format!("{}---\n{}", map("one"), map("two")));
    let step = "  - {name: app, timeout: 60s, helm: {chart: ./app}}\n";
    let writes = |made: &[String]| -> Vec<String> {
        // A plan is made with dry runs, which write nothing.
        made.iter().filter(|line| !line.starts_with("GET") && !line.contains("dryRun=All")).cloned().collect()
    };
    let installed = of_the_release(calls(&world, step).await);
    assert_eq!(installed[0], format!("GET {SECRETS}?labelSelector=name=app,owner=helm"), "{installed:#?}");
    for name in ["one", "two"] {
        assert!(installed.contains(&format!("GET {MAPS}/{name}")), "{installed:#?}");
    }
    let release = |line: &str| line.replace("sh.helm.release.v1.app.", "");
    let made: Vec<String> = writes(&installed).iter().map(|line| release(line)).collect();
    assert_eq!(
        made,
        [
            format!("POST {SECRETS}?fieldManager=helm"),
            format!("PATCH {MAPS}/one?fieldManager=helm&force=true apply-patch+yaml"),
            format!("PATCH {MAPS}/two?fieldManager=helm&force=true apply-patch+yaml"),
            format!("PUT {SECRETS}/v1?fieldManager=helm"),
        ]
    );
    // What the chart no longer has goes; the revision before is superseded.
    world.chart("app", "", &format!("{}data: {{a: b}}\n", map("one")));
    let upgraded = of_the_release(calls(&world, step).await);
    let made: Vec<String> = writes(&upgraded).iter().map(|line| release(line)).collect();
    assert_eq!(
        made,
        [
            format!("POST {SECRETS}?fieldManager=helm"),
            format!("PATCH {MAPS}/one?fieldManager=helm&force=true apply-patch+yaml"),
            format!("DELETE {MAPS}/two Foreground"),
            format!("PUT {SECRETS}/v1?fieldManager=helm"),
            format!("PUT {SECRETS}/v2?fieldManager=helm"),
        ],
        "{upgraded:#?}"
    );
    let deleted =
        of_the_release(calls(&world, "  - {name: d, timeout: 60s, delete: {release: app}}\n").await);
    let made: Vec<String> = writes(&deleted).iter().map(|line| release(line)).collect();
    assert_eq!(
        made,
        [
            format!("PUT {SECRETS}/v2?fieldManager=helm"),
            format!("DELETE {MAPS}/one Foreground"),
            format!("DELETE {SECRETS}/v1 Background"),
            format!("DELETE {SECRETS}/v2 Background"),
        ],
        "{deleted:#?}"
    );
}

#[tokio::test]
async fn the_record_is_read_once_posted_once_and_put_after_every_step() {
    let world = World::new();
    world.calls();
    let steps = [map_step("a", ""), map_step("b", ", needs: [a]")].concat();
    assert!(world.apply_with("state: {}", &steps).await.is_success());
    let record = |calls: Vec<String>| -> Vec<String> {
        calls.into_iter().filter(|line| line.contains("/secrets")).collect()
    };
    let (get, put) = (
        format!("GET {SECRETS}/khook-state-demo"),
        format!("PUT {SECRETS}/khook-state-demo?fieldManager=khook"),
    );
    let made = record(world.calls());
    assert_eq!(made[..2], [get.clone(), format!("POST {SECRETS}?fieldManager=khook")]);
    assert!(made[2..].iter().all(|line| *line == put) && made.len() > 2, "{made:?}");
    assert!(world.destroy_with("state: {}", &steps).await.is_success());
    let made = record(world.calls());
    assert_eq!(made.first(), Some(&get));
    assert_eq!(made.last().unwrap(), &format!("DELETE {SECRETS}/khook-state-demo Background"));
}

#[tokio::test]
async fn plan_and_diff_read_and_rehearse_only() {
    let world = World::new();
    put_map(&world, "a").await;
    put_web(&world).await;
    let steps = format!(
        "  - {{name: a, apply: {{manifests: [{}, {}]}}}}
  - {{name: s, apply: {{serverSide: true, manifests: [{}]}}}}
  - {{name: p, patch: {{target: cm/a, patch: {{data: {{z: '1'}}}}}}}}
  - {{name: d, delete: {{resource: cm/a}}}}
  - {{name: r, rollout: {{restart: deployment/web, namespace: default}}}}
  - {{name: j, job: {{image: i}}}}
",
        inline("a", "1"),
        inline("b", "1"),
        inline("a", "2")
    );
    for show in [Show::Actions, Show::Differences] {
        world.calls();
        plan::plan(&world.document("state: {}", &steps), world.place(), show, None).await.unwrap();
        let writes: Vec<String> = world.calls().into_iter().filter(|line| !line.starts_with("GET")).collect();
        assert!(writes.iter().all(|line| line.contains("dryRun=All")), "{writes:?}");
        let expected = if show == Show::Actions { 0 } else { 4 };
        assert_eq!(writes.len(), expected, "{writes:?}");
    }
}

/// What a step does with an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// It asks again within the attempt, and that goes well.
    AsksAgain,
    /// The attempt fails at once.
    Fails(ErrorKind),
}

fn judge(report: &RunReport) -> Then {
    let step = &report.steps[0];
    match step.error_kind {
        None => Then::AsksAgain,
        Some(kind) => Then::Fails(kind),
    }
}

#[tokio::test]
async fn trouble_with_every_call() {
    use ErrorKind::{Api, Forbidden};
    let apply = map_step("a", "");
    let waits = "  - {name: w, timeout: 60s, wait: {for: 'jsonpath={.data.key}', on: cm, selector: app=x}}\n";
    // The step, its call, and whether it looks again and again anyway.
    let steps: [(&str, &str, &str, bool); 7] = [
        (&apply, "POST", "configmaps", false),
        ("  - {name: p, patch: {target: cm/there, patch: {data: {x: y}}}}\n", "PATCH", "configmaps", false),
        ("  - {name: d, timeout: 60s, delete: {resource: cm/there}}\n", "DELETE", "configmaps", false),
        (waits, "GET", "configmaps", true),
        (
            "  - {name: r, rollout: {restart: deployment/web, namespace: default}}\n",
            "PATCH",
            "deployments",
            false,
        ),
        (
            "  - {name: s, timeout: 60s, rollout: {status: deployment/web, namespace: default}}\n",
            "GET",
            "deployments",
            true,
        ),
        ("  - {name: j, timeout: 60s, job: {image: i}}\n", "POST", "jobs", false),
    ];
    let troubles = [
        (Fault::ServerError(401), Then::Fails(Forbidden), Then::Fails(Forbidden)),
        (Fault::ServerError(403), Then::Fails(Forbidden), Then::Fails(Forbidden)),
        (Fault::ServerError(413), Then::Fails(Api), Then::Fails(Api)),
        (Fault::ServerError(422), Then::Fails(Api), Then::Fails(Api)),
        (Fault::TooManyRequests { retry_after: 0 }, Then::AsksAgain, Then::AsksAgain),
        (Fault::ServerError(503), Then::AsksAgain, Then::AsksAgain),
        (Fault::ServerError(504), Then::AsksAgain, Then::AsksAgain),
        (Fault::Reset, Then::AsksAgain, Then::AsksAgain),
    ];
    let mut wrong = Vec::new();
    for (step, method, resource, looks) in steps {
        for (fault, once, looking) in &troubles {
            let world = World::new();
            put_map(&world, "there").await;
            put_web(&world).await;
            let rule = Rule::new(fault.clone()).method(method).resource(resource).times(1);
            world.faults.add(rule);
            let found = judge(&world.apply(step).await);
            let expected = if looks { *looking } else { *once };
            if found != expected {
                wrong.push(format!("{method} {resource} {fault:?}: {found:?} instead of {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
