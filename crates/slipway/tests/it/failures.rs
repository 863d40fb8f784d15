//! Failures for programs: one object on standard error that keeps to its schema, whatever failed.

use serde_json::Value;

use crate::support::Place;

/// What fails: the words, the exit code, and the id and a part of the message of the object.
const FAILURES: &[(&[&str], i32, &str, &str)] = &[
    (&["frobnicate"], 64, "usage", "unrecognized subcommand"),
    (&["install", "web"], 64, "usage", "unrecognized subcommand"),
    (&["render", "--bogus"], 64, "usage", "--bogus"),
    (&["render"], 64, "usage", "required arguments"),
    (&["config", "--config", "missing.yaml"], 64, "usage", "cannot read the file"),
    (&["config", "--config", "wrong.yaml"], 64, "usage", "unknown key `colour`"),
    (&["render", "missing"], 10, "invalid", "no such file or directory"),
    (&["render", "broken"], 10, "invalid", "template"),
    (&["graph", "nodes.yaml"], 10, "invalid", "tmeout"),
    (&["list"], 1, "failed", "there is no kubeconfig"),
    (&["status", "web", "--kubeconfig", "missing"], 10, "invalid", "cannot read the kubeconfig"),
    (&["status", "web", "--kubeconfig", "wrong.yaml"], 1, "failed", "names no current context"),
    (&["stack", "plan"], 10, "ST001", "has no stack.yaml"),
    (&["stack", "plan", "--root", "stack"], 10, "invalid", "`releases` must be a list"),
    (&["stack", "plan", "--root", "fine", "--tag", "none"], 11, "ST032", "selection is empty"),
    (&["apply", "--plan", "stale.plan", "--sandbox"], 12, "stale", "revision"),
    (
        &["apply", "locked", "web", "--sandbox", "-n", "locked", "--timeout", "1s"],
        13,
        "locked",
        "another run",
    ),
    (&["stack", "delete", "--root", "fine", "--sandbox"], 14, "ST060", ""),
    (&["run", "plan", "nodes.yaml"], 64, "", ""),
    (&["unit", "inspect", "missing"], 10, "invalid", "cannot open"),
    (&["unit", "inspect", "nodes.yaml"], 10, "", ""),
    (&["apply", "web", "secret", "--set", "password=secret://local/ABSENT", "--sandbox"], 16, "", "ABSENT"),
    (&["apply", "web", "web", "--policy", "policy.yaml", "--sandbox"], 15, "", "never"),
    (&["rollback", "nobody", "--sandbox"], 1, "failed", "nobody"),
    (&["secrets", "test", "secret://"], 10, "", ""),
    (&["gate", "test", "nodes.yaml"], 10, "", ""),
    (&["pipeline", "validate", "-f", "nodes.yaml"], 10, "", ""),
    (&["package", "build", "missing"], 10, "KR002", "cannot read"),
    (&["kustomize", "edit", "set", "image", "a=b"], 10, "invalid", "there is no kustomization"),
];

/// The exit codes of the failures above.
pub(crate) fn codes() -> impl Iterator<Item = i32> {
    FAILURES.iter().map(|(_, code, ..)| *code)
}

pub(crate) fn furnished() -> Place {
    let place = Place::new();
    let chart = |name: &str| format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
    let object = |data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{a: {data}}}\n")
    };
    for (name, data) in
        [("web", "b"), ("secret", "{{ .Values.password | quote }}"), ("broken", "{{ .Values.a.b.c }")]
    {
        place.write(&format!("{name}/Chart.yaml"), chart(name));
        place.write(&format!("{name}/templates/a.yaml"), object(data));
    }
    place.write("secret/values.yaml", "password: none\n");
    place.write("nodes.yaml", "nodes:\n  web: {tmeout: 5m}\n");
    place.write("wrong.yaml", "colour: always\n");
    place.write("stack/stack.yaml", "name: shop\nreleases: 7\n");
    place.write("slipway.yaml", "secrets: {providers: {local: {type: file, path: dev.yaml}}}\n");
    place.write("dev.yaml", "present: value\n");
    place.write(
        "policy.yaml",
        "apiVersion: ktl.dev/policy/v1\nrules: [{id: few, cel: 'false', message: never}]\n",
    );
    place.write("fine/stack.yaml", "name: shop\nreleases: [{name: web, chart: ../web}]\n");
    place
}

/// Makes a plan that is stale, and a release that somebody else has locked.
fn trouble(place: &Place) {
    place.run(&["plan", "web", "web", "--sandbox", "--out", "stale.plan"]).ok();
    place.run(&["apply", "web", "web", "--sandbox"]).ok();
    let lease = serde_json::json!({
        "uuid": "somebody", "lockName": "release/locked", "ExpireAtTimestamp": 4_102_444_800_i64,
        "SharedHoldersCount": 1, "IsShared": false, "QueueMembers": {},
    });
    let key = slipway_cluster::lock::annotation_key("release/locked");
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "werf-synchronization", "annotations": {key: lease.to_string()}},
    });
    place.write("lock/a.yaml", object.to_string());
    place.run(&["apply", "lock", "lock", "--sandbox", "-n", "locked", "--force-adoption"]).ok();
}

/// Runs a command that fails and returns the object it says, after every other line.
fn failure_of(place: &Place, words: &[&str], form: &[&str]) -> (Option<i32>, String, Value) {
    let mut words = words.to_vec();
    words.extend(form);
    let ran = place.run(&words);
    let line = ran.err.lines().last().unwrap_or_default();
    let object = serde_json::from_str(line).unwrap_or_else(|_| Value::String(ran.err.clone()));
    (ran.code, ran.out, object)
}

#[test]
fn every_failure_is_an_object_for_programs() {
    let place = furnished();
    trouble(&place);
    let schema = place.run(&["reference", "failure-schema"]).ok();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("failure.json", serde_json::from_str(&schema).unwrap()).unwrap();
    let schema = compiler.compile("failure.json", &mut schemas).unwrap();
    let mut wrong = Vec::new();
    for (words, code, id, message) in FAILURES {
        let (ended, out, object) = failure_of(&place, words, &["-o", "json"]);
        let error = &object["error"];
        let (said_id, said) = (error["id"].as_str().unwrap_or("-"), error["message"].as_str().unwrap_or("-"));
        if ended != Some(*code)
            || error["exitCode"] != *code
            || !said_id.starts_with(id)
            || !said.contains(message)
        {
            wrong.push(format!("{words:?}: {ended:?} {object}"));
        }
        if !out.is_empty() {
            wrong.push(format!("{words:?} wrote data: {out}"));
        }
        if let Err(error) = schemas.validate(&object, schema) {
            wrong.push(format!("{words:?} breaks the schema: {error:#}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_failure_is_an_object_wherever_a_program_reads() {
    let place = furnished();
    for form in [
        &["-ojson"][..],
        &["--output=json"],
        &["-o", "yaml"],
        &["--log-format", "json"],
        &["--log-format=json"],
    ] {
        for words in [&["frobnicate"][..], &["render", "missing"]] {
            let (_, _, object) = failure_of(&place, words, form);
            assert!(object["error"]["message"].is_string(), "{words:?} {form:?}");
        }
    }
    let ran = Into::<crate::support::Ran>::into(
        place.command(&["frobnicate"]).env("SLIPWAY_OUTPUT", "json").output().unwrap(),
    );
    assert!(ran.err.starts_with("{\"error\":"), "{}", ran.err);
    assert!(place.run(&["frobnicate"]).err.starts_with("error: "));
}

#[test]
fn lint_tells_programs_what_it_found() {
    let place = furnished();
    let ran = place.run(&["lint", "web", "broken", "missing", "-o", "json"]);
    let reports: Value = serde_json::from_str(&ran.out).unwrap();
    let failure: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, &failure["error"]["id"]), (Some(10), &"invalid".into()));
    assert_eq!(reports[0]["chart"], "web");
    assert_eq!([0, 1, 2].map(|chart| reports[chart]["failed"].clone()), [false, true, true]);
    assert_eq!(reports[1]["findings"][0]["file"], "Chart.yaml");
    assert!(reports[2]["failure"].is_string());
}
