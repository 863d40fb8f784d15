//! plan, diff, status, reports: scenarios 10, 22, 65 to 68 and 70.

use std::collections::BTreeSet;

use serde_json::json;
use slipway_runbook::plan::{self, Show, StepVerb};
use slipway_runbook::state::NodeStatus;
use slipway_runbook::{DiffStatus, RESUMED, junit};

use crate::world::{World, bad_step, map_step};

const CORPUS: &str = "  - {name: new, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}'}]}}
  - {name: old, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: old}, data: {a: b}}'}]}}
  - {name: there, apply: {skipIf: exists, manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}'}]}}
  - {name: gone, delete: {resource: configmap/none}}
  - {name: kill, delete: {resource: configmap/doomed}}
  - {name: tweak, patch: {target: configmap/old, patch: {data: {c: d}}}}
  - {name: hold, wait: {for: 'jsonpath={.metadata.uid}', on: configmap/old}}
  - {name: first, timeout: 60s, job: {image: i}}
  - {name: web, timeout: 60s, helm: {chart: ./app}}
  - {name: off, when: 'false', apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: off}}'}]}}
  - {name: again, rollout: {restart: deployment/d, namespace: default}}
";

async fn stocked() -> World {
    let world = World::new();
    world.chart("app", "a: 1\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n");
    for name in ["old", "doomed"] {
        world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y"}})).await;
    }
    world.put(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})).await;
    world
}

/// Scenario S-65 of the specification.
#[tokio::test]
async fn plan_says_what_apply_then_does_and_writes_nothing() {
    let world = stocked().await;
    let document = world.document("state: {}", CORPUS);
    let before = world.cluster.call_counts();
    let planned = plan::plan(&document, world.place(), Show::Differences, Some("ctx")).await.unwrap();
    let calls = world.cluster.call_counts().since(&before);
    assert_eq!(calls.write_count(), 0, "{calls}");
    for line in world.sent() {
        let reads = line.starts_with("GET");
        assert!(reads || line.contains("dryRun=All"), "{line}");
    }
    let verb = |name: &str| planned.step(name).unwrap().action().unwrap();
    for (name, expected) in [
        ("new", StepVerb::Create),
        ("old", StepVerb::Configure),
        ("there", StepVerb::Skip),
        ("gone", StepVerb::NoOp),
        ("kill", StepVerb::Delete),
        ("tweak", StepVerb::Configure),
        ("hold", StepVerb::NoOp),
        ("first", StepVerb::Run),
        ("web", StepVerb::Install),
        ("off", StepVerb::Skip),
        ("again", StepVerb::Restart),
    ] {
        assert_eq!(verb(name), expected, "{name}: {planned:#?}");
    }
    assert_eq!(
        planned.summary(),
        "1 install, 1 create, 2 configure, 1 delete, 1 restart, 1 run, 2 skip, 2 no-op"
    );
    assert_eq!(planned.step("old").unwrap().diff().unwrap().status, DiffStatus::Changed);
    assert!(
        planned.step("old").unwrap().diff().unwrap().text.as_ref().unwrap().contains("+  a: b"),
        "{planned:#?}"
    );
    // What it said is what happens.
    let report = world.try_apply(&document).await.unwrap();
    assert!(report.is_success(), "{report:#?}");
    for step in &report.steps {
        let said = planned.step(&step.name).unwrap();
        let left_out = said.when.as_ref().is_some_and(|when| !when.result);
        assert_eq!(left_out, step.skip_code == Some("when"), "{}", step.name);
        let did = step.note.as_deref().or(step.skip_reason.as_deref()).unwrap();
        let words: &[&str] = match said.action().unwrap() {
            StepVerb::Create => &["1 object applied"],
            StepVerb::Configure => &["1 object applied", "patched"],
            StepVerb::Skip => &["skipIf", "when condition is false"],
            StepVerb::NoOp => &["is not there", "holds on"],
            StepVerb::Delete => &["deleted"],
            StepVerb::Run => &["the job succeeded"],
            StepVerb::Install => &["installed revision 1"],
            StepVerb::Restart => &["restarted"],
            other => panic!("{other:?} of {}", step.name),
        };
        assert!(
            words.iter().any(|word| did.contains(word)),
            "{}: {:?} and then: {did}",
            step.name,
            said.seen
        );
    }
    for (name, exists) in [("new", true), ("old", true), ("doomed", false), ("off", false), ("app", true)] {
        assert_eq!(world.config_map(name).await.is_some(), exists, "{name}");
    }
    // And then everything is known to be done.
    let planned = plan::plan(&document, world.place(), Show::Actions, None).await.unwrap();
    for step in planned.steps.iter().filter(|step| step.name != "off") {
        assert!(step.resumed && step.detail() == Some(RESUMED), "{step:?}");
    }
}

/// Scenario S-65 of the specification.
#[tokio::test]
async fn what_comes_later_is_unknown_and_never_an_error() {
    let world = World::new();
    let steps = "  - {name: crd, apply: {manifests: [{inline: '{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.demo.io}, spec: {group: demo.io, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}'}]}}
  - {name: cr, needs: [crd], apply: {manifests: [{inline: '{apiVersion: demo.io/v1, kind: Thing, metadata: {name: t}}'}]}}
  - {name: ns, needs: [crd], apply: {namespace: later, createNamespace: true, manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}'}]}}
  - {name: p, needs: [cr], patch: {target: configmap/later, patch: {a: b}}}
  - {name: w, needs: [p], wait: {for: condition=Ready, on: things}}
";
    let planned =
        plan::plan(&world.document("", steps), world.place(), Show::Differences, None).await.unwrap();
    let step = |name: &str| planned.step(name).unwrap();
    assert_eq!(step("cr").action(), Some(StepVerb::Unknown));
    assert!(step("cr").detail().unwrap().contains("may arrive in an earlier step"));
    assert!(step("cr").diff().unwrap().text.as_ref().unwrap().contains("+kind: Thing"));
    assert_eq!((step("p").action(), step("w").action()), (Some(StepVerb::Unknown), Some(StepVerb::Wait)));
    assert!(
        step("ns").diff().unwrap().reason.as_ref().unwrap().contains("created earlier in this run"),
        "{planned:#?}"
    );
}

/// Scenario S-22 of the specification.
#[tokio::test]
async fn differences_show_no_secret() {
    let mut world = World::new();
    world.environment = vec![("KHOOK_SECRET_TOKEN".into(), "hunter2secret".into())];
    world.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": "before-value"}})).await;
    let steps = "  - {name: a, apply: {manifests: [{inline: '{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {token: ${TOKEN}}}'}]}}
  - {name: b, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {token: ${TOKEN}, enc: ${TOKEN|b64enc}}}'}]}}
";
    let planned =
        plan::plan(&world.document("", steps), world.place(), Show::Differences, None).await.unwrap();
    let text = serde_json::to_string(&planned).unwrap();
    for hidden in ["hunter2secret", "aHVudGVyMnNlY3JldA", "before-value", "YmVmb3JlLXZhbHVl"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert!(planned.has_changes());
}

/// Scenario S-66 of the specification.
#[tokio::test]
async fn reports_are_valid_whatever_happened() {
    let world = World::new();
    let steps = [map_step("a", ""), bad_step("b<&>", "").replace("b<&>", "b"), map_step("c", ", needs: [b]")]
        .concat();
    let report = world.apply(&steps).await;
    let value: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(value["status"], "failed");
    assert_eq!(value["steps"][1]["errorKind"], "notFound");
    assert_eq!(value["steps"][2]["skipCode"], "stopped");
    let xml = junit(&report);
    assert!(xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\""), "{xml}");
    assert!(xml.contains("<failure type=\"notFound\""), "{xml}");
    let names: BTreeSet<&str> = report.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names.len(), 3);
}

/// Scenario S-67 of the specification.
#[tokio::test]
async fn status_tells_what_the_next_run_leaves_out() {
    let world = World::new();
    let steps = [map_step("a", ""), map_step("b", ""), bad_step("c", ", needs: [a, b]")].concat();
    let document = world.document("state: {}", &steps);
    assert!(plan::status(&world.document("", &steps), world.place()).await.unwrap().is_none());
    let none = plan::status(&document, world.place()).await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(&none).unwrap(), json!({"found": false}));
    // A run that died knows nothing of the steps it had not ended.
    let dead = world.wire.clone();
    *world.wire.react.lock().unwrap() = Some(Box::new(move |line| {
        if line.starts_with("PUT") && line.contains("khook-state-demo") {
            dead.broken.cancel();
        }
    }));
    tokio::select! {
        biased;
        () = world.wire.broken.cancelled() => {}
        _ = world.try_apply(&document) => panic!("it was to die"),
    }
    *world.wire.react.lock().unwrap() = None;
    let crashed = plan::status(&document, world.place()).await.unwrap().unwrap().known.unwrap();
    assert_eq!(serde_json::to_value(&crashed.record).unwrap()["runStatus"], "running");
    assert_eq!(crashed.record.step("c").unwrap().status, None);
    world.try_apply(&document).await.unwrap();
    let status = plan::status(&document, world.place()).await.unwrap().unwrap();
    let known = status.known.unwrap();
    assert_eq!((known.spec_changed, known.resumable_steps.len()), (false, 2));
    assert_eq!(known.record.step("c").unwrap().status, Some(NodeStatus::Failed));
    let changed = world.document(
        "state: {}",
        &steps
            .replacen("key: \"1\"", "key: \"2\"", 1)
            .replace("name: b,", "name: bb,")
            .replace("[a, b]", "[a, bb]"),
    );
    let known = plan::status(&changed, world.place()).await.unwrap().unwrap().known.unwrap();
    assert!(known.spec_changed && known.resumable_steps.is_empty());
    assert_eq!(known.changed_steps, ["a"]);
}

#[tokio::test]
async fn only_and_rerun_choose_steps() {
    let mut world = World::new();
    let steps = [map_step("a", ""), map_step("b", ", needs: [a]"), map_step("c", "")].concat();
    world.options.only = vec!["b".into()];
    let report = world.apply_with("state: {}", &steps).await;
    let ran: Vec<&str> = report
        .steps
        .iter()
        .filter(|step| step.status == NodeStatus::Succeeded)
        .map(|step| step.name.as_str())
        .collect();
    assert_eq!(ran, ["a", "b"]);
    assert_eq!(report.step("c").unwrap().skip_code, Some("not-selected"));
    world.options.only.clear();
    world.options.rerun = vec!["a".into()];
    let report = world.apply_with("state: {}", &steps).await;
    let ran: Vec<&str> = report
        .steps
        .iter()
        .filter(|step| step.status == NodeStatus::Succeeded)
        .map(|step| step.name.as_str())
        .collect();
    assert_eq!(ran, ["a", "c"]);
    world.options.rerun = vec!["nope".into()];
    assert!(world.try_apply(&world.document("state: {}", &steps)).await.is_err());
    world.options.rerun.clear();
    world.options.resume = slipway_runbook::ResumePolicy::RunAll;
    let report = world.apply_with("state: {}", &steps).await;
    assert_eq!(report.count(NodeStatus::Succeeded), 3);
}

/// Scenario S-70 of the specification.
#[tokio::test]
async fn five_hundred_steps_are_read_and_planned() {
    // How fast, `cargo xtask bench runbook` measures.
    let world = World::new();
    let step = |index: usize| {
        let needs = if index == 0 { String::new() } else { format!(", needs: [s{}]", (index - 1) / 2) };
        map_step(&format!("s{index}"), &needs)
    };
    let steps: String = (0..500).map(step).collect();
    let document = world.document("", &steps);
    let planned = plan::offline(&document, &world.redactor).unwrap();
    assert_eq!(planned.steps.len(), 500);
}

#[tokio::test]
async fn destroy_is_planned_in_the_opposite_order() {
    let world = World::new();
    let steps = [
        map_step("a", ""),
        map_step("b", ", needs: [a]"),
        "  - {name: w, needs: [b], wait: {for: delete, on: configmap/none}}\n".to_owned(),
    ]
    .concat();
    world.apply(&steps).await;
    world.remove("v1", "ConfigMap", "default", "a").await;
    let planned =
        plan::plan_destroy(&world.document("", &steps), world.place(), &world.options).await.unwrap();
    let told: Vec<_> =
        planned.steps.iter().map(|step| (step.name.as_str(), step.action().unwrap())).collect();
    assert_eq!(told, [("w", StepVerb::Skip), ("b", StepVerb::Delete), ("a", StepVerb::NoOp)]);
}

#[tokio::test]
async fn a_plan_is_executed_as_it_was_made_and_verified_before() {
    use slipway_runbook::{Command, RunError, RunOptions, execute, plan_run};
    let world = World::new();
    let document = world.document("state: {}", &(map_step("a", "") + &map_step("b", "")));
    let options = RunOptions { only: vec!["a".to_owned()], ..RunOptions::default() };
    let plan = plan_run(&document, world.place(), Command::Apply, &options).await.unwrap();
    assert_eq!(plan.step("b").unwrap().detail(), Some("not selected (--only)"));
    assert!(
        world.record().await.is_none() && world.config_map("a").await.is_none(),
        "planning writes nothing"
    );
    plan.verify(&document, world.place()).await.unwrap();
    let report = execute(&document, &plan, world.place(), world.cancel.clone()).await.unwrap();
    assert!(report.is_success() && world.config_map("a").await.is_some(), "{report:?}");
    assert!(world.config_map("b").await.is_none(), "the plan left it out");
    // The record is another now, and so is a document with another step.
    let stale = plan.verify(&document, world.place()).await.unwrap_err();
    assert!(matches!(stale, RunError::Stale(_)), "{stale}");
    let plan = plan_run(&document, world.place(), Command::Apply, &options).await.unwrap();
    let other = world.document("state: {}", &map_step("c", ""));
    assert!(matches!(plan.verify(&other, world.place()).await, Err(RunError::Stale(_))));
}
