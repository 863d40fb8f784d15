//! Flags that users of Helm and Nelm bring along, by their effect.

use serde_json::Value;

use crate::charts::{Store, serve};
use crate::sandbox::Down;
use crate::support::{Place, Ran};

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chart/tests/provenance");

/// A place with a chart `web` whose ConfigMap shows everything flags can change of a rendering.
fn furnished() -> Place {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: \"1\"\n");
    place.write("web/values.yaml", "text: own\n");
    place.write(
        "web/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  \
         text: {{ .Values.text | default \"none\" }}\n  \
         secret: {{ .Values.secret | default \"none\" }}\n  \
         version: {{ .Chart.AppVersion | quote }}\n  \
         runtime: {{ dig \"env\" \"none\" (.Runtime | default dict) }}\n  \
         root: {{ .team | default \"none\" }}\n",
    );
    place
}

/// The data of the ConfigMap that a command prints.
fn data(ran: Ran) -> Value {
    let text = ran.ok();
    let object = slipway_yaml::from_str_helm(text.trim_start_matches("---\n")).unwrap();
    object["data"].clone()
}

#[test]
fn flags_change_what_is_rendered() {
    let place = furnished();
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write("keys/.werf_secret_key", &key).write("plain.yaml", "secret: hidden\n");
    let work = ["--secret-work-dir", "keys"];
    let encrypt = ["chart", "secret", "values", "encrypt", "plain.yaml", "--save-output-to"];
    place.run(&[&encrypt[..], &["web/secret-values.yaml"], &work].concat()).ok();
    let rendered = |words: &[&str]| data(place.run(&[&["render", "web"], &work[..], words].concat()));
    let plain = rendered(&[]);
    assert_eq!(
        (&plain["text"], &plain["secret"], &plain["version"]),
        (&"own".into(), &"hidden".into(), &"1".into())
    );
    for (words, field, value) in [
        (&["--no-default-values"][..], "text", "none"),
        (&["--no-default-secret-values"], "secret", "none"),
        (&["--app-version", "7"], "version", "7"),
        (&["--set-runtime-json", "env=\"dev\""], "runtime", "dev"),
        (&["--set-root-json", "team=\"shop\""], "root", "shop"),
    ] {
        let mut expected = plain.clone();
        expected[field] = value.into();
        assert_eq!(rendered(words), expected, "{words:?}");
    }
    let own = place.run(&["render", "web", "--set-root-json", "Values={}"]).ok();
    assert!(own.contains("text: own"), "Helm's own keys win: {own}");
    let wrong = place.run(&["render", "web", "--set-root-json", "a={"]);
    assert!(wrong.code != Some(0) && wrong.err.contains("failed parsing --set-json"), "{}", wrong.err);
}

#[test]
fn metadata_is_added_to_everything_that_is_rendered() {
    let place = furnished();
    let hook = "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n";
    place.write("web/templates/t.yaml", hook);
    let flags = [
        "--annotations",
        "a=1",
        "--labels",
        "l=2",
        "--runtime-annotations",
        "a=3",
        "--runtime-labels",
        "m=4",
    ];
    let text = place.run(&[&["render", "web"], &flags[..]].concat()).ok();
    let documents: Vec<&str> = text.split("---\n").filter(|part| !part.is_empty()).collect();
    assert_eq!(documents.len(), 2, "{text}");
    for document in documents {
        assert!(document.starts_with("# Source: web/templates/"), "{document}");
        let metadata = slipway_yaml::from_str_helm(document).unwrap()["metadata"].clone();
        assert_eq!((&metadata["annotations"]["a"], &metadata["labels"]["l"]), (&"3".into(), &"2".into()));
        assert_eq!(metadata["labels"]["m"], "4", "{document}");
    }
    let filter = ["--post-renderer", "cat", "--labels", "l=2"];
    let filtered = place.run(&[&["render", "web"], &filter[..]].concat()).ok();
    assert_eq!(filtered.matches("l: \"2\"").count(), 2, "{filtered}");
    assert_eq!(place.run(&["render", "web", "--labels", "l"]).code, Some(64));
}

#[test]
fn a_lint_takes_the_values_and_the_cluster_of_a_release() {
    let place = furnished();
    let _down = Down(&place);
    place.write(
        "web/templates/b.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  \
         secret: {{ required \"no secret\" .Values.secret }}\n{{ if ne .Chart.AppVersion \"7\" }}: broken{{ end }}\n\
         {{ if ne (toString .team) \"shop\" }}: broken{{ end }}\n{{ if .Values.text }}: broken{{ end }}\n",
    );
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write("plain.yaml", "secret: hidden\n");
    let words = ["chart", "secret", "values", "encrypt", "plain.yaml", "--secret-key", key.trim()];
    place.run(&[&words[..], &["--save-output-to", "hidden.yaml"]].concat()).ok();
    let good = [
        "lint",
        "web",
        "--secret-values",
        "hidden.yaml",
        "--secret-key",
        key.trim(),
        "--app-version",
        "7",
        "--set-root-json",
        "team=\"shop\"",
        "--no-default-values",
    ];
    let lint = |words: &[&str]| {
        let ran = place.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {} {}", ran.out, ran.err);
    };
    lint(&good);
    for missing in [&good[..4], &good[..8], &good[..10]] {
        assert_ne!(place.run(missing).code, Some(0), "{missing:?}");
    }
    let no_key = place.run(&good[..4]);
    assert!(no_key.code == Some(16), "{}", no_key.err);

    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let live = [&good[..], &["--validate", "--sandbox", "--release", "site"]].concat();
    lint(&live);
    place.write("web/templates/c.yaml", "apiVersion: example.com/v1\nkind: Ship\nmetadata: {name: s}\n");
    let unknown = place.run(&live);
    assert!(unknown.code == Some(10) && unknown.out.contains("Ship"), "{} {}", unknown.out, unknown.err);
    std::fs::remove_file(place.path().join("web/templates/c.yaml")).unwrap();
    place.write("m/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\n");
    place.run(&["apply", "other", "m", "--sandbox", "-q"]).ok();
    let taken = place.run(&live);
    assert!(taken.code == Some(10) && taken.out.contains("invalid ownership"), "{} {}", taken.out, taken.err);
    lint(&[&live[..], &["--take-ownership"]].concat());
}

#[test]
fn signatures_of_dependencies_are_checked() {
    let place = Place::new();
    let (secret, public) = (format!("{KEYS}/secret.gpg"), format!("{KEYS}/public.gpg"));
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
    let sign =
        ["chart", "package", "web", "-d", "packed", "--sign", "--key", "plain@example.com", "--keyring"];
    place.run(&[&sign[..], &[&secret]].concat()).ok();
    place.run(&["repo", "index", "packed"]).ok();
    let store = Store::default();
    let offer = |name: &str| {
        let bytes = std::fs::read(place.path().join("packed").join(name)).unwrap();
        store.lock().unwrap().insert(format!("/charts/{name}"), bytes);
    };
    offer("index.yaml");
    offer("web-1.2.3.tgz");
    let url = format!("http://{}/charts", serve(&store));
    let app = format!(
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- {{name: web, version: 1.2.3, repository: \"{url}\"}}\n"
    );
    place.write("app/Chart.yaml", app);
    let verified = |verb: &str| place.run(&["chart", "deps", verb, "app", "--verify", "--keyring", &public]);
    let unsigned = verified("update");
    assert!(unsigned.code == Some(1) && unsigned.err.contains("provenance"), "{}", unsigned.err);
    assert!(!place.path().join("app/charts/web-1.2.3.tgz").exists(), "nothing unproven is kept");
    offer("web-1.2.3.tgz.prov");
    verified("update").ok();
    verified("build").ok();
    assert!(place.path().join("app/charts/web-1.2.3.tgz").is_file());
    store.lock().unwrap().insert("/charts/web-1.2.3.tgz.prov".into(), b"nonsense".to_vec());
    let forged = verified("build");
    assert!(forged.code == Some(1) && forged.err.contains("could not be verified"), "{}", forged.err);
}

#[test]
fn registries_and_repositories_take_a_login_and_a_time_limit() {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
    place.run(&["chart", "package", "web"]).ok();
    let store = Store::default();
    let host = serve(&store);
    let remote = format!("oci://{host}/team");
    let push = ["chart", "push", "web-1.2.3.tgz", &remote, "--plain-http"];
    assert_eq!(place.run(&push).code, Some(1), "the registry knows nobody");
    place.run(&[&push[..], &["--username", "u", "--password", "p"]].concat()).ok();
    let app = format!(
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- {{name: web, version: 1.2.3, repository: \"{remote}\"}}\n"
    );
    place.write("app/Chart.yaml", app);
    let package = ["chart", "package", "app", "-u", "--plain-http"];
    assert_eq!(place.run(&package).code, Some(1), "the registry knows nobody");
    place.run(&[&package[..], &["--username", "u", "--password", "p"]].concat()).ok();

    // A server that takes a connection and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let late = place.run(&["repo", "add", "silent", &url, "--timeout", "50ms"]);
    assert!(late.code == Some(1) && late.err.contains("50ms"), "{}", late.err);
}

#[test]
fn repositories_are_listed_without_headings() {
    let place = Place::new();
    place.write(
        ".config/helm/repositories.yaml",
        "apiVersion: \"\"\nrepositories:\n- {name: one, url: \"https://one.example\"}\n",
    );
    assert_eq!(place.run(&["repo", "list", "--no-headers"]).ok(), "one   https://one.example\n");
    assert!(place.run(&["repo", "list"]).ok().starts_with("NAME"));
}

#[test]
fn keys_are_rotated_with_the_flags_of_nelm() {
    let place = Place::new();
    place
        .write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
        .write("plain.yaml", "a: b\n");
    let [old, new] =
        [(); 2].map(|()| place.run(&["chart", "secret", "key", "create"]).ok().trim().to_owned());
    let encrypt = ["chart", "secret", "values", "encrypt", "plain.yaml", "--secret-key", &old];
    place.run(&[&encrypt[..], &["--save-output-to", "hidden.yaml"]].concat()).ok();
    let rotate = ["chart", "secret", "key", "rotate", "--chart", "web", "--secret-values", "hidden.yaml"];
    place.run(&[&rotate[..], &["--old-secret-key", &old, "--new-secret-key", &new]].concat()).ok();
    let shown =
        place.run(&["chart", "secret", "values", "decrypt", "hidden.yaml", "--secret-key", &new]).ok();
    assert_eq!(shown, "a: b\n");
}

#[test]
fn revisions_are_shown_described_and_drawn_as_flags_say() {
    let place = furnished();
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let run = |line: &str| place.run(&line.split(' ').chain(["--sandbox", "-n", "shop"]).collect::<Vec<_>>());
    run("apply web web -q --set text=one").ok();
    run("apply web web -q --set text=two").ok();
    run("rollback web 1 -q --description because --save-rollback-graph-to back.dot").ok();
    let history: Value = serde_json::from_str(&run("history web -o json").ok()).unwrap();
    assert_eq!(history[2]["description"], "because");
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert!(read("back.dot").starts_with("digraph"));
    run("plan web web --set text=three --save-graph-to plan.dot --timeout 5m").ok();
    assert!(read("plan.dot").contains("ConfigMap/web"));
    let late = run("plan web web --timeout 1ns");
    assert!(late.code == Some(1), "{}", late.err);

    let template = "{{ .Release.Name }} {{ .Release.Version }} {{ .Release.Info.Status }} {{ .Release.Chart.Metadata.APIVersion }} {{ .Release.Config.text }}";
    let shown = place.run(&["get", "all", "web", "--sandbox", "-n", "shop", "--template", template]).ok();
    assert_eq!(shown, "web 3 deployed v2 one");
    let values = place.run(&["get", "values", "web", "--sandbox", "-n", "shop", "--template", template]);
    assert!(values.code == Some(64) && values.err.contains("get all"), "{}", values.err);

    let year = run("list --no-headers --time-format 2006").ok();
    let cells: Vec<&str> = year.split_whitespace().collect();
    assert!(cells[3].len() == 4 && cells[3].parse::<u32>().is_ok(), "{year}");
    let rows: Value = serde_json::from_str(&run("list -o json --time-format 02/01/2006").ok()).unwrap();
    assert_eq!(rows[0]["updated"].as_str().map(|text| text.matches('/').count()), Some(2));

    run("delete web -q --keep-history --description moved").ok();
    let history: Value = serde_json::from_str(&run("history web -o json").ok()).unwrap();
    assert_eq!(history[2]["description"], "moved");
}

#[test]
fn a_failed_apply_cleans_up_and_draws_its_rollback() {
    let place = furnished();
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let run =
        |line: &str| place.run(&line.split(' ').chain(["--sandbox", "-n", "shop", "-q"]).collect::<Vec<_>>());
    run("apply web web").ok();
    place.write(
        "web/templates/new.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: \
         {name: j, annotations: {helm.sh/hook: post-upgrade}}\nspec: {backoffLimit: 0, template: {metadata: {annotations: \
         {sim/fail: crashloop}}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}\n",
    );
    assert_eq!(run("apply web web --cleanup-on-fail").code, Some(1));
    let status: Value = serde_json::from_str(&run("status web --show-resources -o json").ok()).unwrap();
    let conditions: Vec<&Value> =
        status["objects"].as_array().unwrap().iter().map(|object| &object["condition"]).collect();
    assert_eq!(conditions, ["missing", "ready"], "{status}");
    let plan = run("plan web web").out;
    assert!(plan.contains("create ConfigMap/new"), "it is gone again: {plan}");
    let undone = run("apply web web --auto-rollback --save-rollback-graph-to undo.dot");
    assert_eq!(undone.code, Some(1), "{}", undone.out);
    let graph = std::fs::read_to_string(place.path().join("undo.dot")).unwrap();
    assert!(graph.starts_with("digraph") && graph.contains("ConfigMap/new"), "{graph}");
    let unasked = run("apply web web --save-rollback-graph-to undo.dot");
    assert_eq!(unasked.code, Some(64), "there is no rollback without --auto-rollback");
}
