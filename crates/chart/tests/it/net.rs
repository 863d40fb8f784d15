//! A registry and a repository on a loopback port, as much of them as charts need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use slipway_chart::deps::{self, UpdateOptions};
use slipway_chart::net::{
    AccessOptions, ClientOptions, Credentials, HelmHome, HttpClient, Login, OciReference, ProvenanceMode,
    RemoteCharts, pull, push, tags,
};
use slipway_chart::repo::{RepositoryEntry, RepositoryIndex, SearchOptions, search};
use slipway_chart::{Chart, ChartFile, LoadOptions, Notices, PackageOptions, package};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What was put, by path.
type Store = Arc<Mutex<HashMap<String, Vec<u8>>>>;

async fn serve(store: Store) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let host = address.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (store, host) = (Arc::clone(&store), host.clone());
            tokio::spawn(async move { answer(stream, &store, &host).await });
        }
    });
    address
}

async fn answer(mut stream: TcpStream, store: &Store, host: &str) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let head = loop {
        let Ok(read) = stream.read(&mut chunk).await else { return };
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let header = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut content = bytes[head + 4..].to_vec();
    while content.len() < length {
        let Ok(read) = stream.read(&mut chunk).await else { return };
        content.extend_from_slice(&chunk[..read]);
    }
    let mut words = text.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, extra, out) = respond(method, path, header("authorization"), content, store, host);
    let out_length = out.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {out_length}\r\nconnection: close\r\n{extra}\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    if method != "HEAD" {
        let _ = stream.write_all(&out).await;
    }
}

fn respond(
    method: &str,
    path: &str,
    authorization: Option<String>,
    content: Vec<u8>,
    store: &Store,
    host: &str,
) -> (&'static str, String, Vec<u8>) {
    let mut store = store.lock().unwrap();
    let none = || (String::new(), Vec::new());
    if path.starts_with("/token") {
        let known = authorization.as_deref() == Some("Basic dTpw");
        let body = br#"{"token": "good"}"#.to_vec();
        return if known {
            ("200 OK", String::new(), body)
        } else {
            ("401 Unauthorized", none().0, none().1)
        };
    }
    if path.starts_with("/v2/") && authorization.as_deref() != Some("Bearer good") {
        let challenge =
            format!("www-authenticate: Bearer realm=\"http://{host}/token\",service=\"test\"\r\n");
        return ("401 Unauthorized", challenge, Vec::new());
    }
    match (method, path.split_once("?digest=")) {
        ("POST", _) => ("202 Accepted", format!("location: {path}1\r\n"), Vec::new()),
        ("PUT", Some((upload, digest))) => {
            let folder = upload.split("uploads/").next().unwrap_or_default();
            store.insert(format!("{folder}{}", digest.replace("%3A", ":")), content);
            ("201 Created", none().0, none().1)
        }
        ("PUT", None) => {
            store.insert(path.to_owned(), content);
            ("201 Created", none().0, none().1)
        }
        _ => match store.get(path) {
            Some(found) => ("200 OK", String::new(), found.clone()),
            None => ("404 Not Found", none().0, none().1),
        },
    }
}

fn chart(name: &str, version: &str) -> Chart {
    let text = format!("apiVersion: v2\nname: {name}\nversion: {version}\ndescription: a <chart>\n");
    let files = vec![ChartFile { name: "Chart.yaml".into(), data: text.as_bytes().into() }];
    Chart::from_files(files, &LoadOptions::default(), &mut Notices::new()).unwrap()
}

#[tokio::test]
async fn a_chart_goes_to_a_registry_and_back() {
    let store = Store::default();
    let host = serve(Arc::clone(&store)).await;
    let client = HttpClient::new(&ClientOptions { plain_http: true, ..ClientOptions::default() }).unwrap();
    let mut credentials = Credentials::default();
    let chart = chart("web", "1.2.3+x");
    let packed = package(&chart, &PackageOptions::default()).unwrap();
    let parent = format!("oci://{host}/team");
    let send = |credentials: Credentials| {
        let (client, parent, metadata, bytes) =
            (client.clone(), parent.clone(), chart.metadata.clone(), packed.bytes.clone());
        async move { push(&client, &credentials, &parent, &metadata, &bytes, None, "2024-01-01T00:00:00Z").await }
    };
    assert!(send(credentials.clone()).await.unwrap_err().to_string().contains("log in first"));
    credentials.insert(&host, &Login { username: "u".into(), password: "p".into() });
    let pushed = send(credentials.clone()).await.unwrap();
    assert_eq!(pushed.reference, format!("{host}/team/web:1.2.3_x"));
    let reference = OciReference::parse(&format!("{parent}/web:1.2.3_x")).unwrap();
    let pulled = pull(&client, &credentials, &reference).await.unwrap();
    assert_eq!(pulled.chart, packed.bytes);
    assert_eq!(pulled.digest, pushed.digest);

    store
        .lock()
        .unwrap()
        .insert("/v2/team/web/tags/list".into(), br#"{"tags": ["latest", "1.0.0", "1.2.3_x"]}"#.to_vec());
    assert_eq!(tags(&client, &credentials, &reference).await.unwrap(), ["1.2.3+x", "1.0.0"]);

    for (path, content) in store.lock().unwrap().iter_mut() {
        if path.contains("blobs") {
            content.push(0);
        }
    }
    assert!(
        pull(&client, &credentials, &reference).await.unwrap_err().to_string().contains("has the digest")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dependencies_come_from_a_repository() {
    let packed = package(&chart("sub", "0.2.0"), &PackageOptions::default()).unwrap();
    let index = "apiVersion: v1\nentries:\n  sub:\n  - {name: sub, version: 0.2.0, apiVersion: v2, urls: [sub-0.2.0.tgz]}\n";
    let store = Store::default();
    store.lock().unwrap().insert("/charts/index.yaml".into(), index.as_bytes().to_vec());
    store.lock().unwrap().insert("/charts/sub-0.2.0.tgz".into(), packed.bytes.clone());
    let host = serve(store).await;
    let folder = tempfile::tempdir().unwrap();
    let text = "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {name: sub, version: ~0.2, repository: \"@local\"}\n";
    std::fs::write(folder.path().join("Chart.yaml"), text).unwrap();
    let remote = remote(folder.path(), AccessOptions::default());
    add(&remote, "local", &format!("http://{host}/charts"));
    let fetcher = remote.clone();
    let lines = deps::update(folder.path(), &fetcher, &UpdateOptions::default()).unwrap();
    let told = format!("Downloading sub from repo http://{host}/charts");
    assert_eq!(lines, ["Saving 1 charts", &told, "Deleting outdated charts"]);
    let lock = std::fs::read_to_string(folder.path().join("Chart.lock")).unwrap();
    assert!(lock.contains(&format!("repository: http://{host}/charts")), "{lock}");
    deps::build(folder.path(), &fetcher, &UpdateOptions::default()).unwrap();
    assert_eq!(std::fs::read(folder.path().join("charts/sub-0.2.0.tgz")).unwrap(), packed.bytes);
}

/// A way to charts whose state lives in a folder of the test.
fn remote(folder: &std::path::Path, access: AccessOptions) -> RemoteCharts {
    let home = HelmHome {
        repositories: folder.join("repositories.yaml"),
        cache: folder.join("cache"),
        registry: folder.join("registry/config.json"),
        docker: None,
    };
    RemoteCharts::new(home, access, Arc::new(|_, _| None))
}

fn add(remote: &RemoteCharts, name: &str, url: &str) {
    let repository = RepositoryEntry { name: name.into(), url: url.into(), ..RepositoryEntry::default() };
    remote
        .home
        .change_repositories(|repositories| {
            repositories.update(repository);
            Ok(())
        })
        .unwrap();
}

/// A repository with four versions of `foo`, in a folder and over HTTP.
async fn repository() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::default();
    for version in ["0.1.0", "0.2.0", "0.10.0", "1.0.0-rc1"] {
        let packed = package(&chart("foo", version), &PackageOptions::default()).unwrap();
        std::fs::write(folder.path().join(&packed.file_name), &packed.bytes).unwrap();
        store.lock().unwrap().insert(format!("/c/{}", packed.file_name), packed.bytes);
    }
    let index = RepositoryIndex::of_directory(folder.path(), "", "2024-01-01T00:00:00Z").unwrap();
    store.lock().unwrap().insert("/c/index.yaml".into(), index.to_yaml().into_bytes());
    let host = serve(store).await;
    (folder, format!("http://{host}/c"))
}

#[tokio::test]
async fn charts_are_found_by_the_names_users_give() {
    let (folder, url) = repository().await;
    let known = remote(folder.path(), AccessOptions::default());
    add(&known, "loc", &url);
    let none = known.locate("loc/foo", ProvenanceMode::No).await.unwrap_err().to_string();
    assert!(none.starts_with("no cached repo found. (try 'helm repo update')"), "{none}");
    let repositories = known.home.repositories().unwrap();
    known.update(repositories.get("loc").unwrap()).await.unwrap();

    let with = |version: &str, repo: &str| {
        let access = AccessOptions { version: version.into(), repo: repo.into(), ..AccessOptions::default() };
        remote(folder.path(), access)
    };
    let direct = format!("{url}/foo-0.2.0.tgz");
    for (version, repo, name, expected) in [
        ("", "", "loc/foo", Ok("foo-0.10.0.tgz")),
        (">0.0.0-0", "", "loc/foo", Ok("foo-1.0.0-rc1.tgz")),
        ("~0.1", "", "loc/foo", Ok("foo-0.1.0.tgz")),
        ("<0.2", url.as_str(), "foo", Ok("foo-0.1.0.tgz")),
        ("", "", direct.as_str(), Ok("foo-0.2.0.tgz")),
        (
            "9",
            "",
            "loc/foo",
            Err(
                "chart \"foo\" matching 9 not found in loc index. (try 'helm repo update'): no chart version found for foo-9",
            ),
        ),
        (
            "",
            "",
            "loc/nope",
            Err(
                "chart \"nope\" matching  not found in loc index. (try 'helm repo update'): no chart name found",
            ),
        ),
        ("", "", "other/foo", Err("repo other not found")),
        ("", "", "./nothing", Err("path \"./nothing\" not found")),
        ("", "", "foo", Err("non-absolute URLs should be in form of repo_name/path_to_chart, got: foo")),
    ] {
        let found = with(version, repo).locate(name, ProvenanceMode::No).await;
        let found = found
            .map(|found| found.path.file_name().unwrap().to_string_lossy().into_owned())
            .map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{name} {version}");
    }
    let missing = with("9", &url).locate("foo", ProvenanceMode::No).await.unwrap_err().to_string();
    assert_eq!(missing, format!("chart \"foo\" version \"9\" not found in {url} repository"));

    let indexes = [("loc".to_owned(), known.home.cached_index("loc").unwrap())];
    let count = |options: SearchOptions| search(&indexes, &options).unwrap().len();
    let options = SearchOptions { keyword: "FO".into(), ..SearchOptions::default() };
    assert_eq!(count(options.clone()), 1);
    assert_eq!(count(SearchOptions { versions: true, ..options.clone() }), 3);
    assert_eq!(count(SearchOptions { versions: true, devel: true, ..options.clone() }), 4);
    assert_eq!(count(SearchOptions { keyword: "f.*t>".into(), regexp: true, ..options }), 1);
}

#[tokio::test]
async fn a_chart_that_is_not_what_the_index_promises_is_refused() {
    let (folder, url) = repository().await;
    let known = remote(folder.path(), AccessOptions::default());
    add(&known, "loc", &url);
    let mut index = RepositoryIndex::of_directory(folder.path(), "", "2024-01-01T00:00:00Z").unwrap();
    for entry in index.entries.get_mut("foo").unwrap() {
        entry.digest = "00".repeat(32);
    }
    known.home.store_index("loc", &index, index.to_yaml().as_bytes()).unwrap();
    let error = known.locate("loc/foo", ProvenanceMode::No).await.unwrap_err().to_string();
    assert!(error.contains("the repository's index promises"), "{error}");
}
