//! Releases taken to the embedded cluster by the commands, whatever they are made of, tried out first if wanted.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::Down;
use crate::support::{Place, Ran};

/// A place with a sandbox and a chart `web` of a ConfigMap, a Secret, a Deployment and an optional hook.
fn furnished() -> Place {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    place.write("web/values.yaml", "text: hello\napp: web\nhook: ''\n");
    place.write(
        "web/templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  text: {{ .Values.text | quote }}\n\
         ---\napiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData:\n  \
         token: {{ .Values.token | default \"none\" | quote }}\n\
         ---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
         selector: {matchLabels: {app: {{ .Values.app }}}}\n  template:\n    metadata: {labels: {app: {{ .Values.app }}}}\n    \
         spec: {containers: [{name: web, image: \"nginx:1\"}]}\n\
         {{- if .Values.hook }}\n---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations:\n    \
         helm.sh/hook: pre-install,pre-upgrade\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      annotations:\n        \
         sim/fail: \"{{ .Values.hook }}\"\n        sim/logs: the table is locked\n    \
         spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}\n{{- end }}\n",
    );
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place
}

fn apply(place: &Place, words: &[&str]) -> Ran {
    place.run(&[&["apply", "--sandbox", "-q", "-n", "shop"], words].concat())
}

fn values(place: &Place, name: &str) -> Value {
    serde_json::from_str(&place.run(&["get", "values", name, "--sandbox", "-n", "shop", "-o", "json"]).ok())
        .unwrap()
}

#[test]
fn a_release_is_made_of_whatever_render_takes() {
    let place = furnished();
    let _down = Down(&place);
    place.run(&["chart", "package", "web"]).ok();
    let said = apply(&place, &["archive", "web-1.0.0.tgz"]).ok();
    assert!(said.contains("release archive in shop is deployed (revision 1)"), "{said}");

    let mut piped = place.command(&["apply", "piped", "-", "--sandbox", "-q", "-n", "piped"]);
    let mut child =
        piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let archive = std::fs::read(place.path().join("web-1.0.0.tgz")).unwrap();
    child.stdin.take().unwrap().write_all(&archive).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(ran.ok().contains("release piped in piped is deployed"));

    let shout = "#!/bin/sh\nsed s/hello/HELLO/\n";
    place.write("shout.sh", shout);
    let filter = ["--post-renderer", "sh", "--post-renderer-args", "shout.sh", "--force-adoption"];
    apply(&place, &[&["filtered", "web"][..], &filter].concat()).ok();
    let manifest = place.run(&["get", "manifest", "filtered", "--sandbox", "-n", "shop"]).ok();
    assert!(manifest.contains("text: HELLO"), "{manifest}");

    for (reference, code, said) in
        [("nowhere/web", 1, "repo nowhere not found"), ("missing", 10, "missing"), ("oci://", 1, "oci://")]
    {
        let ran = place.run(&["plan", "x", reference, "--sandbox"]);
        assert!(ran.code == Some(code) && ran.err.contains(said), "{reference}: {}", ran.err);
    }
}

#[test]
fn the_status_of_a_failed_release_shows_its_objects() {
    let place = furnished();
    let _down = Down(&place);
    apply(&place, &["web", "web"]).ok();
    let status =
        |words: &[&str]| place.run(&[&["status", "web", "--sandbox", "-n", "shop"], words].concat()).ok();
    assert!(!status(&[]).contains("OBJECTS"), "a release that is deployed needs no list");
    let shown = status(&["--show-resources"]);
    assert!(shown.contains("Deployment/web  ready"), "{shown}");

    let ran = apply(&place, &["web", "web", "--set", "hook=crashloop"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let shown = status(&[]);
    assert!(shown.contains("STATUS: failed") && shown.contains("ConfigMap/web"), "{shown}");
    let json: Value = serde_json::from_str(&status(&["-o", "json"])).unwrap();
    assert_eq!(json["objects"][0]["condition"], "ready", "{json}");
}

#[test]
fn encrypted_values_are_used_masked_and_not_recorded() {
    let place = furnished();
    let _down = Down(&place);
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write(".werf_secret_key", &key).write("plain.yaml", "token: correct-horse\ntext: correct-horse\n");
    let encrypt = ["chart", "secret", "values", "encrypt", "plain.yaml", "--save-output-to", "hidden.yaml"];
    place.run(&encrypt).ok();
    let secret = ["web", "web", "--secret-values", "hidden.yaml", "--set", "app=front"];
    let plan = place.run(&[&["plan", "--sandbox", "-n", "shop"], &secret[..]].concat());
    assert!(plan.out.contains("create ConfigMap/web"), "{} {}", plan.out, plan.err);
    assert!(!plan.out.contains("correct-horse") && !plan.err.contains("correct-horse"), "{}", plan.out);
    apply(&place, &secret).ok();
    assert_eq!(values(&place, "web"), serde_json::json!({"app": "front"}));
    let manifest = place.run(&["get", "manifest", "web", "--sandbox", "-n", "shop"]).ok();
    assert!(manifest.contains("text: correct-horse"), "{manifest}");
    let again = apply(&place, &secret).ok();
    assert!(again.contains("up to date"), "{again}");
}

#[test]
fn a_rehearsal_finds_what_would_go_wrong_and_writes_nothing() {
    let place = furnished();
    let _down = Down(&place);
    let listed = || place.run(&["list", "--short", "--sandbox", "-n", "shop"]).ok();
    let ran = apply(&place, &["web", "web", "--rehearse", "--set", "hook=crashloop"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.err.contains("the rehearsal failed; nothing was changed"), "{}", ran.err);
    assert!(ran.err.contains("Job/migrate"), "{}", ran.err);
    assert_eq!(listed(), "", "nothing reached the cluster");

    let ran = place.run(&["apply", "--sandbox", "-n", "shop", "web", "web", "--rehearse"]);
    assert!(ran.err.contains("rehearsed 3 changes"), "{}", ran.err);
    assert!(ran.ok().contains("is deployed (revision 1)"));
    // A field that cannot change is found on the copy of the live object.
    let ran = apply(&place, &["web", "web", "--rehearse", "--set", "app=other"]);
    assert!(ran.code == Some(1) && ran.err.contains("immutable"), "{}", ran.err);
    let ran = apply(&place, &["web", "web", "--rehearse", "--set", "text=bye"]);
    assert!(ran.ok().contains("(revision 2)"));
    let ran = place.run(&["rollback", "web", "--rehearse", "--sandbox", "-q", "-n", "shop"]);
    assert!(ran.ok().contains("(revision 3)"));
    let ran = place.run(&["delete", "web", "--rehearse", "--sandbox", "-n", "shop"]);
    assert!(ran.err.contains("rehearsed 3 changes"), "{}", ran.err);
    assert_eq!(listed(), "");
}

/// A chart `talk` of a ConfigMap and a Job that says two lines, one of which an annotation leaves out.
fn talkative(place: &Place) {
    place.write("talk/Chart.yaml", "apiVersion: v2\nname: talk\nversion: 1.0.0\n").write(
        "talk/templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: talk}\ndata: {text: {{ .Values.text | default \"open\" }}}\n\
         ---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: talk\n  annotations: {werf.io/log-regex: keep}\n\
         spec:\n  template:\n    metadata: {annotations: {sim/logs: \"keep one\\ndrop two\"}}\n    \
         spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}\n",
    );
}

#[test]
fn logs_are_filtered_as_annotations_and_flags_say() {
    let place = furnished();
    let _down = Down(&place);
    talkative(&place);
    apply(&place, &["talk", "talk"]).ok();
    let logs = |words: &[&str]| place.run(&[&["logs", "talk", "--sandbox", "-n", "shop"], words].concat());
    let said = logs(&[]).ok();
    assert!(said.contains("/c | keep one") && !said.contains("drop two"), "{said}");
    let said = logs(&["job/talk", "--all-lines", "--grep", "two$"]).ok();
    assert!(said.contains("drop two") && !said.contains("keep one"), "{said}");
    let said = logs(&["-o", "json", "--follow"]).ok();
    let line: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!((&line["object"], &line["text"]), (&"Job/talk".into(), &"keep one".into()));
    let ran = logs(&["deploy/nobody"]);
    assert!(ran.code == Some(1) && ran.err.contains("deploy/nobody"), "{}", ran.err);
    assert!(logs(&["-c", "none"]).err.contains("nothing was said"));
}

#[test]
fn a_plan_in_clear_is_private_and_holds_no_secret() {
    let place = furnished();
    let _down = Down(&place);
    talkative(&place);
    let plan = |words: &[&str]| {
        place.run(&[&["plan", "--sandbox", "-n", "shop", "--out", "plan.slip"], words].concat())
    };
    let ran = plan(&["web", "web"]);
    assert!(ran.code == Some(10) && ran.err.contains("Secret/web is secret"), "{}", ran.err);
    assert!(!place.path().join("plan.slip").exists());
    place.write("plan.slip", "readable to all");
    let ran = plan(&["talk", "talk"]);
    assert!(ran.err.contains("in clear") && ran.code == Some(0), "{}", ran.err);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(place.path().join("plan.slip")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let said = place.run(&["apply", "talk", "--plan", "plan.slip", "--sandbox", "-q", "-n", "shop"]).ok();
    assert!(said.contains("is deployed (revision 1)"), "{said}");
}

#[test]
fn a_saved_plan_knows_what_it_is_for() {
    let place = furnished();
    let _down = Down(&place);
    talkative(&place);
    let here = ["--sandbox", "-n", "shop"];
    place.run(&[&["plan", "talk", "talk", "--out", "plan.slip"], &here[..]].concat()).ok();
    let shown = place.run(&["plan", "--show", "plan.slip", "--sandbox"]);
    assert!(shown.out.contains("create ConfigMap/talk"), "{} {}", shown.out, shown.err);
    assert!(shown.err.contains("revision 1 of release talk in shop"), "{}", shown.err);
    for (words, code, says) in [
        (&["other", "--plan", "plan.slip"][..], 1, "the plan is for release `talk`"),
        (&["--plan", "plan.slip", "-n", "elsewhere"], 1, "the plan is for namespace `shop`"),
        (&["--plan", "plan.slip", "--plan-lifetime", "0s"], 12, "minutes old"),
    ] {
        let ran = place.run(&[&["apply", "--sandbox"], words].concat());
        assert!(ran.code == Some(code) && ran.err.contains(says), "{words:?}: {}", ran.err);
    }
    let said = place.run(&["apply", "--plan", "plan.slip", "--sandbox", "-q"]).ok();
    assert!(said.contains("release talk in shop is deployed (revision 1)"), "{said}");
    let ran = place.run(&["apply", "--plan", "plan.slip", "--sandbox", "-q"]);
    assert!(ran.code == Some(12) && ran.err.contains("the plan makes revision 1"), "{}", ran.err);
    let ran = place.run(&["plan", "--show", "plan.slip", "--sandbox"]);
    assert!(ran.code == Some(12) && ran.err.contains("the plan makes revision 1"), "{}", ran.err);
}

#[test]
fn flags_reach_the_release() {
    let place = furnished();
    let _down = Down(&place);
    place.write("web/templates/NOTES.txt", "version {{ .Chart.AppVersion }}\n");
    let first = [
        "web",
        "web",
        "--set",
        "text=one",
        "--app-version",
        "7.5",
        "--release-labels",
        "team=shop",
        "--release-info-annotations",
        "who=jo",
        "--save-graph-to",
        "graph.dot",
    ];
    let said = apply(&place, &first).ok();
    assert!(said.contains("version 7.5"), "{said}");
    let graph = std::fs::read_to_string(place.path().join("graph.dot")).unwrap();
    assert!(graph.starts_with("digraph") && graph.contains("ConfigMap/web"), "{graph}");
    let get = |what: &str| -> Value {
        let words = ["get", what, "web", "--sandbox", "-n", "shop", "-o", "json"];
        serde_json::from_str(&place.run(&words).ok()).unwrap()
    };
    let about = get("metadata");
    assert_eq!((&about["appVersion"], &about["labels"]["team"]), (&"7.5".into(), &"shop".into()));
    assert_eq!(about["annotations"]["who"], "jo");
    let listed =
        |words: &[&str]| place.run(&[&["list", "--short", "--sandbox", "-n", "shop"], words].concat()).ok();
    assert_eq!(listed(&["-l", "team=shop", "--deployed"]), "web\n");
    assert_eq!(listed(&["-l", "team=other"]) + &listed(&["--failed"]) + &listed(&["-f", "^x"]), "");

    let said = apply(&place, &["web", "web", "--reuse-values", "--set", "app=web", "--hide-notes"]).ok();
    assert!(!said.contains("version"), "{said}");
    assert_eq!(values(&place, "web"), serde_json::json!({"text": "one", "app": "web"}));
    let ran = place.run(&["status", "web", "--sandbox", "-n", "elsewhere"]);
    assert!(ran.err.contains("there is one in shop (`-n shop`)"), "{}", ran.err);
    let brief =
        ["plan", "web", "web", "--set", "text=two", "--show-verbose-diffs=false", "--sandbox", "-n", "new"];
    let said = place.run(&brief).ok();
    assert!(said.contains("<hidden verbose changes>") && !said.contains("nginx:1"), "{said}");
}

#[test]
fn names_are_made_where_a_flag_asks_for_one() {
    let place = furnished();
    let _down = Down(&place);
    let said = apply(&place, &["--name-template", "shop-{{ \"A\" | lower }}", "web", "--replace"]).ok();
    assert!(said.contains("release shop-a in shop is deployed"), "{said}");
    let said = place.run(&["apply", "--sandbox", "-q", "-n", "made", "-g", "./web"]).ok();
    assert!(said.contains("release web-1"), "the chart's name and the time: {said}");
    for (word, listed) in [("--dry-run", "[]\n"), ("--dry-run=server", "[]\n"), ("--dry-run=none", "x")] {
        place.run(&["apply", "dry", "web", "--sandbox", "-q", "-n", "dry", word]).ok();
        let found = place.run(&["list", "--sandbox", "-n", "dry", "-o", "json"]).ok();
        assert_eq!(found == "[]\n", listed == "[]\n", "{word}: {found}");
    }
    let both = apply(&place, &["name", "web", "--generate-name"]);
    assert!(both.code == Some(64) && both.err.contains("also specify a name"), "{}", both.err);
    assert_eq!(apply(&place, &[]).code, Some(64), "a release needs a name");
}

#[test]
fn tests_are_chosen_by_name() {
    let place = furnished();
    let _down = Down(&place);
    let test = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/hook: test}}\nspec: \
             {{restartPolicy: Never, containers: [{{name: c, image: busybox}}]}}\n"
        )
    };
    place.write("web/templates/tests.yaml", test("first") + &test("second"));
    apply(&place, &["web", "web"]).ok();
    let tested = |filter: &[&str]| place.run(&[&["test", "web", "--sandbox", "-n", "shop"], filter].concat());
    for (filter, first, second) in [
        (&[][..], true, true),
        (&["--filter", "name=first,name=second"], true, true),
        (&["--filter", "name=first"], true, false),
        (&["--filter", "!name=first"], false, true),
    ] {
        let ran = tested(filter);
        assert_eq!(ran.code, Some(0), "{filter:?}: {}", ran.err);
        let told = |name: &str| ran.err.contains(&format!("Pod shop/{name}"));
        assert_eq!((told("first"), told("second")), (first, second), "{filter:?}: {}", ran.err);
    }
    assert_eq!(tested(&["--filter", "first"]).code, Some(64));
}
