//! Everything that can be wrong with a stack, at once and with its place.

use slipway_stack::{Git, Profile, Request, Selector, compile};

use crate::support::Place;
use crate::support::SpecifiedExit as _;

#[test]
fn every_problem_is_reported_at_once() {
    let place = Place::new(&[
        (
            "stack.yaml",
            "name: s\ndefautls: {}\nreleases:\n- {name: a, chart: ./c, values: [missing.yaml], needs: [nobody]}\n- {name: b, chart: ./c, needs: [far]}\n- {name: x, chart: ./c, needs: [y]}\n- {name: y, chart: ./c, needs: [x]}\n- {chart: ./c}\n- {name: gone, chart: ./not-there}\n",
        ),
        ("far/release.yaml", "name: far\nchart: ../c\ncluster: {name: elsewhere}\napply: {timeout: 10}\n"),
        (
            "twice/stack.yaml",
            "name: inner\nreleases:\n- {name: dup, chart: ../c}\n- {name: dup, chart: ../c, namespace: other}\n",
        ),
        ("both/release.yaml", "name: q\nchart: ../c\n"),
        ("both/release.yml", "name: q\nchart: ../c\n"),
        ("syntax/release.yaml", "name: [\n"),
        ("defaults/stack.yaml", "defaults: {needs: [a], chart: x}\n"),
        ("multi/release.yaml", "name: m\nchart: ../c\n---\nname: n\n"),
        ("kind/release.yaml", "apiVersion: ktl.dev/v1\nkind: Stack\nname: k\nchart: ../c\n"),
    ]);
    place.chart("c");
    std::fs::create_dir_all(place.path().join("loop")).unwrap();
    std::os::unix::fs::symlink("release.yaml", place.path().join("loop/release.yaml")).unwrap();
    std::os::unix::fs::symlink("..", place.path().join("loop/up")).unwrap();
    std::fs::create_dir_all(place.path().join("folder/stack.yaml")).unwrap();
    let selector = Selector {
        releases: vec!["dup".into(), "nothing".into()],
        from_paths: vec!["serivces".into(), ".".into()],
        git_range: Some("a...b".into()),
        ..Selector::default()
    };
    let request = Request { selector, profile: Profile::Named("prdo".into()), ..place.request() };
    let error = compile(&request, &Git::default()).unwrap_err();
    assert_eq!(error.exit_code(), 10);
    let text = error.to_string().replace(&format!("{}/", place.path().display()), "");
    for expected in [
        "stack.yaml:2:1: unknown field \"defautls\" (did you mean \"defaults\"?) [ST002]",
        "need \"nobody\" does not exist in this stack [ST020]",
        "need \"far\" lives in cluster elsewhere; needs cannot cross clusters [ST021]",
        "needs form a cycle: default/default/x -> default/default/y -> default/default/x [ST023]",
        "stack.yaml:8:3: releases[4] has no name [ST004]",
        "release default/default/gone: chart \"./not-there\" not found [ST014]",
        "release default/default/a: values file \"missing.yaml\" not found (looked in ./, c/) [ST013]",
        "far/release.yaml:4:18: `10` is not a duration",
        "twice/stack.yaml:1:7: name is only allowed in the root stack.yaml",
        "both release.yaml and release.yml in both [ST005]",
        "syntax/release.yaml:",
        "defaults/stack.yaml:1:12: \"needs\" is not allowed under defaults",
        "defaults/stack.yaml:1:24: \"chart\" is not allowed under defaults",
        "multi/release.yaml:4:1: release.yaml holds only one document",
        "kind/release.yaml:2:7: expected kind Release, found \"Stack\" [ST003]",
        "loop/release.yaml: cannot read the file: too many levels of symbolic links",
        "folder/stack.yaml: cannot read the file: is a directory",
        "unknown profile \"prdo\" (known: none) [ST010]",
        "release name \"dup\" is ambiguous (default/default/dup, default/other/dup); write <namespace>/dup [ST031]",
        "no release named \"nothing\" [ST030]",
        "--from-path serivces: there is no such directory in the stack",
        "--git-range requires a git work tree",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}

#[test]
fn hostile_files_end_in_errors() {
    let deep = format!("defaults: {}1{}\n", "{x-a: ".repeat(100), "}".repeat(100));
    let long = format!("x-a: {}\n", "a".repeat(2 << 20));
    let bomb = "x-a: &a [1,1,1,1,1,1,1,1,1]\nx-b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nx-c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nx-d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nx-e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nx-f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\nx-g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nx-h: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    for text in [
        deep.as_str(),
        &long,
        bomb,
        "name: ../../etc\n",
        "name: runs\n",
        "name: [a]\n",
        "- a\n",
        "defaults: {tags: [\"a,b\"]}\n",
        "defaults: {set: {\"a=b\": 1}}\n",
        "defaults: {set: {a: [1]}}\n",
        "defaults: {cluster: {name: a/b}}\n",
        "defaults: {namespace: Upper}\n",
        "x: !custom 1\n",
        "name: a\nname: b\n",
        "\u{0}",
        "runner: {concurrency: 0}\n",
    ] {
        let place = Place::new(&[("stack.yaml", text)]);
        let error = compile(&place.request(), &Git::default()).unwrap_err();
        assert_eq!(error.exit_code(), 10, "{text:.60}");
    }
    let nowhere = Request { root: "/nowhere/at/all".into(), ..Request::default() };
    assert_eq!(compile(&nowhere, &Git::default()).unwrap_err().exit_code(), 10);
    let empty = Place::new(&[]);
    let text = compile(&empty.request(), &Git::default()).unwrap_err().to_string();
    assert!(text.starts_with("stack root /") && text.contains("has no stack.yaml [ST001]"), "{text}");
    let bare = Place::new(&[("stack.yaml", "")]);
    assert!(bare.compile().plan.nodes.is_empty(), "a stack without releases is a stack");
}

#[test]
fn everything_a_plan_can_know_of_its_inputs_is_checked() {
    let place = Place::new(&[
        (
            "stack.yaml",
            "name: s\nreleases:\n\
             - {name: bare, chart: ./bare}\n\
             - {name: again, chart: ./bare}\n\
             - {name: file, chart: ./notes.txt}\n\
             - {name: torn, chart: ./torn.tgz}\n\
             - {name: lib, chart: ./lib}\n\
             - {name: wrong, chart: ./wrong}\n\
             - {name: values, chart: ./good, values: [bad.yaml, list.yaml]}\n\
             - {name: strict, chart: ./strict, set: {port: high}}\n\
             - {name: later, chart: ./strict, set: {port: \"secret://vault/port\"}}\n\
             - {name: empty, chart: ./empty}\n\
             - {name: maps, chart: ./maps}\n\
             - {name: good, chart: ./good, values: [fine.yaml], set: {\"a.b[0].c\": 1, \"x\\\\.y\": 2}}\n",
        ),
        ("bare/values.yaml", "x: 1\n"),
        ("bare/templates/map.yaml", "kind: ConfigMap\n"),
        ("notes.txt", "not a chart\n"),
        ("torn.tgz", "not an archive"),
        ("wrong/Chart.yaml", "apiVersion: v2\nname: [\n"),
        ("lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 0.1.0\ntype: library\n"),
        ("bad.yaml", "a: 1\nb: [1,\nc: }\n"),
        ("list.yaml", "- a\n- b\n"),
        ("fine.yaml", "a: {b: 1}\n"),
        ("strict/Chart.yaml", "apiVersion: v2\nname: strict\nversion: 0.1.0\n"),
        ("strict/values.schema.json", "{\"properties\": {\"port\": {\"type\": \"integer\"}}}"),
        ("empty/README.md", "x"),
        ("maps/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"),
    ]);
    place.chart("good");
    let error = compile(&place.request(), &Git::default()).unwrap_err();
    assert_eq!(error.exit_code(), 10);
    let text = error.to_string().replace(&format!("{}/", place.path().display()), "");
    for expected in [
        "release default/default/again (and 1 more): cannot use chart \"bare\": it has no Chart.yaml, and `values.yaml` is no Kubernetes object: apiVersion and kind are missing [ST014]",
        "stack.yaml:5:23: release default/default/file: cannot use chart \"notes.txt\": ",
        "stack.yaml:6:23: release default/default/torn: cannot use chart \"torn.tgz\": ",
        "stack.yaml:7:22: release default/default/lib: cannot use chart \"lib\": it is a library and cannot be released [ST014]",
        "stack.yaml:8:24: release default/default/wrong: cannot use chart \"wrong\": ",
        "stack.yaml:10:25: release default/default/strict: values don't meet the specifications of the schema(s)",
        "stack.yaml:12:24: release default/default/empty: cannot use chart \"empty\": ",
        "bad.yaml:3:",
        "list.yaml:1:1: a values file holds a mapping, not a list [ST013]",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
    for fine in ["default/maps", "default/good", "default/later", "fine.yaml"] {
        assert!(!text.contains(fine), "{fine} is wrong in\n{text}");
    }
}

#[test]
fn set_keys_that_are_no_paths_are_refused_where_they_are() {
    for key in ["a[", "a[x]", "a[-1]", "a[0", "a..b"] {
        let text = format!("name: s\nreleases:\n- name: a\n  chart: ./c\n  set:\n    \"{key}\": 1\n");
        let place = Place::new(&[("stack.yaml", &text)]);
        place.chart("c");
        let error = compile(&place.request(), &Git::default()).map(drop).unwrap_err().to_string();
        assert!(error.contains("stack.yaml:6:5: set key"), "{key}: {error}");
    }
}
