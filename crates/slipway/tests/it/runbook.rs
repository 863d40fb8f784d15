//! `slipway run`: runbooks, read without a cluster and run in the embedded one.

use serde_json::Value;

use crate::sandbox::Down;
use crate::support::{Place, Ran};

const GOOD: &str = "\
apiVersion: khook.io/v1
kind: Khook
metadata: {name: demo}
steps:
  - {name: gate, needs: [job], wait: {for: delete, on: pods, selector: a=b}}
  - {name: job, when: 'vars.get(\"RUN\", \"n\") == \"y\"', job: {image: '${IMAGE:-busybox}'}}
";

#[test]
fn a_valid_runbook() {
    let place = Place::new();
    place.write("f.yaml", GOOD);
    let ran = place.run(&["run", "validate", "-f", "f.yaml"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "f.yaml: valid (2 steps)\n"), "{}", ran.err);
    let ran = place.run(&["run", "graph", "-f", "f.yaml"]);
    assert!(ran.out.contains("job (job, skipped)") && ran.out.contains("gate (wait)"), "{}", ran.out);
    let ran = place.run(&["run", "schema"]);
    assert!(ran.out.contains("https://khook.io/schema/v1/khook.json"));
}

#[test]
fn a_runbook_full_of_mistakes() {
    let place = Place::new();
    place.write(
        "f.yaml",
        "apiVersion: khook.io/v1\nkind: Hook\nmetadata: {name: ${WHO}}\nsteps:\n- {name: a, jbo: 1}\n",
    );
    let ran = place.run(&["run", "validate", "-f", "f.yaml"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
    for expected in ["f.yaml:2:7", "E021", "f.yaml:3:18", "E100", "f.yaml:5:", "E055", "E007", "hint:"] {
        assert!(ran.err.contains(expected), "{expected} in\n{}", ran.err);
    }
    let ran = place.run(&["run", "validate", "-f", "f.yaml", "-o", "json"]);
    let value: Value = serde_json::from_str(&ran.out).expect("is JSON");
    assert_eq!(ran.code, Some(64));
    assert_eq!(value["errors"].as_array().map(Vec::len), Some(4), "{value:#}");
    assert_eq!(value["errors"][0]["path"], "kind");
}

#[test]
fn secrets_are_never_shown() {
    let place = Place::new();
    place.write("f.yaml", "apiVersion: khook.io/v1\nkind: ${TOKEN}\nmetadata: {name: x}\nsteps: [{name: a, timeout: '${TOKEN|upper}', job: {image: x}}]\n");
    let mut command = place.command(&["run", "validate", "-f", "f.yaml"]);
    let ran = Ran::from(command.env("KHOOK_SECRET_TOKEN", "hunter2secret").output().expect("runs"));
    let all = format!("{}{}", ran.out, ran.err).to_lowercase();
    assert_eq!(ran.code, Some(64));
    assert!(!all.contains("hunter2secret"), "{all}");
}

const RUN: &str = "\
apiVersion: khook.io/v1
kind: Khook
metadata: {name: demo}
state: {}
steps:
  - {name: maps, apply: {namespace: shop, createNamespace: true, manifests: [{file: maps.yaml}]}}
  - {name: web, needs: [maps], helm: {chart: ./web, namespace: shop, wait: true}}
  - {name: gate, needs: [web], timeout: 500ms, wait: {for: 'jsonpath={.metadata.uid}', on: configmap/gate, namespace: shop}}
";

#[test]
fn a_runbook_is_planned_run_resumed_and_destroyed() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    place.write("books/f.yaml", RUN);
    place.write("books/maps.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n");
    place.write("books/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    place.write("books/web/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
    let run =
        |words: &[&str]| place.run(&[&["run", "--sandbox", "-q"], words, &["-f", "books/f.yaml"]].concat());

    // Flags that exclude each other, a runbook without a record, no cluster at all.
    assert_eq!(run(&["plan", "--offline", "--diff"]).code, Some(64));
    place.write("plain.yaml", GOOD);
    assert_eq!(place.run(&["run", "status", "--sandbox", "-f", "plain.yaml"]).code, Some(64));
    let offline = place.run(&["run", "plan", "--offline", "-f", "plain.yaml"]);
    assert!(offline.ok().contains("plan: skip — when condition is false"));

    let plan = run(&["plan"]).ok();
    for expected in [
        "demo: 3 step(s) in 3 level(s)",
        "plan: create — configmap/one@shop",
        "plan: install — no release yet",
        "plan: wait",
        "Plan: 1 install, 1 create, 1 wait",
    ] {
        assert!(plan.contains(expected), "{expected} in\n{plan}");
    }
    assert!(run(&["status"]).ok().contains("no record yet"));
    let found: Value = serde_json::from_str(&run(&["status", "-o", "json"]).ok()).expect("is JSON");
    assert_eq!(found, serde_json::json!({"found": false}));

    let ran = run(&["apply", "--junit", "junit.xml", "--report", "report.json", "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    assert_eq!(
        (ran.code, &report["status"], &report["steps"][2]["errorKind"]),
        (Some(1), &"failed".into(), &"timeout".into()),
        "{report:#}"
    );
    let kept: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(kept, report);
    assert!(std::fs::read_to_string(place.path().join("junit.xml")).unwrap().contains("failures=\"1\""));
    let status = run(&["status"]).ok();
    assert!(status.contains("2 step(s) will be left out") && status.contains("timed out"), "{status}");

    // Rehearsed first, the gate is missing there too, and nothing is done.
    let ran = run(&["apply", "--rehearse"]);
    assert!(ran.code == Some(1) && ran.err.contains("rehearsal: step \"gate\""), "{}{}", ran.out, ran.err);
    place.write("books/maps.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: gate}\n");
    let diff = run(&["diff", "--exit-code"]);
    assert!(
        diff.code == Some(3) && diff.out.contains("+++ planned/configmap/gate@shop"),
        "{}{}",
        diff.out,
        diff.err
    );
    let ran = run(&["apply", "--rehearse"]);
    assert!(ran.err.contains("rehearsed on a copy of"), "{}{}", ran.out, ran.err);
    let table = ran.ok();
    for expected in [
        "STEP",
        "maps",
        "unchanged since it succeeded in a previous run (state record)",
        "run ok: 2 ok, 1 skipped",
    ] {
        assert!(table.contains(expected), "{expected} in\n{table}");
    }
    assert!(run(&["destroy", "--dry-run"]).ok().contains("plan: delete — release web@shop"));
    assert!(run(&["destroy"]).ok().contains("run ok: 2 ok, 1 skipped"));
    assert!(run(&["destroy"]).ok().contains("nothing was there"));
    assert!(run(&["status"]).ok().contains("no record yet"));
}
