//! Charts from repositories and registries, signatures and encrypted values from the command line.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::support::Place;

/// What was put or offered, by path.
pub(crate) type Store = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Serves files and as much of a registry as charts need, on a port of its own.
pub(crate) fn serve(store: &Store) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let store = Arc::clone(store);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let store = Arc::clone(&store);
            std::thread::spawn(move || answer(stream, &store));
        }
    });
    address
}

fn answer(mut stream: TcpStream, store: &Store) -> Option<()> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let head = loop {
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let header = |name: &str| {
        let pair =
            |line: &str| line.split_once(": ").map(|(key, value)| (key.to_lowercase(), value.to_owned()));
        text.lines().filter_map(pair).find(|(key, _)| key == name).map(|(_, value)| value)
    };
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut content = bytes[head + 4..].to_vec();
    while content.len() < length {
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        content.extend_from_slice(&chunk[..read]);
    }
    let mut words = text.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let known = !path.starts_with("/v2/") || header("authorization").as_deref() == Some("Basic dTpw");
    let mut store = store.lock().ok()?;
    let (status, extra, out) = match (method.as_str(), path.split_once("?digest=")) {
        _ if !known => ("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n".to_owned(), Vec::new()),
        (_, None) if path == "/v2/" => ("200 OK", String::new(), Vec::new()),
        ("POST", _) => ("202 Accepted", format!("location: {path}1\r\n"), Vec::new()),
        ("PUT", Some((upload, digest))) => {
            let folder = upload.split("uploads/").next()?;
            store.insert(format!("{folder}{}", digest.replace("%3A", ":")), content);
            ("201 Created", String::new(), Vec::new())
        }
        ("PUT", None) => {
            let (folder, tag) = path.split_once("/manifests/")?;
            store.insert(format!("{folder}/tags/list"), format!("{{\"tags\": [{tag:?}]}}").into_bytes());
            store.insert(path, content);
            ("201 Created", String::new(), Vec::new())
        }
        _ => match store.get(&path) {
            Some(found) => ("200 OK", String::new(), found.clone()),
            None => ("404 Not Found", String::new(), Vec::new()),
        },
    };
    let length = out.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{extra}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        stream.write_all(&out).ok()?;
    }
    Some(())
}

/// A place with a chart in a repository, and the repository's address.
pub(crate) fn with_repository() -> (Place, Store, String) {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\ndescription: The web\n");
    place.write("web/templates/a.yaml", "kind: A\nv: {{ .Values.v | default .Chart.Version }}\n");
    place.run(&["chart", "package", "web", "-d", "packed"]).ok();
    place.run(&["repo", "index", "packed"]).ok();
    let store = Store::default();
    for name in ["index.yaml", "web-1.2.3.tgz"] {
        let bytes = std::fs::read(place.path().join("packed").join(name)).unwrap();
        store.lock().unwrap().insert(format!("/charts/{name}"), bytes);
    }
    store.lock().unwrap().insert("/values.yaml".into(), b"v: from afar\n".to_vec());
    let address = serve(&store);
    (place, store, address)
}

const RENDERED: &str = "---\n# Source: web/templates/a.yaml\nkind: A\nv: 1.2.3\n";

#[test]
fn charts_come_from_a_repository() {
    let (place, _, host) = with_repository();
    let url = format!("http://{host}/charts");
    let added = place.run(&["repo", "add", "loc", &url]).ok();
    assert_eq!(added, "\"loc\" has been added to your repositories\n");
    let again = place.run(&["repo", "add", "loc", &url]).ok();
    assert_eq!(again, "\"loc\" already exists with the same configuration, skipping\n");
    assert!(place.run(&["repo", "list"]).ok().contains(&url));
    assert!(place.run(&["repo", "update"]).ok().contains("Successfully got an update from the \"loc\""));
    let found = place.run(&["chart", "search", "repo", "we"]).ok();
    assert!(found.contains("loc/web  1.2.3"), "{found}");

    assert_eq!(place.run(&["render", "loc/web"]).ok(), RENDERED);
    assert_eq!(place.run(&["render", "web", "--repo", &url, "--version", "~1.2"]).ok(), RENDERED);
    assert_eq!(place.run(&["render", &format!("{url}/web-1.2.3.tgz")]).ok(), RENDERED);
    let values = format!("http://{host}/values.yaml");
    assert!(place.run(&["render", "loc/web", "-f", &values]).ok().contains("v: from afar"));
    assert!(place.run(&["chart", "show", "chart", "loc/web"]).ok().contains("description: The web"));
    place.run(&["chart", "pull", "loc/web", "--untar", "-d", "here"]).ok();
    assert!(place.path().join("here/web/templates/a.yaml").is_file());

    let text = format!(
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- {{name: web, version: 1.x.x, repository: \"{url}\"}}\n"
    );
    place.write("app/Chart.yaml", text);
    let told = place.run(&["chart", "deps", "update", "app"]).ok();
    assert!(told.contains("Downloading web from repo"), "{told}");
    assert!(place.run(&["chart", "deps", "list", "app"]).ok().contains("ok"));
    assert!(place.run(&["render", "app"]).ok().contains("# Source: app/charts/web/templates/a.yaml"));

    let missing = place.run(&["render", "loc/nope"]);
    assert!(missing.code == Some(1) && missing.err.contains("no chart name found"), "{}", missing.err);
    place.run(&["repo", "remove", "loc"]).ok();
    assert!(place.run(&["render", "loc/web"]).err.contains("repo loc not found"));
}

#[test]
fn values_come_from_addresses() {
    let (place, store, host) = with_repository();
    store.lock().unwrap().insert("/text".into(), b"two\nlines\n".to_vec());
    place.write("web/templates/a.yaml", "v: {{ toJson .Values }}\n");
    let rendered = |value: &str| place.run(&["render", "web", "--set-file", value]);
    for (value, wanted) in [
        (format!("v=http://{host}/text"), r#"v: {"v":"two\nlines\n"}"#),
        (format!("v=HTTP://{host}/text"), r#"v: {"v":"two\nlines\n"}"#),
        (
            format!("v=http://{host}/text,w=http://{host}/text"),
            r#"v: {"v":"two\nlines\n","w":"two\nlines\n"}"#,
        ),
        (format!("v={{http://{host}/text}}"), r#"v: {"v":["two\nlines\n"]}"#),
    ] {
        let out = rendered(&value).ok();
        assert!(out.ends_with(&format!("{wanted}\n")), "{value}: {out}");
    }
    let missing = rendered(&format!("v=http://{host}/none"));
    let wanted =
        format!("failed parsing --set-file data: failed to fetch http://{host}/none : 404 Not Found");
    assert!(missing.code == Some(10) && missing.err.contains(&wanted), "{}", missing.err);
    let unknown = rendered("v=ftp://127.0.0.1/x");
    assert!(unknown.err.contains("open ftp://127.0.0.1/x: no such file or directory"), "{}", unknown.err);
}

#[test]
fn charts_go_to_a_registry_and_come_back() {
    let (place, _, host) = with_repository();
    let remote = format!("oci://{host}/team");
    let push = ["chart", "push", "packed/web-1.2.3.tgz", &remote, "--plain-http"];
    assert!(place.run(&push).err.contains("log in first"));
    let login = ["chart", "registry", "login", &host, "-u", "u", "-p", "p", "--plain-http"];
    assert!(place.run(&login).err.contains("Login Succeeded"));
    let pushed = place.run(&push).ok();
    assert!(pushed.starts_with(&format!("Pushed: {host}/team/web:1.2.3\nDigest: sha256:")), "{pushed}");
    let reference = format!("{remote}/web");
    assert_eq!(place.run(&["render", &reference, "--plain-http"]).ok(), RENDERED);
    assert_eq!(place.run(&["render", &format!("{reference}:1.2.3"), "--plain-http"]).ok(), RENDERED);
    let other = place.run(&["render", &reference, "--version", "9.x", "--plain-http"]);
    assert!(other.err.contains("Could not locate a version matching"), "{}", other.err);
    assert!(place.run(&["chart", "registry", "logout", &host]).err.contains("Removing login"));
    assert_eq!(place.run(&["render", &reference, "--plain-http"]).code, Some(1));
}

#[test]
fn a_signed_chart_is_checked() {
    let place = Place::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../chart/tests/provenance");
    let (secret, public) = (format!("{keys}/secret.gpg"), format!("{keys}/public.gpg"));
    place.run(&["chart", "create", "web"]).ok();
    place
        .run(&["chart", "package", "web", "--sign", "--key", "plain@example.com", "--keyring", &secret])
        .ok();
    let told = place.run(&["chart", "verify", "web-0.1.0.tgz", "--keyring", &public]).ok();
    assert!(told.starts_with("Signed by: Plain Test <plain@example.com>\nUsing Key With"), "{told}");
    place.run(&["render", "web-0.1.0.tgz", "--verify", "--keyring", &public]).ok();
    std::fs::rename(place.path().join("web-0.1.0.tgz.prov"), place.path().join("x")).unwrap();
    let unsigned = place.run(&["render", "web-0.1.0.tgz", "--verify", "--keyring", &public]);
    assert!(unsigned.code == Some(1) && unsigned.err.contains("provenance"), "{}", unsigned.err);
}

#[test]
fn encrypted_values_and_files_are_used_and_rotated() {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
    place.write("web/values.yaml", "a: plain\nb: plain\n");
    place.write(
        "web/templates/a.yaml",
        "a: {{ .Values.a }}\nb: {{ .Values.b }}\nf: {{ werf_secret_file \"x/pass.txt\" }}\n",
    );
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write(".werf_secret_key", &key);
    place.write("values.txt", "a: secret\nb: hidden\n").write("pass.txt", "word");
    std::fs::create_dir_all(place.path().join("web/secret/x")).unwrap();
    place
        .run(&[
            "chart",
            "secret",
            "values",
            "encrypt",
            "values.txt",
            "--save-output-to",
            "web/secret-values.yaml",
        ])
        .ok();
    place
        .run(&["chart", "secret", "file", "encrypt", "pass.txt", "--save-output-to", "web/secret/x/pass.txt"])
        .ok();
    let rendered = |args: &[&str]| place.run(&[&["render", "web"], args].concat()).ok();
    assert!(rendered(&[]).ends_with("a: secret\nb: hidden\nf: word\n"));
    assert!(rendered(&["--set", "b=given"]).ends_with("a: secret\nb: given\nf: word\n"));

    let new = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write(".werf_secret_key", &new);
    assert_eq!(place.run(&["render", "web"]).code, Some(16), "the old ciphertext does not fit");
    let rotate = ["chart", "secret", "key", "rotate", "--chart", "web", "--old-secret-key", key.trim()];
    assert!(place.run(&rotate).ok().contains("secret-values.yaml"));
    assert!(rendered(&[]).ends_with("a: secret\nb: hidden\nf: word\n"));
    let shown = place.run(&["chart", "secret", "values", "decrypt", "web/secret-values.yaml"]).ok();
    assert_eq!(shown, "a: secret\nb: hidden\n");
}

#[cfg(unix)]
#[test]
fn secret_values_are_edited_in_the_clear_and_kept_encrypted() {
    let place = Place::new();
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write(".werf_secret_key", &key).write("plain.yaml", "a: one\nb: two\n");
    let file = "secret-values.yaml";
    place.run(&["chart", "secret", "values", "encrypt", "plain.yaml", "--save-output-to", file]).ok();
    let before = std::fs::read_to_string(place.path().join(file)).unwrap();
    let edit = |editor: &str| {
        let mut command = place.command(&["chart", "secret", "values", "edit", file]);
        command.env("EDITOR", editor).output().unwrap()
    };

    assert!(edit("sed -i s/two/three/").status.success());
    let after = std::fs::read_to_string(place.path().join(file)).unwrap();
    let line = |text: &str, at: usize| text.lines().nth(at).unwrap_or_default().to_owned();
    assert_eq!(line(&before, 0), line(&after, 0), "what is not edited keeps its text");
    assert_ne!(line(&before, 1), line(&after, 1));
    assert!(!after.contains("three"));
    let shown = place.run(&["chart", "secret", "values", "decrypt", file]).ok();
    assert_eq!(shown, "a: one\nb: three\n");

    // An editor that gives up changes nothing.
    assert!(!edit("false").status.success());
    assert_eq!(std::fs::read_to_string(place.path().join(file)).unwrap(), after);
}

#[test]
fn a_cluster_answers_when_it_is_asked_to() {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n");
    place.write(
        "web/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n\
         data:\n  served: '{{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" }}'\n  \
         found: '{{ (lookup \"v1\" \"Namespace\" \"\" \"default\").kind }}'\n",
    );
    place.write("thing/Chart.yaml", "apiVersion: v2\nname: thing\nversion: 0.1.0\n");
    place.write("thing/templates/a.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n");
    let _down = crate::sandbox::Down(&place);
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let render =
        |chart: &str, flags: &[&str]| place.run(&[&["render", "rel", chart, "--sandbox"], flags].concat());

    // As with Helm, each flag asks for its own: lookups here, capabilities and checks there.
    assert!(render("web", &[]).ok().ends_with("served: 'false'\n  found: ''\n"));
    assert!(render("web", &["--dry-run=server"]).ok().ends_with("served: 'false'\n  found: 'Namespace'\n"));
    assert!(render("web", &["--validate"]).ok().ends_with("served: 'true'\n  found: ''\n"));
    let unknown = render("thing", &["--validate"]);
    assert_eq!(unknown.code, Some(1));
    let words = "no matches for kind \"Thing\" in version \"example.com/v1\"";
    assert!(unknown.err.contains(words), "{}", unknown.err);

    place.run(&["apply", "other", "web", "--sandbox"]).ok();
    let taken = render("web", &["--validate"]);
    assert_eq!(taken.code, Some(1));
    let words = "key \"meta.helm.sh/release-name\" must equal \"rel\": current value is \"other\"";
    assert!(taken.err.contains(words), "{}", taken.err);
    render("web", &["--validate", "--take-ownership"]).ok();
    render("web", &["--validate", "--is-upgrade"]).ok();
}

#[test]
fn no_command_shows_the_credentials_of_an_address() {
    let (place, store, host) = with_repository();
    store.lock().unwrap().insert("/bad.yaml?token=hush".into(), b"a: [\n".to_vec());
    let url = format!("http://u:hush@{host}/charts");
    let closed = "http://u:hush@127.0.0.1:1/c?sig=hush";
    let (bad, lost) =
        (format!("http://u:hush@{host}/bad.yaml?token=hush"), format!("http://{host}/x.yaml?token=hush"));
    for (name, repository) in [("app", url.as_str()), ("lone", closed)] {
        let text = format!(
            "apiVersion: v2\nname: {name}\nversion: 0.1.0\ndependencies:\n- {{name: web, version: 1.x.x, repository: \"{repository}\"}}\n"
        );
        place.write(&format!("{name}/Chart.yaml"), text);
    }
    for (args, works) in [
        (vec!["repo", "add", "loc", url.as_str()], true),
        (vec!["repo", "list"], true),
        (vec!["repo", "list", "-o", "json"], true),
        (vec!["repo", "update"], true),
        (vec!["repo", "add", "gone", closed], false),
        (vec!["render", "web", "--repo", url.as_str()], true),
        (vec!["render", "none", "--repo", url.as_str()], false),
        (vec!["render", "gone", "--repo", closed], false),
        (vec!["render", closed], false),
        (vec!["render", "oci://u:hush@127.0.0.1:1/web"], false),
        (vec!["render", "loc/web", "-f", bad.as_str()], false),
        (vec!["render", "loc/web", "-f", lost.as_str()], false),
        (vec!["render", "loc/web", "-f", closed], false),
        (vec!["chart", "pull", closed], false),
        (vec!["chart", "deps", "list", "app"], true),
        (vec!["chart", "deps", "update", "app"], true),
        (vec!["chart", "deps", "update", "lone"], false),
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.code == Some(0), works, "{args:?}: {} {}", ran.out, ran.err);
        assert!(!ran.out.contains("hush") && !ran.err.contains("hush"), "{args:?}: {} {}", ran.out, ran.err);
    }
}

#[test]
fn templates_that_take_too_long_are_stopped() {
    let place = Place::new();
    place.write("loop/Chart.yaml", "apiVersion: v2\nname: loop\nversion: 0.1.0\n");
    place.write("loop/values.yaml", "");
    let text = "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}\n";
    place.write("loop/templates/a.yaml", text);
    for args in
        [["render", "loop", "--template-timeout", "1ms"], ["lint", "loop", "--template-timeout", "1ms"]]
    {
        let ran = place.run(&args);
        let said = ran.out + &ran.err;
        assert!(said.contains("rendering took longer than 1ms"), "{args:?}: {said}");
        assert_ne!(ran.code, Some(0));
    }
}

#[test]
fn a_chart_begins_as_a_starter() {
    let place = Place::new();
    place
        .write("data/starters/mine/Chart.yaml", "apiVersion: v2\nname: mine\nversion: 9.9.9\nkeywords: [a]\n")
        .write("data/starters/mine/values.yaml", "# for <CHARTNAME>\nport: 80\nlist: [1, {x: 2.5}]\n")
        .write("data/starters/mine/templates/a.yaml", "kind: {{ .Chart.Name }}-<CHARTNAME>\n")
        .write("data/starters/mine/README.md", "<CHARTNAME>\n")
        .write("data/starters/mine/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n");
    let mut command = place.command(&["chart", "create", "web", "--starter", "mine"]);
    let made =
        crate::support::Ran::from(command.env("HELM_DATA_HOME", place.path().join("data")).output().unwrap());
    assert_eq!(made.ok(), "web\n");
    let read = |name: &str| std::fs::read_to_string(place.path().join("web").join(name)).unwrap();
    assert_eq!(
        read("Chart.yaml"),
        "apiVersion: v2\nappVersion: 0.1.0\ndescription: A Helm chart for Kubernetes\nname: web\ntype: application\n\
         version: 0.1.0\n",
        "Helm's bytes"
    );
    assert_eq!(read("templates/a.yaml"), "kind: {{ .Chart.Name }}-web\n");
    assert_eq!(read("README.md"), "<CHARTNAME>\n", "only templates and values have room for the name");
    assert!(place.path().join("web/charts/sub-1.0.0.tgz").exists());
    let value = |template: &str| place.run(&["chart", "show", "values", "web", "--jsonpath", template]);
    assert_eq!(value("{.port} and {.list}").ok(), "80 and [1,{\"x\":2.5}]");
    assert_eq!(value("{.none}").ok(), "");
    let wrong = value("{.port");
    assert!(wrong.code == Some(1) && wrong.err.contains("unclosed action"), "{}", wrong.err);
    assert_eq!(place.run(&["chart", "show", "readme", "web", "--jsonpath", "{.a}"]).code, Some(64));
}
