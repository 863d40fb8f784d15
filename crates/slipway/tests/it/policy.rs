//! `--policy` on releases and stacks: shown in plans, asked before anything is written.

use serde_json::Value;

use crate::sandbox::Down;
use crate::support::Place;

const DENY: &str = "apiVersion: ktl.dev/policy/v1
rules:
  - { id: pin, images: { requireDigest: true } }
  - { id: few, changes: { maxDestroy: 0 } }
";

/// A place with a sandbox and a chart `web` of a Deployment and a ConfigMap that can be left out.
fn furnished() -> Place {
    let place = Place::new();
    place
        .write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
        .write("web/values.yaml", "extra: true\nimage: nginx:1\n")
        .write(
            "web/templates/all.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
             selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    \
             spec: {containers: [{name: web, image: {{ .Values.image }}}]}\n\
             {{- if .Values.extra }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n{{- end }}\n",
        )
        .write("deny.yaml", DENY);
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place
}

fn release<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[command, "web", "web", "--sandbox", "-q", "-n", "shop"], more].concat()
}

#[test]
fn a_denied_release_is_shown_and_nothing_of_it_is_written() {
    let place = furnished();
    let _down = Down(&place);
    let policy = ["--policy", "deny.yaml"];

    let plan = place.run(&release("plan", &policy));
    assert_eq!(plan.code, Some(15), "{}", plan.err);
    assert!(plan.out.contains("POLICY   1 denied, 1 passed"), "{}", plan.out);
    let json = place.run(&release("plan", &["--policy", "deny.yaml", "-o", "json"]));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    let first = &json["policy"]["results"][0];
    assert_eq!(first["decision"], "deny");
    assert_eq!(first["code"], "image-without-digest");
    assert_eq!(first["subject"], "Deployment shop/web");
    assert_eq!(first["path"], "spec.template.spec.containers[0].image");

    for more in [&policy[..], &["--policy", "deny.yaml", "--rehearse"]] {
        let apply = place.run(&release("apply", more));
        assert_eq!(apply.code, Some(15), "{more:?}: {}", apply.err);
        assert!(apply.err.contains("rule `pin`: Deployment shop/web"), "{}", apply.err);
    }
    assert_eq!(place.run(&["list", "--sandbox", "-n", "shop", "-o", "json"]).ok(), "[]\n");

    // Without the policy it goes through; deleting is held against it again.
    place.run(&release("apply", &[])).ok();
    let shrunk = place.run(&release("apply", &["--policy", "deny.yaml", "--set", "extra=false"]));
    assert_eq!(shrunk.code, Some(15));
    assert!(shrunk.err.contains("1 objects are destroyed, at most 0 may be"), "{}", shrunk.err);
    let delete = place.run(&["delete", "web", "--sandbox", "-q", "-n", "shop", "--policy", "deny.yaml"]);
    assert_eq!(delete.code, Some(15), "{}", delete.err);
    assert!(place.run(&["list", "--sandbox", "-n", "shop"]).ok().contains("web"));

    // A policy that only warns lets it pass.
    place.write("warn.yaml", DENY.replace("rules:", "mode: warn\nrules:"));
    let warned = place.run(&["apply", "web", "web", "--sandbox", "-n", "shop", "--policy", "warn.yaml"]);
    assert_eq!(warned.code, Some(0), "{}", warned.err);
    assert!(warned.err.contains("has no digest"), "{}", warned.err);
}

#[test]
fn policies_are_read_before_anything_else_and_know_their_target() {
    let place = furnished();
    let _down = Down(&place);
    place.write(
        "wrong.yaml",
        "apiVersion: ktl.dev/policy/v1\nrules: [{ id: a, images: { requireDigst: true } }]\n",
    );
    let wrong = place.run(&release("apply", &["--policy", "wrong.yaml", "--policy", "missing.yaml"]));
    assert_eq!(wrong.code, Some(10), "{}", wrong.err);
    assert!(wrong.err.contains("did you mean `requireDigest`"), "{}", wrong.err);
    assert!(wrong.err.contains("missing.yaml"), "{}", wrong.err);

    place.write("prod.yaml", DENY.replace("rules:", "match: { envs: [prod] }\nrules:"));
    let code = |more: &[&str]| place.run(&release("plan", &[&["--policy", "prod.yaml"], more].concat())).code;
    assert_eq!(code(&[]), Some(15), "an unknown environment is no way around a policy");
    assert_eq!(code(&["--env", "prod"]), Some(15));
    assert_eq!(code(&["--env", "dev"]), Some(0));
}

#[test]
fn a_stack_is_held_against_policies_before_its_first_release_is_written() {
    let place = furnished();
    let _down = Down(&place);
    place
        .write("stack.yaml", "name: shop\ndefaults: {namespace: shop}\nprofiles: {prod: {}}\n")
        .write("a/release.yaml", "name: first\nchart: ../conf\n")
        .write("b/release.yaml", "name: second\nchart: ../web\nneeds: [first]\n")
        .write("conf/Chart.yaml", "apiVersion: v2\nname: conf\nversion: 1.0.0\n")
        .write("conf/templates/all.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n")
        .write("prod.yaml", DENY.replace("rules:", "match: { envs: [prod] }\nrules:"));
    let stack =
        |words: &[&str]| place.run(&[&["stack"], words, &["--sandbox", "--policy", "prod.yaml"]].concat());

    let plan = stack(&["plan", "--profile", "prod", "-o", "json"]);
    assert_eq!(plan.code, Some(15), "{}", plan.err);
    let json: Value = serde_json::from_str(&plan.out).unwrap();
    assert_eq!(json["changes"][1]["policy"]["results"][0]["rule"], "pin");

    let apply = stack(&["apply", "--yes", "--profile", "prod"]);
    assert_eq!(apply.code, Some(15), "{}", apply.err);
    assert!(apply.err.contains("default/shop/second: rule `pin`"), "{}", apply.err);
    assert_eq!(place.run(&["list", "--sandbox", "-n", "shop", "-o", "json"]).ok(), "[]\n");

    let apply = stack(&["apply", "--yes", "--env", "dev"]);
    assert_eq!(apply.code, Some(0), "{}", apply.err);
}
