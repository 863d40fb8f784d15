//! `slipway stack` from the outside.

use crate::support::Place;

fn shop() -> Place {
    let place = Place::new();
    place
        .write("stack.yaml", "name: shop\ndefaults: {namespace: shop, tags: [all]}\nprofiles: {prod: {defaults: {namespace: prod}}}\n")
        .write("db/release.yaml", "name: db\nchart: ./chart\n")
        .write("web/release.yaml", "name: web\nchart: ../db/chart\nneeds: [db]\nset: {image.tag: \"1\"}\n")
        .write("db/chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n");
    place
}

#[test]
fn plan_shows_waves_and_reasons() {
    let place = shop();
    let out = place.run(&["stack", "--release", "web", "--include-deps"]).ok();
    let out = out.replace(&place.path().canonicalize().unwrap().display().to_string(), "/repo");
    assert_eq!(
        out,
        "STACK shop   PROFILE -   ROOT /repo   CLUSTERS default   RELEASES 2 (initial 1, expanded 1)\n\n\
         CLUSTER default\n  WAVE 0\n    default/shop/db    db/chart   PLANNED   expand:dep-of:default/shop/web\n  \
         WAVE 1\n    default/shop/web   db/chart   PLANNED   explicit:release:web\n\n\
         SELECTED BY  expand:dep-of 1   explicit:release 1\n"
    );
    let json: serde_json::Value =
        serde_json::from_str(&place.run(&["stack", "plan", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["apiVersion"], "ktl.dev/stack-plan/v1");
    assert_eq!(json["order"], serde_json::json!(["default/shop/db", "default/shop/web"]));
    let external = place.run(&["stack", "plan", "--release", "web"]).ok();
    assert!(external.contains("NEEDS (external) default/shop/db"), "{external}");
}

#[test]
fn explain_and_graph_tell_the_same_story() {
    let place = shop();
    let out = place.run(&["stack", "explain", "web", "namespace", "--profile", "prod"]).ok();
    assert_eq!(
        out,
        "default/prod/web declared at web/release.yaml:1:1\n\
         FIELD      VALUE  FROM                   AT\n\
         namespace  prod   profile prod           stack.yaml:3:41\n\
         namespace  shop   defaults (overridden)  stack.yaml:2:23\n"
    );
    let out = place.run(&["stack", "graph", "--release", "web"]).ok();
    assert!(out.contains("\"default/shop/db\" -> \"default/shop/web\" [style=dashed];"), "{out}");
    assert!(place.run(&["stack", "graph", "--format", "mermaid"]).ok().starts_with("flowchart LR\n"));
}

#[test]
fn mistakes_have_codes_of_their_own() {
    let place = shop();
    for (args, code, text) in [
        (vec!["stack", "plan", "--profile", "qa"], 10, "unknown profile \"qa\" (known: prod)"),
        (vec!["stack", "plan", "--tag", "none"], 11, "selection is empty"),
        (vec!["stack", "plan", "--tag", "none", "--allow-empty"], 0, "selection is empty"),
        (vec!["stack", "explain", "wbe"], 10, "no release named \"wbe\""),
        (vec!["stack", "status"], 10, "there are no runs of this stack"),
        (vec!["stack", "plan", "--root", "db"], 10, "has no stack.yaml"),
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
    }
    let ran = place.run(&["stack", "plan", "-o", "json", "--profile", "qa"]);
    let error: serde_json::Value = serde_json::from_str(ran.err.trim()).unwrap();
    assert_eq!(error["error"]["id"], "ST010");
    assert_eq!(place.run(&["stack", "runs", "-o", "json"]).ok(), "[]\n");
}
