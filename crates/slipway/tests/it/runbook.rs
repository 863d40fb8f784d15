//! `slipway run`: runbooks, as far as they need no cluster.

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
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("is JSON");
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
