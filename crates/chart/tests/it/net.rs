//! A registry and a repository on a loopback port, as much of them as charts need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use slipway_chart::deps::{self, UpdateOptions};
use slipway_chart::net::{Client, ClientOptions, Credentials, Fetcher, Login, Reference, pull, push, tags};
use slipway_chart::repo::{Repositories, Repository};
use slipway_chart::{Chart, File, LoadOptions, Notices, PackageOptions, package};
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
    let files = vec![File { name: "Chart.yaml".into(), data: text.as_bytes().into() }];
    Chart::from_files(files, &LoadOptions::default(), &mut Notices::new()).unwrap()
}

#[tokio::test]
async fn a_chart_goes_to_a_registry_and_back() {
    let store = Store::default();
    let host = serve(Arc::clone(&store)).await;
    let client = Client::new(&ClientOptions { plain_http: true, ..ClientOptions::default() }).unwrap();
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
    credentials.insert(&host, Login { username: "u".into(), password: "p".into() });
    let pushed = send(credentials.clone()).await.unwrap();
    assert_eq!(pushed.reference, format!("{host}/team/web:1.2.3_x"));
    let reference = Reference::parse(&format!("{parent}/web:1.2.3_x")).unwrap();
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
    let mut repositories = Repositories::default();
    let url = format!("http://{host}/charts");
    repositories.update(Repository { name: "local".into(), url, ..Repository::default() });
    let client = Client::new(&ClientOptions::default()).unwrap();
    let fetcher = Fetcher { client, repositories, credentials: Credentials::default() };
    let lines = deps::update(folder.path(), &fetcher, &UpdateOptions::default()).unwrap();
    assert_eq!(lines, ["Saving 1 charts", "Downloading sub from repo @local", "Deleting outdated charts"]);
    assert_eq!(std::fs::read(folder.path().join("charts/sub-0.2.0.tgz")).unwrap(), packed.bytes);
}
