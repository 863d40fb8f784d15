//! The record and redaction: scenarios 22 to 25 and 59 to 64.

use std::time::Duration;

use serde_json::json;
use slipway_runbook::RESUMED;
use slipway_runbook::state::NodeStatus;
use slipway_sandbox::{Fault, FaultRule};

use crate::world::{World, bad_step, error, map_step, statuses};

/// Scenario S-59 of the specification.
#[tokio::test]
async fn a_run_that_failed_goes_on_where_it_was() {
    let world = World::new();
    let steps =
        |second: &str| [map_step("one", ""), second.to_owned(), map_step("three", ", needs: [two]")].concat();
    let report = world.apply_with("state: {}", &steps(&bad_step("two", ", needs: [one]"))).await;
    assert!(!report.is_success());
    let record = world.record().await.unwrap();
    assert_eq!(record["runStatus"], "failed");
    let kept: Vec<_> =
        record["steps"].as_array().unwrap().iter().map(|step| step["status"].clone()).collect();
    assert_eq!(kept, ["ok", "failed", "skipped"]);
    // Step one is believed even though its object is gone.
    world.remove("v1", "ConfigMap", "default", "one").await;
    let good = map_step("two", ", needs: [one]");
    let report = world.apply_with("state: {}", &steps(&good)).await;
    assert_eq!(statuses(&report), ["one skipped", "two ok", "three ok"]);
    assert_eq!(report.step("one").unwrap().skip_reason.as_deref(), Some(RESUMED));
    assert!(world.config_map("one").await.is_none());
    // Only what changed runs.
    let changed = steps(&good).replacen("key: \"1\"", "key: \"2\"", 1);
    let report = world.apply_with("state: {}", &changed).await;
    assert_eq!(statuses(&report), ["one ok", "two skipped", "three skipped"]);
    assert_eq!(report.state.as_ref().unwrap().resumed, 2);
}

/// Scenario S-60 of the specification.
#[tokio::test]
async fn what_counts_as_a_change() {
    let world = World::new();
    world.chart("app", "a: 1\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n");
    world.file("v.yaml", "a: 2\n");
    world.file("base/kustomization.yaml", "resources: [cm.yaml]\n");
    world.file("base/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kust}\n");
    world.file("over/kustomization.yaml", "resources: [../base]\n");
    world.file("real.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: linked}\n");
    std::os::unix::fs::symlink("real.yaml", world.dir.path().join("link.yaml")).unwrap();
    let steps = |more: &str| {
        format!(
            "  - {{name: h, helm: {{chart: ./app, valuesFrom: [{{file: v.yaml}}]}}{more}}}
  - {{name: k, apply: {{manifests: [{{kustomize: ./over}}]}}{more}}}
  - {{name: l, apply: {{manifests: [{{file: link.yaml}}]}}{more}}}
"
        )
    };
    assert!(world.apply_with("state: {}", &steps("")).await.is_success());
    // How it is written, and what is not input, does not matter.
    let report = world.apply_with("state: {}", &steps(", timeout: 99s, retries: 3")).await;
    assert_eq!(statuses(&report), ["h skipped", "k skipped", "l skipped"], "{report:?}");
    let report = world.apply_with("state: {}", &steps(", when: 'true', onError: continue")).await;
    assert_eq!(statuses(&report), ["h skipped", "k skipped", "l skipped"], "{report:?}");
    let report = world
        .apply_with(
            "state: {} # as before",
            &steps("").replacen("}}\n  - {name: l", "}, needs: [h]}\n  - {name: l", 1),
        )
        .await;
    assert_eq!(report.state.unwrap().resumed, 3);
    // One that was left out by its condition runs when it is wanted again.
    let off = steps("").replace("name: l,", "name: l, when: 'false',");
    assert_eq!(world.apply_with("state: {}", &off).await.step("l").unwrap().skip_code, Some("when"));
    assert!(world.record().await.unwrap()["steps"][2]["inputHash"].is_null());
    let report = world.apply_with("state: {}", &steps("")).await;
    assert_eq!(statuses(&report), ["h skipped", "k skipped", "l ok"], "{report:?}");
    for (file, text, runs) in [
        ("v.yaml", "a: 3\n", "h"),
        ("app/templates/all.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app2}\n", "h"),
        ("base/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kust2}\n", "k"),
        ("real.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: linked2}\n", "l"),
    ] {
        world.file(file, text);
        let report = world.apply_with("state: {}", &steps("")).await;
        let ran: Vec<&str> = report
            .steps
            .iter()
            .filter(|step| step.skip_code.is_none())
            .map(|step| step.name.as_str())
            .collect();
        assert_eq!(ran, [runs], "{file}: {report:?}");
    }
    // A renamed step is a new one; a file that cannot be read makes the step run and say so.
    let renamed = steps("").replace("name: l,", "name: renamed,");
    let report = world.apply_with("state: {}", &renamed).await;
    assert_eq!(statuses(&report), ["h skipped", "k skipped", "renamed ok"]);
    std::fs::remove_file(world.dir.path().join("v.yaml")).unwrap();
    let report = world.apply_with("state: {}", &renamed).await;
    assert!(error(&report, "h").contains("v.yaml"));
}

/// Scenario S-61 of the specification.
#[tokio::test]
async fn the_record_holds_no_secret() {
    let mut world = World::new();
    world.environment = vec![("KHOOK_SECRET_TOKEN".into(), "hunter2secret".into())];
    let steps = "  - {name: a, apply: {manifests: [{inline: '{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {token: ${TOKEN}, long: ${TOKEN|b64enc}}}'}]}}
  - {name: b, delete: {resource: 'configmap/${TOKEN}', ignoreNotFound: false}}
";
    let report = world.apply_with("state: {}", steps).await;
    assert!(!report.is_success());
    let record = world.record().await.unwrap().to_string();
    let shown = serde_json::to_string(&report).unwrap() + &world.said() + &record;
    for hidden in ["hunter2secret", "aHVudGVyMnNlY3JldA", "TOKEN"] {
        assert!(!record.contains(hidden), "{hidden}: {record}");
    }
    assert!(!shown.contains("hunter2secret") && !shown.contains("aHVudGVyMnNlY3JldA"), "{shown}");
    assert!(shown.contains("configmap/***"), "{shown}");
    // A long error is cut, and still holds no secret.
    let long = format!(
        "  - {{name: b, delete: {{resource: 'configmap/${{TOKEN}}{}', ignoreNotFound: false}}}}\n",
        "ä".repeat(3000)
    );
    assert!(!world.apply_with("state: {}", &long).await.is_success());
    let kept = world.record().await.unwrap()["steps"][0]["error"].as_str().unwrap().to_owned();
    assert!(kept.ends_with("…(truncated)") && kept.len() <= 2048 + "…(truncated)".len(), "{}", kept.len());
    assert!(!kept.contains("hunter2secret"));
    // The cluster got the value itself.
    let secret = world.get("v1", "Secret", "default", "s").await.unwrap();
    assert_eq!(secret["data"]["token"], "aHVudGVyMnNlY3JldA==");
}

/// Scenario S-22 of the specification.
#[tokio::test]
async fn job_logs_are_masked() {
    let mut world = World::new();
    world.environment = vec![("KHOOK_SECRET_TOKEN".into(), "hunter2secret".into())];
    world.wire.pods.lock().unwrap().extend([
        ("sim/fail".to_owned(), "true".to_owned()),
        ("sim/logs".to_owned(), "login with hunter2secret and aHVudGVyMnNlY3JldA==".to_owned()),
    ]);
    let report = world
        .apply_with("state: {}", "  - {name: j, timeout: 60s, job: {image: i, env: {T: '${TOKEN}'}}}\n")
        .await;
    let told = error(&report, "j");
    assert!(told.contains("login with ***"), "{told}");
    let all = told + &world.said() + &world.record().await.unwrap().to_string();
    assert!(!all.contains("hunter2secret") && !all.contains("aHVudGVyMnNlY3JldA"), "{all}");
}

/// Scenario S-23 of the specification.
#[tokio::test]
async fn short_secrets_leave_json_whole() {
    let mut world = World::new();
    world.environment = vec![("KHOOK_SECRET_A".into(), "ok".into()), ("KHOOK_SECRET_B".into(), "1".into())];
    let report = world.apply_with("state: {}", "  - {name: a, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: \"${A}\", b: \"${B}\"}}'}]}}\n").await;
    let text = serde_json::to_string(&report).unwrap();
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["steps"][0]["status"], "ok");
    assert_eq!(world.record().await.unwrap()["runStatus"], "ok");
}

/// Scenario S-24 of the specification.
#[tokio::test]
async fn both_values_of_a_secret_name_are_masked() {
    let mut world = World::new();
    world.environment = vec![("KHOOK_SECRET_TOKEN".into(), "old-secret-value".into())];
    world.set = vec!["TOKEN=new-secret-value".into()];
    let report = world.apply("  - {name: b, delete: {resource: 'configmap/${TOKEN}-old-secret-value', ignoreNotFound: false}}\n").await;
    let told = error(&report, "b");
    assert!(!told.contains("secret-value"), "{told}");
}

/// Scenario S-25 of the specification.
#[tokio::test]
async fn credentials_in_addresses_are_never_shown() {
    let world = World::new();
    let steps =
        "  - {name: h, helm: {chart: app, version: 1.0.0, repo: 'https://me:s3cretpass@charts.example'}}\n";
    let report = world.apply_with("state: {}", steps).await;
    let all =
        serde_json::to_string(&report).unwrap() + &world.said() + &world.record().await.unwrap().to_string();
    assert!(!report.is_success());
    assert!(!all.contains("s3cretpass"), "{all}");
}

/// Scenario S-62 of the specification.
#[tokio::test]
async fn records_that_cannot_be_used() {
    let world = World::new();
    let document = world.document("state: {}", &map_step("a", ""));
    let secret = |labels: serde_json::Value, record: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "khook-state-demo", "labels": labels}, "stringData": {"record.json": record}})
    };
    let ours = json!({"app.kubernetes.io/managed-by": "khook"});
    world.put(secret(json!({}), "{}")).await;
    let told = world.try_apply(&document).await.unwrap_err();
    assert!(told.to_string().contains("not managed by khook"), "{told}");
    assert!(world.config_map("a").await.is_none());
    world.remove("v1", "Secret", "default", "khook-state-demo").await;
    world.put(secret(ours.clone(), "{oops")).await;
    let slipway_runbook::RunError::State(told) = world.try_apply(&document).await.unwrap_err() else {
        panic!()
    };
    assert!(slipway_runbook::state::store_hint(&told).unwrap().contains("delete the Secret"), "{told}");
    world.remove("v1", "Secret", "default", "khook-state-demo").await;
    world.put(secret(ours, r#"{"apiVersion": "khook.io/state.v99"}"#)).await;
    assert!(world.try_apply(&document).await.unwrap().is_success());
    assert_eq!(world.record().await.unwrap()["apiVersion"], "khook.io/state.v1");
    let nowhere = world.document("state: {namespace: nowhere}", &map_step("b", ""));
    let slipway_runbook::RunError::State(told) = world.try_apply(&nowhere).await.unwrap_err() else {
        panic!()
    };
    assert!(slipway_runbook::state::store_hint(&told).unwrap().contains("state.namespace"), "{told}");
    assert!(world.config_map("b").await.is_none());
}

/// Scenario S-63 of the specification.
#[tokio::test]
async fn a_journal_that_cannot_be_written_fails_the_run() {
    let world = World::new();
    let faults = &world.faults;
    faults.add(FaultRule::new(Fault::ServerError(403)).method("PUT").path_contains("khook-state-demo"));
    let steps = [map_step("a", ""), map_step("b", ", needs: [a]")].concat();
    let report = world.apply_with("state: {}", &steps).await;
    assert_eq!(statuses(&report), ["a ok", "b ok"]);
    assert!(
        !report.is_success() && report.error.is_some() && !report.state.as_ref().unwrap().written,
        "{report:?}"
    );
    faults.clear();
    // One write that failed is enough, even if the last one tells everything.
    faults.add(
        FaultRule::new(Fault::ServerError(403))
            .method("PUT")
            .path_contains("khook-state-demo")
            .skip(1)
            .times(1),
    );
    let changed = steps.replace("key: \"1\"", "key: \"2\"");
    let report = world.apply_with("state: {}", &changed).await;
    assert!(!report.is_success() && report.state.as_ref().unwrap().written, "{report:?}");
    assert!(report.error.as_ref().unwrap().contains("while the run was under way"), "{report:?}");
    assert_eq!(world.record().await.unwrap()["runStatus"], "ok");
    faults.clear();
    // Somebody else writes in between: ours wins.
    let meddle = async {
        for turn in 0..20 {
            let mut secret = world.get("v1", "Secret", "default", "khook-state-demo").await.unwrap();
            secret["metadata"]["annotations"] = json!({"turn": turn.to_string()});
            secret["metadata"].as_object_mut().unwrap().remove("managedFields");
            let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
            let at = slipway_manifest::ObjectRef::of(&secret);
            let _ = cluster.replace(&at, &secret, &slipway_cluster::WriteOptions::default()).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let many: String = (0..15).map(|index| map_step(&format!("m{index}"), "")).collect();
    let document = world.document("state: {}", &many);
    let (report, ()) = tokio::join!(world.try_apply(&document), meddle);
    assert!(report.unwrap().is_success());
    let record = world.record().await.unwrap();
    assert!(record["steps"].as_array().unwrap().iter().all(|step| step["status"] == "ok"));
}

/// Scenario S-64 of the specification.
#[tokio::test]
async fn destroy_takes_the_record_last() {
    let world = World::new();
    let steps = [
        "  - {name: ns, apply: {namespace: made, createNamespace: true, manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}'}]}}\n".to_owned(),
        map_step("a", ", needs: [ns]"),
        "  - {name: p, needs: [a], patch: {target: configmap/a, patch: {data: {z: '1'}}}}\n".to_owned(),
        "  - {name: j, needs: [p], timeout: 60s, job: {image: i}}\n".to_owned(),
    ]
    .concat();
    assert!(world.apply_with("state: {}", &steps).await.is_success());
    // A teardown that fails keeps the record, and what it took away is known to be gone.
    world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["demo.io/hold"]}})).await;
    let impatient = steps.replace("name: a,", "name: a, timeout: 100ms,");
    let report = world.destroy_with("state: {}", &impatient).await;
    assert!(!report.is_success());
    assert_eq!(report.step("p").unwrap().skip_code, Some("not-reversible"));
    assert_eq!(report.step("j").unwrap().status, NodeStatus::Succeeded);
    let record = world.record().await.unwrap();
    let job = record["steps"].as_array().unwrap().iter().find(|step| step["name"] == "j").unwrap();
    assert!(job.get("status").is_none(), "{job}");
    let cluster = slipway_cluster::Cluster::new(world.sandbox.client());
    let at = slipway_manifest::ObjectRef::new(
        slipway_manifest::Gvk::new("", "v1", "ConfigMap"),
        Some("default"),
        "a",
    );
    let free = slipway_cluster::ObjectPatch::Merge(json!({"metadata": {"finalizers": null}}));
    cluster.patch(&at, &free, &slipway_cluster::WriteOptions::default(), None).await.unwrap();
    for _ in 0..2 {
        let report = world.destroy_with("state: {}", &steps).await;
        assert!(report.is_success(), "{report:?}");
        assert!(world.record().await.is_none());
    }
    assert!(world.get("v1", "Namespace", "", "made").await.is_some());
    assert!(world.get("v1", "ConfigMap", "made", "x").await.is_none());
}

#[tokio::test]
async fn resuming_500_steps_costs_one_read_and_no_write() {
    let world = World::new();
    let steps: String = (0..500).map(|index| map_step(&format!("s{index}"), "")).collect();
    let document = world.document("state: {}", &steps);
    assert!(world.try_apply(&document).await.unwrap().is_success());
    let (before, began) = (world.cluster.call_counts(), std::time::Instant::now());
    let report = world.try_apply(&document).await.unwrap();
    let calls = world.cluster.call_counts().since(&before);
    assert!(report.is_success() && report.state.unwrap().resumed == 500);
    assert_eq!(calls.to_string(), "1 call: get 1", "took {:?}", began.elapsed());
}

#[tokio::test]
async fn nothing_starts_once_the_run_is_canceled_while_the_record_is_written() {
    for during in ["POST", "PUT"] {
        let world = World::new();
        let cancel = world.cancel.clone();
        *world.wire.react.lock().unwrap() = Some(Box::new(move |line| {
            // The record is posted before the first step, and put after it.
            if line.starts_with(during) && line.contains("/secrets") {
                cancel.cancel();
            }
        }));
        let steps = [map_step("a", ""), map_step("b", ", needs: [a]")].concat();
        let report = world.apply_with("state: {}", &steps).await;
        assert!(report.canceled && !report.is_success(), "{report:?}");
        let a = if during == "POST" { "a skipped" } else { "a ok" };
        assert_eq!(statuses(&report), [a, "b skipped"], "{during}");
        assert_eq!(report.step("b").unwrap().skip_code, Some("canceled"));
        assert_eq!(report.step("b").unwrap().attempts, None);
        assert!(world.config_map("b").await.is_none());
        assert!(world.sent().iter().filter(|line| line.contains("configmaps")).count() < 2);
        let record = world.record().await.unwrap();
        assert_eq!(
            (&record["runStatus"], &record["steps"][1]["status"]),
            (&"failed".into(), &"skipped".into())
        );
        *world.wire.react.lock().unwrap() = None;
        let world = World { cancel: Default::default(), ..world };
        // The next run does what is left.
        let report = world.apply_with("state: {}", &steps).await;
        assert_eq!(statuses(&report), [if during == "POST" { "a ok" } else { "a skipped" }, "b ok"]);
    }
}

#[tokio::test]
async fn only_what_the_record_proves_counts_as_resumed() {
    let world = World::new();
    let steps = [map_step("a", ""), "  - {name: b, when: 'false', job: {image: i}}\n".to_owned()].concat();
    world.apply_with("state: {}", &steps).await;
    world.heard.drain();
    world.apply_with("state: {}", &steps).await;
    let totals = world.heard.drain().into_iter().find_map(|record| match record.event {
        slipway_event::Event::Summary { totals } => Some(totals),
        _ => None,
    });
    let totals = totals.expect("is summed up");
    assert_eq!((totals.resumed, totals.skipped, totals.succeeded), (1, 1, 0), "{totals:?}");
}

/// Lines of a release stand under its step's name, and the step's own end is told as well.
#[tokio::test]
async fn what_a_release_does_is_told_under_its_step() {
    use slipway_event::{Event, Scope};
    let world = World::new();
    world.chart("web", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
    let report = world.apply("  - {name: step, helm: {chart: ./web}}\n").await;
    assert!(report.is_success(), "{report:?}");
    let heard = world.heard.drain();
    let objects: Vec<_> = heard
        .iter()
        .filter_map(|record| match &record.event {
            Event::Object { .. } => Some(&record.scope),
            _ => None,
        })
        .collect();
    let step = vec![Scope::step("step")];
    assert!(!objects.is_empty() && objects.iter().all(|scope| **scope == step), "{objects:?}");
    let ended = |record: &slipway_event::Record| matches!(&record.event, Event::NodeFinished { node, .. } if node.id == "step");
    assert_eq!(heard.iter().filter(|record| ended(record)).count(), 1);
}
