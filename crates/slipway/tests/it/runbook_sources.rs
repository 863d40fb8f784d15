//! Runbooks whose charts and manifests come over HTTP and from registries: scenarios 25, 45 and 70 of their
//! specification, with real servers on ports of their own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::charts::{self, Store};
use crate::sandbox::Down;
use crate::support::Place;

/// Who is let in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Door {
    Open,
    /// Whoever shows `u:p`.
    Basic,
    /// Whoever shows a token that is given for `u:p`.
    Bearer,
}

/// A server that offers what is in a store and remembers who asked for what.
struct Shop {
    address: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

/// A path, and the login shown with it.
type Request = (String, Option<String>);

impl Shop {
    fn open(store: &Store, door: Door) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::default();
        let (store, log, host) = (Arc::clone(store), Arc::clone(&seen), address.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (store, log, host) = (Arc::clone(&store), Arc::clone(&log), host.clone());
                std::thread::spawn(move || answer(stream, &store, door, &log, &host));
            }
        });
        Self { address, seen }
    }

    fn was_shown_a_login(&self) -> bool {
        self.seen.lock().unwrap().iter().any(|(_, login)| login.is_some())
    }

    fn was_asked_for(&self, part: &str) -> bool {
        self.seen.lock().unwrap().iter().any(|(path, _)| path.contains(part))
    }
}

fn answer(
    mut stream: TcpStream,
    store: &Store,
    door: Door,
    log: &Mutex<Vec<Request>>,
    host: &str,
) -> Option<()> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let path = text.split(' ').nth(1)?.to_owned();
    let login = text.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
    });
    log.lock().ok()?.push((path.clone(), login.clone()));
    let (known, challenge) = match door {
        Door::Open => (true, String::new()),
        Door::Basic => (login.as_deref() == Some("Basic dTpw"), "Basic realm=\"x\"".to_owned()),
        Door::Bearer if path.starts_with("/token") => (login.as_deref() == Some("Basic dTpw"), String::new()),
        Door::Bearer => (
            login.as_deref() == Some("Bearer good"),
            format!("Bearer realm=\"http://{host}/token\",service=\"test\""),
        ),
    };
    let found = store.lock().ok()?.get(&path).cloned();
    let (status, extra, out) = match found {
        _ if !known => ("401 Unauthorized", format!("www-authenticate: {challenge}\r\n"), Vec::new()),
        _ if path.starts_with("/token") => ("200 OK", String::new(), br#"{"token": "good"}"#.to_vec()),
        Some(found) => match found.strip_prefix(b"302 ") {
            Some(to) => ("302 Found", format!("location: {}\r\n", String::from_utf8_lossy(to)), Vec::new()),
            None => ("200 OK", String::new(), found),
        },
        None => ("404 Not Found", String::new(), Vec::new()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{extra}\r\n", out.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&out).ok()
}

/// A chart whose only object is named for its version.
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-{{ .Chart.Version | replace \".\" \"-\" | replace \"+\" \"-\" }}}\n";

/// Packs versions of the chart, each into `packed/web-VERSION.tgz`.
fn pack(place: &Place, versions: &[&str]) {
    place.write("web/templates/a.yaml", TEMPLATE);
    for version in versions {
        place.write("web/Chart.yaml", format!("apiVersion: v2\nname: web\nversion: {version}\n"));
        place.run(&["chart", "package", "web", "-d", "packed"]).ok();
    }
}

/// Runs one helm step, and one that waits for the object of the version expected.
fn install(place: &Place, helm: &str, expected: &str) -> (Value, String) {
    let text = format!(
        "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\nsteps:\n  - {{name: web, timeout: 20s, helm: {{{helm}}}}}\n  - {{name: seen, needs: [web], timeout: 60s, wait: {{for: 'jsonpath={{.metadata.uid}}', on: configmap/web-{expected}}}}}\n"
    );
    place.write("f.yaml", text);
    let ran = place.run(&["run", "apply", "--sandbox", "-q", "-o", "json", "-f", "f.yaml"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    (report, format!("{}{}", ran.out, ran.err))
}

fn installs(place: &Place, helm: &str, expected: &str) {
    let (report, all) = install(place, helm, expected);
    assert_eq!(report["status"], "ok", "{helm}: {all}");
}

/// What the step says that cannot fetch its chart.
fn fails(place: &Place, helm: &str) -> String {
    let (report, all) = install(place, helm, "none");
    let step = &report["steps"][0];
    assert_eq!((&step["status"], &step["errorKind"]), (&"failed".into(), &"fetch".into()), "{helm}: {all}");
    assert!(!all.contains("s3cretpass"), "{all}");
    step["error"].as_str().unwrap().to_owned()
}

/// Scenario S-45 of the specification.
#[test]
fn charts_of_a_repository() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    pack(&place, &["1.0.0", "1.1.0", "1.2.0", "2.0.0-rc1"]);
    place.run(&["repo", "index", "packed"]).ok();
    let store = Store::default();
    let packed = |name: &str| std::fs::read(place.path().join("packed").join(name)).unwrap();
    for name in ["index.yaml", "web-1.0.0.tgz", "web-1.1.0.tgz", "web-1.2.0.tgz", "web-2.0.0-rc1.tgz"] {
        store.lock().unwrap().insert(format!("/charts/{name}"), packed(name));
    }
    let open = Shop::open(&store, Door::Open);
    let repo = format!("repo: 'http://{}/charts/'", open.address);
    // Exactly the version, the newest that is no pre-release, a pre-release by name.
    installs(&place, &format!("chart: 'web:1.0.0', {repo}"), "1-0-0");
    installs(&place, &format!("chart: web, {repo}"), "1-2-0");
    installs(&place, &format!("chart: web, version: 2.0.0-rc1, {repo}"), "2-0-0-rc1");
    assert!(!open.was_shown_a_login());
    // What is not there is told with what is.
    let told = fails(&place, &format!("chart: 'web:1.1.5', {repo}"));
    for version in ["1.0.0", "1.1.0", "1.2.0", "2.0.0-rc1"] {
        assert!(told.contains("not found") && told.contains(version), "{told}");
    }
    assert!(fails(&place, &format!("chart: 'nope:1.0.0', {repo}")).contains("not found"));
    // An archive that is not what the index promises.
    store.lock().unwrap().insert("/charts/web-1.1.0.tgz".into(), packed("web-1.0.0.tgz"));
    assert!(fails(&place, &format!("chart: 'web:1.1.0', {repo}")).contains("promises"));

    // A login goes to the repository, in the address or beside it, and to nobody else.
    let closed = Shop::open(&store, Door::Basic);
    let repo = format!("repo: 'http://{}/charts'", closed.address);
    installs(&place, &format!("chart: 'web:1.0.0', {repo}, auth: {{username: u, password: p}}"), "1-0-0");
    installs(&place, &format!("chart: 'web:1.2.0', repo: 'http://u:p@{}/charts'", closed.address), "1-2-0");
    let told = fails(&place, &format!("chart: 'web:1.0.0', {repo}"));
    assert!(told.contains("401") && told.contains("no credentials were sent"), "{told}");
    let told =
        fails(&place, &format!("chart: 'web:1.0.0', {repo}, auth: {{username: u, password: s3cretpass}}"));
    assert!(told.contains("401") && told.contains("have they expired"), "{told}");
    let elsewhere = Shop::open(&store, Door::Open);
    let index = format!(
        "apiVersion: v1\nentries:\n  web:\n  - {{name: web, version: 1.0.0, apiVersion: v2, urls: ['http://{}/charts/web-1.0.0.tgz']}}\n",
        elsewhere.address
    );
    store.lock().unwrap().insert("/charts/index.yaml".into(), index.into_bytes());
    installs(&place, &format!("chart: 'web:1.0.0', {repo}, auth: {{username: u, password: p}}"), "1-0-0");
    assert!(elsewhere.was_asked_for("web-1.0.0.tgz") && !elsewhere.was_shown_a_login());
}

#[test]
fn the_index_of_a_repository_is_read_once_a_run() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    pack(&place, &["1.0.0", "1.1.0"]);
    place.run(&["repo", "index", "packed"]).ok();
    let store = Store::default();
    for name in ["index.yaml", "web-1.0.0.tgz", "web-1.1.0.tgz"] {
        let bytes = std::fs::read(place.path().join("packed").join(name)).unwrap();
        store.lock().unwrap().insert(format!("/charts/{name}"), bytes);
    }
    let shop = Shop::open(&store, Door::Open);
    let step = |name: &str, version: &str, more: &str| {
        format!(
            "  - {{name: {name}, timeout: 20s, onError: continue, helm: {{chart: 'web:{version}', namespace: {name}, createNamespace: true, repo: 'http://{}/charts{more}}}}}\n",
            shop.address
        )
    };
    let run = |steps: String| {
        place.write(
            "f.yaml",
            format!("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\nsteps:\n{steps}"),
        );
        place.run(&["run", "apply", "--sandbox", "-q", "-o", "json", "-f", "f.yaml"]);
        std::mem::take(&mut *shop.seen.lock().unwrap())
    };
    let asked = |seen: &[Request], part: &str| seen.iter().filter(|(path, _)| path.contains(part)).count();
    // At the same time, one after the other, written in two ways, and for one that is not there.
    let steps = [step("a", "1.0.0", "'"), step("b", "1.1.0", "/'"), step("c", "1.0.5", "'")].concat();
    let late = step("d", "1.0.0", "'").replace("helm:", "needs: [a], helm:");
    let seen = run(format!("{steps}{late}"));
    assert_eq!((asked(&seen, "index.yaml"), asked(&seen, ".tgz")), (1, 3), "{seen:?}");
    // Another user may see another index; another run reads it anew.
    let other = step("b", "1.0.0", "', auth: {username: u, password: p}");
    let seen = run([step("a", "1.0.0", "'"), other].concat());
    assert_eq!(asked(&seen, "index.yaml"), 2, "{seen:?}");
}

/// Scenario S-45 of the specification.
#[test]
fn charts_of_a_registry() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    pack(&place, &["1.0.0+x", "1.2.0", "2.0.0-rc1"]);
    let store = Store::default();
    let pushing = charts::serve(&store);
    place.run(&["chart", "registry", "login", &pushing, "-u", "u", "-p", "p", "--plain-http"]).ok();
    let mut digest = String::new();
    for version in ["1.0.0+x", "1.2.0", "2.0.0-rc1"] {
        let (file, to) = (format!("packed/web-{version}.tgz"), format!("oci://{pushing}/team"));
        let pushed = place.run(&["chart", "push", &file, &to, "--plain-http"]).ok();
        if version == "1.2.0" {
            digest = pushed.rsplit("Digest: ").next().unwrap_or_default().trim().to_owned();
        }
    }
    place.run(&["chart", "registry", "logout", &pushing]).ok();
    let put = |path: &str, bytes: Vec<u8>| store.lock().unwrap().insert(path.to_owned(), bytes);
    let manifest = |tag: &str| store.lock().unwrap()[&format!("/v2/team/web/manifests/{tag}")].clone();
    put("/v2/team/web/tags/list", br#"{"tags": ["latest", "1.0.0_x", "1.2.0", "2.0.0-rc1"]}"#.to_vec());
    put(&format!("/v2/team/web/manifests/{digest}"), manifest("1.2.0"));
    let wrong = format!("sha256:{}", "ab".repeat(32));
    put(&format!("/v2/team/web/manifests/{wrong}"), manifest("1.2.0"));

    for door in [Door::Bearer, Door::Basic] {
        let shop = Shop::open(&store, door);
        let reference = format!("oci://{}/team/web", shop.address);
        let login = "auth: {username: u, password: p}";
        // A `+` is a `_` in a tag; without a tag the newest; a digest says it exactly.
        installs(&place, &format!("chart: '{reference}', version: 1.0.0+x, {login}"), "1-0-0-x");
        assert!(shop.was_asked_for("/manifests/1.0.0_x"));
        assert!(!shop.was_asked_for("/tags/list"), "{door:?}: a full version needs no list");
        installs(&place, &format!("chart: '{reference}:1.0.0+x', {login}"), "1-0-0-x");
        installs(&place, &format!("chart: '{reference}', {login}"), "1-2-0");
        installs(&place, &format!("chart: '{reference}@{digest}', {login}"), "1-2-0");
        installs(&place, &format!("chart: 'oci://u:p@{}/team/web:1.2.0'", shop.address), "1-2-0");
        let told = fails(&place, &format!("chart: '{reference}@{wrong}', {login}"));
        assert!(told.contains("digest mismatch"), "{door:?}: {told}");
        let told = fails(&place, &format!("chart: '{reference}:9.9.9', {login}"));
        assert!(told.contains("not found"), "{door:?}: {told}");
        // Whoever is not let in is told whether credentials were sent.
        let told = fails(&place, &format!("chart: '{reference}:1.2.0'"));
        assert!(told.contains(&shop.address) && told.contains("team/web"), "{door:?}: {told}");
        assert!(told.contains("no credentials were sent"), "{door:?}: {told}");
        let told = fails(
            &place,
            &format!("chart: '{reference}:1.2.0', auth: {{username: u, password: s3cretpass}}"),
        );
        assert!(told.contains("have they expired"), "{door:?}: {told}");
    }
    // Content that is not what its digest says.
    for (path, content) in store.lock().unwrap().iter_mut() {
        if path.contains("/blobs/") {
            content.push(0);
        }
    }
    let shop = Shop::open(&store, Door::Open);
    let told = fails(&place, &format!("chart: 'oci://{}/team/web:1.2.0'", shop.address));
    assert!(told.contains("has the digest"), "{told}");
}

/// Scenario S-70 of the specification.
#[test]
fn manifests_by_their_address() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    let map =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n").into_bytes();
    let store = Store::default();
    let (shop, other) = (Shop::open(&store, Door::Basic), Shop::open(&store, Door::Open));
    for (path, bytes) in [
        ("/map.yaml", map("from-afar")),
        ("/elsewhere", format!("302 http://{}/map.yaml", other.address).into_bytes()),
        ("/file", b"302 file:///etc/hostname".to_vec()),
        ("/loop", format!("302 http://{}/loop", other.address).into_bytes()),
        ("/big", vec![b'#'; 40 << 20]),
    ] {
        store.lock().unwrap().insert(path.into(), bytes);
    }
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let apply = |url: &str| {
        let text = format!(
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\nsteps:\n  - {{name: a, timeout: 20s, apply: {{manifests: [{{url: '{url}'}}]}}}}\n"
        );
        place.write("f.yaml", text);
        let ran = place.run(&["run", "apply", "--sandbox", "-q", "-o", "json", "-f", "f.yaml"]);
        let report: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
        assert!(!format!("{}{}", ran.out, ran.err).contains("s3cretpass"), "{}{}", ran.out, ran.err);
        report["steps"][0].clone()
    };
    let login = format!("http://u:p@{}", shop.address);
    assert_eq!(apply(&format!("{login}/map.yaml"))["status"], "ok");
    // A login does not follow to another host.
    assert_eq!(apply(&format!("{login}/elsewhere"))["status"], "ok");
    assert!(shop.was_shown_a_login() && other.was_asked_for("/map.yaml") && !other.was_shown_a_login());
    let open = format!("http://{}", other.address);
    for (url, told) in [
        (format!("http://u:s3cretpass@{}/map.yaml", shop.address), "401"),
        (format!("{open}/nothing"), "404"),
        (format!("{open}/loop"), "redirect"),
        (format!("{open}/file"), "file"),
        (format!("http://u:s3cretpass@{gone}/x"), "refused"),
    ] {
        let step = apply(&url);
        assert_eq!(
            (&step["status"], &step["errorKind"]),
            (&"failed".into(), &"fetch".into()),
            "{url}: {step}"
        );
        let said = step["error"].as_str().unwrap().to_lowercase();
        assert!(said.contains(told), "{url}: {said}");
    }
    let step = apply(&format!("{open}/big"));
    assert!(step["error"].as_str().unwrap().contains("is larger than 33554432 bytes"), "{step}");
}
