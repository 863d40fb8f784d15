//! `slipway run`: runbooks, read without a cluster and run in the embedded one.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

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
  - {name: gate, needs: [web], timeout: 6s, wait: {for: 'jsonpath={.metadata.uid}', on: configmap/gate, namespace: shop}}
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
        diff.code == Some(2) && diff.out.contains("+++ planned/configmap/gate@shop"),
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

const BROKEN: [(&str, &str); 2] = [
    (
        "cycle",
        "steps:\n  - {name: a, needs: [b], job: {image: i}}\n  - {name: b, needs: [a], job: {image: i}}\n",
    ),
    ("itself", "steps:\n  - {name: a, needs: [a], job: {image: i}}\n"),
];
const HEAD: &str = "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: demo}\n";

/// Scenario S-10 of the specification.
#[test]
fn a_cycle_is_refused_before_any_request() {
    let place = Place::new();
    // A cluster that nobody could reach: whoever asks it first fails in another way.
    place.write("kubeconfig", DEAD);
    for (name, text) in BROKEN {
        place.write("f.yaml", format!("{HEAD}{text}"));
        for words in [
            &["validate"][..],
            &["plan"],
            &["plan", "--offline"],
            &["graph"],
            &["apply"],
            &["destroy", "-y"],
            &["status"],
            &["diff"],
        ] {
            let ran = place.run(&[&["run"], words, &["-f", "f.yaml", "--kubeconfig", "kubeconfig"]].concat());
            assert_eq!(ran.code, Some(64), "{name} {words:?}: {}", ran.err);
            assert!(ran.err.contains("E060") || ran.err.contains("E059"), "{name} {words:?}: {}", ran.err);
        }
    }
}

/// A cluster that is not there.
const DEAD: &str = "\
apiVersion: v1
kind: Config
current-context: dead
contexts: [{name: dead, context: {cluster: dead, user: dead}}]
clusters: [{name: dead, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: dead, user: {token: x}}]
";

/// Scenario S-15 of the specification.
#[test]
fn warnings_can_be_made_errors() {
    let place = Place::new();
    place.write("f.yaml", format!("{HEAD}steps: [{{name: a, delete: {{resource: pods}}}}]\n"));
    let ran = place.run(&["run", "validate", "-f", "f.yaml"]);
    assert!(ran.code == Some(0) && ran.err.contains("W003"), "{}", ran.err);
    assert_eq!(place.run(&["run", "validate", "-f", "f.yaml", "--warnings-as-errors"]).code, Some(64));
}

/// Scenario S-65 of the specification.
#[test]
fn plans_without_a_cluster_and_with_a_dead_one() {
    let place = Place::new();
    place.write("f.yaml", GOOD);
    assert_eq!(place.run(&["run", "plan", "--offline", "-f", "f.yaml"]).code, Some(0));
    place.write("kubeconfig", DEAD);
    // With a record, that is what is asked for first.
    place.write("kept.yaml", GOOD.replace("steps:", "state: {}\nsteps:"));
    for words in [&["plan"][..], &["diff"], &["status"]] {
        let ran = place.run(&[&["run"], words, &["-f", "kept.yaml", "--kubeconfig", "kubeconfig"]].concat());
        assert_eq!(ran.code, Some(1), "{words:?}: {}{}", ran.out, ran.err);
    }
    let ran = place.run(&["run", "plan", "-f", "f.yaml", "--kubeconfig", "kubeconfig"]);
    assert!(ran.err.contains("--offline"), "{}", ran.err);
}

/// Scenario S-68 of the specification.
#[test]
fn pictures_of_a_runbook() {
    let place = Place::new();
    let text = GOOD.replace("{name: demo}", "{name: 'my \"demo\"'}");
    place.write("f.yaml", text);
    let draw = |form: &str| place.run(&["run", "graph", "-f", "f.yaml", "--format", form]).ok();
    assert_eq!(
        draw("mermaid"),
        "flowchart TD\n  n0[\"gate (wait)\"]\n  n1[\"job (job, skipped)\"]:::skipped\n  n1 --> n0\n  classDef skipped stroke-dasharray: 4 4,color:gray\n"
    );
    assert_eq!(
        draw("dot"),
        "digraph \"my \\\"demo\\\"\" {\n  rankdir=TB;\n  node [shape=box];\n  \"gate\" [label=\"gate (wait)\"];\n  \"job\" [label=\"job (job, skipped)\", style=dashed, color=gray];\n  \"job\" -> \"gate\";\n}\n"
    );
    let value: Value = serde_json::from_str(&draw("json")).unwrap();
    assert_eq!(
        value,
        json!({
            "name": "my \"demo\"",
            "nodes": [
                {"id": "gate", "type": "wait", "level": 1, "skipped": false},
                {"id": "job", "type": "job", "level": 0, "skipped": true},
            ],
            "edges": [{"from": "job", "to": "gate"}],
            "levels": [["job"], ["gate"]],
        })
    );
}

/// Scenario S-69 of the specification.
#[test]
fn what_is_asked_for_wrongly() {
    let place = Place::new();
    place.write("f.yaml", GOOD);
    let file = ["-f", "f.yaml"];
    for words in [
        &["run", "validate"][..],
        &["run", "plan"],
        &["run", "nonsense"],
        &["run", "validate", "--nonsense", file[0], file[1]],
        &["run", "plan", "--diff", "--offline", file[0], file[1]],
        &["run", "validate", "-o", "nonsense", file[0], file[1]],
        &["run", "graph", "--format", "nonsense", file[0], file[1]],
        &["run", "apply", "--parallelism", "-1", file[0], file[1]],
        &["run", "apply", "--schedule", "nonsense", file[0], file[1]],
        &["run", "validate", "--set", "novalue", file[0], file[1]],
        &["run", "validate", "--set", "=x", file[0], file[1]],
        &["run", "validate", "--var-prefix", "", file[0], file[1]],
        &["run", "validate", "--var-prefix", "X_", "--secret-prefix", "X_", file[0], file[1]],
        &["run", "validate", "--var-file", "missing.yaml", file[0], file[1]],
        &["run", "validate", "-f", "missing.yaml"],
    ] {
        let ran = place.run(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(64), ""), "{words:?}: {}", ran.err);
        assert!(!ran.err.is_empty(), "{words:?}");
    }
    assert!(place.run(&["run", "validate", "-f", "missing.yaml"]).err.contains("E001"));
    place.write("binary.yaml", b"a: \xff");
    let ran = place.run(&["run", "validate", "-f", "binary.yaml"]);
    assert!(ran.code == Some(64) && ran.err.contains("E002"), "{}", ran.err);
}

/// Steps of which the last waits for what never comes.
const ENDLESS: &str = "\
apiVersion: khook.io/v1
kind: Khook
metadata: {name: demo}
state: {}
steps:
  - {name: first, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}'}]}}
  - {name: never, needs: [first], timeout: 10m, wait: {for: condition=Ready, on: configmap/never}}
  - {name: last, needs: [never], wait: {for: delete, on: pod/x}}
";

/// Scenarios S-33, S-34, S-66, S-67 of the specification.
#[test]
fn interrupted_once_and_twice() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    place.write("f.yaml", ENDLESS);
    let start = || {
        let words = ["run", "apply", "--sandbox", "-o", "json", "--junit", "j.xml", "-f", "f.yaml"];
        let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // It says what it waits for once it waits.
        let waits = lines.by_ref().map_while(Result::ok).any(|line| line.contains("never"));
        assert!(waits, "it ended before it waited");
        (child, lines)
    };
    let signal = |name: &str, id: &str| {
        assert!(Command::new("kill").args([&format!("-{name}"), id]).status().unwrap().success());
    };
    let (mut child, lines) = start();
    signal("INT", &child.id().to_string());
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).count());
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{out}");
    rest.join().unwrap();
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}"));
    assert_eq!((&report["status"], &report["canceled"]), (&"failed".into(), &true.into()), "{report:#}");
    assert_eq!(report["steps"][2]["skipCode"], "canceled");
    assert!(std::fs::read_to_string(place.path().join("j.xml")).unwrap().contains("<testsuite"));
    let status = place.run(&["run", "status", "--sandbox", "-f", "f.yaml"]).ok();
    assert!(status.contains("failed") && status.contains("1 step(s) will be left out"), "{status}");
    // The cluster stops answering, so the run cannot end well; the second interrupt does not wait for it.
    let sandbox: Value =
        serde_json::from_str(&place.run(&["sandbox", "status", "-o", "json"]).ok()).expect("is JSON");
    let sandbox = sandbox["pid"].to_string();
    let (mut child, mut lines) = start();
    signal("STOP", &sandbox);
    signal("INT", &child.id().to_string());
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.contains("stopping")));
    signal("INT", &child.id().to_string());
    let code = child.wait().unwrap().code();
    signal("CONT", &sandbox);
    assert_eq!(code, Some(130));
}

/// Scenario S-67 of the specification.
#[test]
fn status_of_steps_that_changed_or_are_gone() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    let map = |name: &str, value: &str| {
        format!(
            "  - {{name: {name}, apply: {{manifests: [{{inline: '{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: \"{value}\"}}}}'}}]}}}}\n"
        )
    };
    let write = |steps: &[String]| {
        place.write("f.yaml", format!("{HEAD}state: {{}}\nsteps:\n{}", steps.concat()));
    };
    let run = |words: &[&str]| place.run(&[&["run", "--sandbox", "-q"], words, &["-f", "f.yaml"]].concat());
    write(&[map("a", "1"), map("b", "1"), map("c", "1"), map("d", "1")]);
    run(&["apply", "--only", "a,b,c"]).ok();
    write(&[map("a", "1"), map("b", "2"), map("d", "1")]);
    let status = run(&["status"]).ok();
    let line = |name: &str| {
        status
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{status}"))
            .to_owned()
    };
    assert!(line("a").contains(" ok "), "{status}");
    assert!(line("b").contains("input changed — will re-run"), "{status}");
    assert!(line("c").contains("no longer in the spec"), "{status}");
    assert!(line("d").split_whitespace().any(|word| word == "-"), "{status}");
    assert!(status.contains("the runbook changed: 1 step(s) will still be left out"), "{status}");
    let value: Value = serde_json::from_str(&run(&["status", "-o", "json"]).ok()).unwrap();
    assert_eq!(
        (&value["found"], &value["specChanged"], &value["resumableSteps"], &value["changedSteps"]),
        (&true.into(), &true.into(), &json!(["a"]), &json!(["b"]))
    );
}

#[test]
fn a_rehearsed_runbook_says_what_it_could_not_try() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    let head = "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: demo}\nsteps:\n";
    let step = "  - {name: migrate, job: {image: 'example.com/migrate:1', namespace: default}}\n";
    place.write("f.yaml", format!("{head}{step}"));
    let ran = place.run(&["run", "apply", "--sandbox", "--rehearse", "-f", "f.yaml"]);
    let expected = "not rehearsed: whether the images can be pulled: example.com/migrate:1";
    assert!(ran.err.contains(expected), "{}{}", ran.out, ran.err);
    ran.ok();
}
