//! Policy files: every mistake with its place, files of directories, the schema editors use.

use std::path::PathBuf;

use serde_json::Value;
use slipway_policy::{PolicySet, policy_schema};

use crate::load;

const COMPLETE: &str = r#"apiVersion: ktl.dev/policy/v1
mode: enforce
match: { envs: [prod], clusters: ["prod-*"], namespaces: ["*"] }
rules:
  - { id: kinds, forbidKinds: [ClusterRoleBinding, "*.admissionregistration.k8s.io"] }
  - { id: scope, clusterScoped: deny }
  - { id: pin, images: { requireDigest: true, registries: ["registry.acme.dev/*"], forbidTags: [latest] } }
  - { id: blast, changes: { maxDestroy: 3, forbidDestroyKinds: [PersistentVolumeClaim, Namespace], forbidReplace: true } }
  - { id: secrets, secrets: { approvedProviders: [vault-prod] } }
  - { id: proof, unit: { requireSignedBy: ["ed25519:ab"], requireVerifiedIn: [staging], maxAge: 14d, requireCleanGit: true } }
  - { id: window, time: { allow: ["Mon-Thu 08:00-17:00 Europe/Berlin"] } }
  - { id: limits, workloads: { requireResources: true, forbidPrivileged: true, minReplicas: 2 } }
  - { id: custom, cel: "object.kind != 'Job' || has(object.spec.ttlSecondsAfterFinished)", message: "jobs need a TTL" }
exceptions: [ { rule: scope, object: "ClusterRole//reader", until: 2026-12-31, reason: "moved in autumn" } ]
"#;

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let text = r#"apiVersion: ktl.dev/policy/v2
mode: enfroce
macth: {}
match: { env: [prod], clusters: [1] }
rules:
  - { id: kinds, forbidKind: [Job] }
  - { id: kinds, forbidKinds: [] }
  - { id: both, clusterScoped: deny, cel: "true" }
  - { id: scope, clusterScoped: forbid }
  - { id: pin, images: {} }
  - { id: blast, changes: { maxDestroy: -1 } }
  - { id: proof, unit: { requireSignedBy: [rsa], maxAge: 2 weeks } }
  - { id: window, time: { allow: ["Mon-Thu 8-17", "Mon 08:00-17:00 Europe/Atlantis"] } }
  - { id: custom, cel: "object.kind ==" }
  - { id: typed, cel: "size(changes)" }
  - { id: typo, cel: "objekt.kind == 'Job'" }
  - { id: spoken, clusterScoped: deny, message: no }
exceptions:
  - { rule: scop, object: "ClusterRole/reader", until: never }
"#;
    let problems = load(text).expect_err("is wrong").to_string();
    let found: Vec<&str> = problems.lines().filter(|line| line.starts_with("policy.yaml:")).collect();
    let expected = [
        "policy.yaml:1:13: unknown apiVersion `ktl.dev/policy/v2`",
        "policy.yaml:2:7: `mode` must be `enforce` or `warn`, not `enfroce`",
        "policy.yaml:3:1: unknown key `macth`",
        "policy.yaml:4:10: unknown key `env`",
        "policy.yaml:4:34: `clusters` has an item that is no pattern",
        "policy.yaml:6:5: the rule `kinds` checks nothing",
        "policy.yaml:6:18: unknown key `forbidKind`",
        "policy.yaml:7:11: there are two rules `kinds`",
        "policy.yaml:7:31: `forbidKinds` is empty",
        "policy.yaml:8:43: the rule `both` has `clusterScoped` and `cel`",
        "policy.yaml:9:33: `clusterScoped` must be `deny`, not `forbid`",
        "policy.yaml:10:24: the check has no setting",
        "policy.yaml:11:41: `maxDestroy` must be a whole number from 0, not an integer",
        "policy.yaml:12:44: `rsa` is no key",
        "policy.yaml:12:58: `2 weeks` is not a duration",
        "policy.yaml:13:35: `Mon-Thu 8-17` has hours that are none",
        "policy.yaml:13:51: `Mon 08:00-17:00 Europe/Atlantis` has a time zone that is not known here",
        "policy.yaml:14:24: expression, ",
        "policy.yaml:15:23: expression, ",
        "policy.yaml:16:22: expression, ",
        "policy.yaml:17:49: `message` is for rules with `cel`",
        "policy.yaml:19:5: missing key `reason`",
        "policy.yaml:19:13: there is no rule `scop`",
        "policy.yaml:19:27: `ClusterRole/reader` names no objects",
        "policy.yaml:19:56: `never` is not a day",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\nexpected {expected}\n\n{problems}");
    }
    assert_eq!(found.len(), expected.len(), "{problems}");
    for hint in
        ["did you mean `match`", "did you mean `envs`", "did you mean `forbidKinds`", "did you mean `scope`"]
    {
        assert!(problems.contains(hint), "{hint}: {problems}");
    }
}

#[test]
fn files_without_a_policy_are_reported() {
    for text in ["", "# nothing\n", "---\n"] {
        let problems = load(text).expect_err("is empty").to_string();
        assert!(problems.contains("there is no policy in this file"), "{problems}");
    }
    let problems = load("apiVersion: ktl.dev/policy/v1\nrules: []\n").expect_err("says nothing").to_string();
    assert!(problems.contains("policy.yaml:2:8: `rules` is empty"), "{problems}");
    let problems = load("[1, 2").expect_err("is no YAML").to_string();
    assert!(problems.starts_with("policy.yaml:2:1: invalid YAML"), "{problems}");
    let problems = load("just text").expect_err("is no mapping").to_string();
    assert!(problems.contains("expected a mapping"), "{problems}");
}

#[test]
fn directories_are_read_in_order_and_problems_of_all_files_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("writes");
    let rule =
        |id: &str| format!("apiVersion: ktl.dev/policy/v1\nrules: [{{ id: {id}, clusterScoped: deny }}]\n");
    write("b.yml", &rule("b"));
    write("a.yaml", &format!("{}---\n{}", rule("a1"), rule("a2")));
    write("notes.txt", "not a policy");
    let set =
        PolicySet::load(&[directory.path().to_owned(), directory.path().join("b.yml")]).expect("is right");
    let names: Vec<&str> = set.sources().iter().map(|source| source.name.as_str()).collect();
    assert!(names[0].ends_with("a.yaml") && names[1].ends_with("b.yml") && names.len() == 2, "{names:?}");
    let report = crate::Plan::default().evaluate(&set);
    let rules: Vec<&str> = report.results.iter().map(|result| result.rule.as_str()).collect();
    assert_eq!(rules, ["a1", "a2", "b"]);

    write("c.yaml", "apiVersion: 1\n");
    let missing = PathBuf::from("does-not-exist.yaml");
    let empty = tempfile::tempdir().expect("a directory");
    let problems = PolicySet::load(&[directory.path().to_owned(), missing, empty.path().to_owned()])
        .expect_err("is wrong");
    let text = problems.to_string();
    for part in ["c.yaml:1:13", "does-not-exist.yaml: cannot be read", "there is no policy in this directory"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_schema_takes_what_the_reader_takes() {
    load(COMPLETE).expect("is right");
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("policy.json", policy_schema()).expect("adds");
    let schema = compiler.compile("policy.json", &mut schemas).expect("is a schema");
    let complete: Value = slipway_yaml::parse_one(COMPLETE, "policy.yaml").expect("is YAML").to_json();
    if let Err(error) = schemas.validate(&complete, schema) {
        panic!("{error:#}");
    }
    for (pointer, value) in [
        ("/mode", serde_json::json!("off")),
        ("/rules/1/clusterScoped", serde_json::json!("allow")),
        ("/rules/3/changes/maxDestroy", serde_json::json!(-1)),
        ("/exceptions/0", serde_json::json!({"rule": "scope"})),
        ("/rules/2/images", serde_json::json!({"digest": true})),
    ] {
        let mut wrong = complete.clone();
        *wrong.pointer_mut(pointer).expect("is there") = value;
        assert!(schemas.validate(&wrong, schema).is_err(), "{pointer}");
    }
}
