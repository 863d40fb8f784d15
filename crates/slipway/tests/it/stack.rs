//! `slipway stack` from the outside.

use crate::support::{Place, plain_git};

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

/// Everything that can be wrong with the files and the selectors of a stack, told at once and with its place.
#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    let place = Place::new();
    place
        .write(
            "stack.yaml",
            "name: s\ndefautls: {}\nreleases:\n- {name: a, chart: ./c, values: [missing.yaml], needs: [nobody]}\n\
             - {name: b, chart: ./c, needs: [far]}\n- {name: x, chart: ./c, needs: [y]}\n- {name: y, chart: ./c, needs: [x]}\n\
             - {name: dup, chart: ./c}\n- {name: dup, chart: ./c, namespace: other}\n- {name: gone, chart: ./not-there}\n",
        )
        .write("far/release.yaml", "name: far\nchart: ../c\ncluster: {name: elsewhere}\nvaules: [x]\n")
        .write("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n")
        .write("locked/release.yaml", "name: q\nchart: ../c\n")
        .write("loop/x", "");
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        symlink("release.yaml", place.path().join("loop/release.yaml")).unwrap();
        symlink("..", place.path().join("loop/up")).unwrap();
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(place.path().join("locked"), closed).unwrap();
    }
    let may_read_anything = std::fs::read_dir(place.path().join("locked")).is_ok();
    let args =
        ["stack", "plan", "--profile", "prdo", "--git-range", "no...where", "--release", "dup,nothing"];
    let ran = place.run(&args);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path().join("locked"), open).unwrap();
    }
    assert_eq!(ran.code, Some(10), "{}", ran.err);
    let mut expected = vec![
        ("unknown field \"defautls\" (did you mean \"defaults\"?)", "stack.yaml:2:1"),
        ("unknown field \"vaules\" (did you mean \"values\"?)", "far/release.yaml:4:1"),
        ("default/default/a: need \"nobody\" does not exist in this stack", "stack.yaml:4:"),
        (
            "default/default/b: need \"far\" lives in cluster elsewhere; needs cannot cross clusters",
            "stack.yaml:5:",
        ),
        ("needs form a cycle: default/default/x -> default/default/y -> default/default/x", "stack.yaml:6:3"),
        (
            "release name \"dup\" is ambiguous (default/default/dup, default/other/dup); write <namespace>/dup",
            "",
        ),
        ("no release named \"nothing\"", ""),
        ("unknown profile \"prdo\"", ""),
        ("--git-range requires a git work tree", ""),
        ("cannot read the file: too many levels of symbolic links", "loop/release.yaml"),
    ];
    if !may_read_anything {
        expected.push(("cannot read the directory: permission denied", "locked"));
    }
    for (message, at) in expected {
        let told = ran.err.find(message).unwrap_or_else(|| panic!("{message}\nis not in\n{}", ran.err));
        let place = ran.err[told..].lines().nth(1).unwrap_or_default();
        assert!(at.is_empty() || place.contains(&format!("--> {at}")), "{message}: {place}");
    }
    // The same for programs, and files that are missing once something is selected.
    let ran = place.run(&[&args[..], &["-o", "json"]].concat());
    let told: serde_json::Value = serde_json::from_str(ran.err.trim()).unwrap();
    assert!(told["error"]["problems"].as_array().is_some_and(|all| all.len() >= 10), "{told:#}");
    let ran = place.run(&["stack", "plan"]);
    for message in [
        "release default/default/a: values file \"missing.yaml\" not found (looked in ./, c/)",
        "release default/default/gone: chart \"./not-there\" not found",
    ] {
        assert!(ran.err.contains(message), "{message}\nis not in\n{}", ran.err);
    }
    place.write("stack.yaml", "name: s\n").write("far/release.yaml", "name: far\nchart: ../c\n");
    std::fs::remove_dir_all(place.path().join("loop")).unwrap();
    let git = plain_git().args(["init", "-q"]).current_dir(place.path()).status().unwrap();
    assert!(git.success());
    for (range, message) in [("no...where", "git range \"no...where\": "), ("--all", "git range \"--all\": ")]
    {
        let ran = place.run(&["stack", "plan", &format!("--git-range={range}")]);
        assert!(ran.code == Some(10) && ran.err.contains(message), "{range}: {}", ran.err);
    }
}

#[test]
fn an_unreadable_directory_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    let place = shop();
    let locked = place.path().join("db");
    let close = |mode| std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(mode)).unwrap();
    close(0o000);
    let plain = place.command(&["stack", "plan"]);
    // The superuser may read anything, unless it gives that up.
    let output = if std::fs::read_dir(&locked).is_ok() {
        let mut bound = Command::new("setpriv");
        bound
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(plain.get_program())
            .args(plain.get_args());
        bound.current_dir(place.path()).env("HOME", place.path()).output()
    } else {
        place.command(&["stack", "plan"]).output()
    };
    close(0o755);
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot read the directory: permission denied\n --> db\n"), "{text}");
    assert!(text.contains("hint: fix its permissions"), "{text}");
    assert_eq!(output.status.code(), Some(10));
}

#[test]
fn counts_that_mean_nothing_at_zero_are_usage_errors() {
    let place = shop();
    for args in [
        ["stack", "apply", "--concurrency", "0"],
        ["stack", "apply", "--concurrency-per-cluster", "0"],
        ["stack", "apply", "--retry", "0"],
        ["stack", "delete", "--concurrency", "-1"],
        ["stack", "runs", "--limit", "0"],
        ["graph", "g.yaml", "--run", "--concurrency=0"],
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_damaged_run_is_told_by_every_command_that_meets_it() {
    let place = shop();
    let run = "2026-11-16T01-02-03Z_0123456";
    place.write(&format!(".slipway/stack/runs/{run}/plan.json"), "{\"apiVersion\":");
    let at = format!("runs/{run}/plan.json:1:14");
    for (args, code) in [
        (["stack", "apply", "--resume"].as_slice(), 10),
        (&["stack", "status"], 10),
        (&["stack", "status", "--run-id", run], 10),
        (&["stack", "runs"], 0),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(&at) && ran.err.contains("is damaged: it ends too early"), "{}", ran.err);
        assert!(ran.err.contains("start a new run"), "{}", ran.err);
    }
}
