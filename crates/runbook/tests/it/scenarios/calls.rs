//! Every kind of step makes the calls of the specification's table, in that order and no others, and does
//! with every answer what the table of trouble says.

use serde_json::json;
use slipway_runbook::plan::{self, Show};
use slipway_runbook::{ErrorKind, RunReport};

use crate::world::{Answer, Reply, World, error, inline, map_step};

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
        // A plan is made with dry runs, and rights are asked for with a review: neither writes anything.
        let is_asked = |line: &str| line.contains("dryRun=All") || line.contains("/selfsubjectrulesreviews");
        made.iter().filter(|line| !line.starts_with("GET") && !is_asked(line)).cloned().collect()
    };
    let installed = of_the_release(calls(&world, step).await);
    assert_eq!(installed[0], format!("GET {SECRETS}?labelSelector=name=app,owner=helm"), "{installed:#?}");
    // The server says that it would create them: they need not be read.
    for name in ["one", "two"] {
        let tried = format!("PATCH {MAPS}/{name}?dryRun=All&fieldManager=helm&force=true apply-patch+yaml");
        assert!(installed.contains(&tried), "{installed:#?}");
        assert!(!installed.contains(&format!("GET {MAPS}/{name}")), "{installed:#?}");
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
            format!("PUT {SECRETS}/v2?fieldManager=helm"),
            format!("PUT {SECRETS}/v1?fieldManager=helm"),
        ],
        "{upgraded:#?}"
    );
    // What is as it should be is not sent again: only the revision is new.
    let again = of_the_release(calls(&world, step).await);
    let made: Vec<String> = writes(&again).iter().map(|line| release(line)).collect();
    let put = |revision: &str| format!("PUT {SECRETS}/{revision}?fieldManager=helm");
    assert_eq!(made, [format!("POST {SECRETS}?fieldManager=helm"), put("v3"), put("v2")], "{again:#?}");
    let deleted =
        of_the_release(calls(&world, "  - {name: d, timeout: 60s, delete: {release: app}}\n").await);
    let made: Vec<String> = writes(&deleted).iter().map(|line| release(line)).collect();
    assert_eq!(
        made,
        [
            put("v3"),
            format!("DELETE {MAPS}/one Foreground"),
            format!("DELETE {SECRETS}/v1 Background"),
            format!("DELETE {SECRETS}/v2 Background"),
            format!("DELETE {SECRETS}/v3 Background"),
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

/// The steps with their own call, and whether they look again and again anyway.
fn steps_and_calls() -> [(String, &'static str, &'static str, bool); 7] {
    let waits = "  - {name: w, timeout: 60s, wait: {for: 'jsonpath={.data.key}', on: cm, selector: app=x}}\n";
    [
        (map_step("a", ", timeout: 60s"), "POST", "configmaps", false),
        (
            "  - {name: p, patch: {target: cm/there, patch: {data: {x: y}}}}\n".into(),
            "PATCH",
            "configmaps",
            false,
        ),
        ("  - {name: d, timeout: 60s, delete: {resource: cm/there}}\n".into(), "DELETE", "configmaps", false),
        (waits.into(), "GET", "configmaps", true),
        (
            "  - {name: r, rollout: {restart: deployment/web, namespace: default}}\n".into(),
            "PATCH",
            "deployments",
            false,
        ),
        (
            "  - {name: s, timeout: 60s, rollout: {status: deployment/web, namespace: default}}\n".into(),
            "GET",
            "deployments",
            true,
        ),
        ("  - {name: j, timeout: 60s, job: {image: i}}\n".into(), "POST", "jobs", false),
    ]
}

fn refusal(code: u16, reason: &str, message: &str) -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    Reply::Body(code, status.to_string())
}

#[tokio::test]
async fn trouble_with_every_call() {
    use ErrorKind::{Api, Conflict, Forbidden, NotFound};
    use Then::{AsksAgain, Fails};
    let own = |name: &str, code: u16, reason: &str, message: &str, once, looking| {
        (name.to_owned(), refusal(code, reason, message), once, looking)
    };
    let webhook = "Internal error occurred: failed calling webhook \"v.example.com\": connection refused";
    let quota = "the object has been modified; please apply your changes to the latest version";
    let troubles = [
        own("401", 401, "Unauthorized", "Unauthorized", Fails(Forbidden), Fails(Forbidden)),
        own("403", 403, "Forbidden", "x is forbidden: no", Fails(Forbidden), Fails(Forbidden)),
        own("404", 404, "NotFound", "x \"there\" not found", Fails(NotFound), AsksAgain),
        own("409 conflict", 409, "Conflict", quota, Fails(Conflict), Fails(Conflict)),
        own("410", 410, "Expired", "too old resource version", Fails(Api), AsksAgain),
        own("413", 413, "RequestEntityTooLarge", "limit is 3145728", Fails(Api), Fails(Api)),
        own(
            "415",
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format",
            Fails(Api),
            Fails(Api),
        ),
        own("422", 422, "Invalid", "x is invalid", Fails(Api), Fails(Api)),
        own("429", 429, "TooManyRequests", "slow down", AsksAgain, AsksAgain),
        own("500 webhook", 500, "InternalError", webhook, AsksAgain, AsksAgain),
        own("502", 502, "", "", AsksAgain, AsksAgain),
        own("503", 503, "ServiceUnavailable", "no", AsksAgain, AsksAgain),
        own("504", 504, "Timeout", "no", AsksAgain, AsksAgain),
        ("refused".to_owned(), Reply::Refused, AsksAgain, AsksAgain),
        ("certificate".to_owned(), Reply::Untrusted, Fails(Api), Fails(Api)),
        (
            "cut off".to_owned(),
            Reply::Body(200, "{\"apiVersion\": \"v1\", \"ki".to_owned()),
            AsksAgain,
            AsksAgain,
        ),
    ];
    let mut wrong = Vec::new();
    for (step, method, resource, looks) in steps_and_calls() {
        for (name, what, once, looking) in &troubles {
            if (method, name.as_str()) == ("DELETE", "404") {
                continue; // That is what was wanted.
            }
            let world = World::new();
            put_map(&world, "there").await;
            if resource == "deployments" {
                put_web(&world).await;
            }
            let answer = Answer { method, part: format!("/{resource}"), times: 1, what: what.clone() };
            world.wire.answers.lock().unwrap().push(answer);
            let found = judge(&world.apply(&step).await);
            // Somebody else wrote at the same moment: a patch is sent again.
            let expected = match (method, name.as_str()) {
                ("PATCH", "409 conflict") => AsksAgain,
                _ if looks => *looking,
                _ => *once,
            };
            if found != expected {
                wrong.push(format!("{method} {resource} {name}: {found:?} instead of {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn trouble_is_told_with_what_to_do_about_it() {
    let apply = map_step("a", ", timeout: 60s");
    let job = "  - {name: a, timeout: 60s, job: {image: i}}\n".to_owned();
    let patch = |how: &str, body: &str| {
        format!("  - {{name: a, patch: {{target: cm/there, type: {how}, patch: {body}}}}}\n")
    };
    let gone = || {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "namespaces \"default\" not found", "details": {"name": "default", "kind": "namespaces"}});
        Reply::Body(404, status.to_string())
    };
    let immutable = "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    for (step, method, what, kind, told) in [
        (&apply, "POST", gone(), ErrorKind::NotFound, "createNamespace: true"),
        (&job, "POST", gone(), ErrorKind::NotFound, "createNamespace: true"),
        (&apply, "POST", refusal(401, "Unauthorized", "Unauthorized"), ErrorKind::Forbidden, "log in again"),
        (&apply, "POST", refusal(413, "", "limit is 3145728"), ErrorKind::Api, "split it"),
        (
            &apply,
            "POST",
            refusal(422, "Invalid", immutable),
            ErrorKind::Api,
            "delete the object in a step before",
        ),
        (&apply, "POST", Reply::Untrusted, ErrorKind::Api, "certificate-authority"),
        (
            &patch("strategic", "{a: b}"),
            "PATCH",
            refusal(415, "", "unsupported media type"),
            ErrorKind::Api,
            "type: merge",
        ),
        (
            &patch("merge", "{a: b}"),
            "PATCH",
            refusal(404, "NotFound", "configmaps \"there\" not found"),
            ErrorKind::NotFound,
            "must exist by the time this step runs",
        ),
        (
            &patch("json", "[{op: remove, path: /a}]"),
            "PATCH",
            refusal(422, "Invalid", "the server rejected our request due to an error in our request"),
            ErrorKind::Api,
            "when it is done again",
        ),
    ] {
        let world = World::new();
        put_map(&world, "there").await;
        world.wire.answers.lock().unwrap().push(Answer {
            method,
            part: "/namespaces/default/".into(),
            times: 1,
            what,
        });
        let report = world.apply(step).await;
        let said = error(&report, "a");
        assert_eq!(report.step("a").unwrap().error_kind, Some(kind), "{said}");
        assert!(said.contains(told), "{said}");
    }
    // Trouble that outlasts the step is told when its time is over.
    let webhook = "Internal error occurred: failed calling webhook \"v.example.com\": connection refused";
    for (what, told) in [
        (refusal(500, "InternalError", webhook), "hint: the webhook is not ready yet"),
        (refusal(503, "ServiceUnavailable", "the server is tired"), "the server is tired"),
        (Reply::Refused, "connection refused"),
    ] {
        let world = World::new();
        world.wire.answers.lock().unwrap().push(Answer {
            method: "POST",
            part: "/configmaps".into(),
            times: usize::MAX,
            what,
        });
        let report = world.apply(&map_step("a", ", timeout: 8s")).await;
        let said = error(&report, "a");
        assert_eq!(report.step("a").unwrap().error_kind, Some(ErrorKind::Timeout), "{said}");
        assert!(said.contains("timed out after 8s") && said.contains(told), "{said}");
        assert!(said.contains("create ConfigMap"), "{said}");
    }
}
