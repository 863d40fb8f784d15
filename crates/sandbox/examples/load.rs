//! Loads the API server of a kubeconfig and prints how much it serves, one JSON object a line:
//! `cargo run --example load -- KUBECONFIG SECONDS CONNECTIONS`. With a number of objects as a fourth word
//! it creates that many instead, follows them with watches and lists them page by page, and fails when
//! one is missing, comes twice or comes out of order. With `half-open` it holds that many connections half open
//! (`ulimit -n` must allow them) and prints how long a client with credentials waits meanwhile.

use std::collections::HashSet;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

type Failure = Box<dyn Error + Send + Sync>;

/// Where a server is and how to speak to it.
struct Server {
    host: String,
    token: String,
    tls: TlsConnector,
}

impl Server {
    fn of(kubeconfig: &Path) -> Result<Server, Failure> {
        let config = slipway_yaml::from_str_helm(&std::fs::read_to_string(kubeconfig)?)?;
        let cluster = &config["clusters"][0]["cluster"];
        let pem = match cluster["certificate-authority-data"].as_str() {
            Some(data) => base64::engine::general_purpose::STANDARD.decode(data)?,
            None => {
                std::fs::read(cluster["certificate-authority"].as_str().ok_or("no certificate authority")?)?
            }
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let url = cluster["server"].as_str().ok_or("no server")?;
        Ok(Server {
            host: url.trim_start_matches("https://").to_owned(),
            token: config["users"][0]["user"]["token"].as_str().ok_or("no token")?.to_owned(),
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = TcpStream::connect(&self.host).await?;
        stream.set_nodelay(true)?;
        let name = self.host.rsplit_once(':').map_or(&*self.host, |(name, _)| name).to_owned();
        let stream = self.tls.connect(ServerName::try_from(name)?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// One connection.
struct Client {
    server: Arc<Server>,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    async fn send(&mut self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<u16, Failure> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.server.host)
            .header("authorization", format!("Bearer {}", self.server.token))
            .header("user-agent", "load/1")
            .header("accept", "application/json");
        if let Some((kind, _)) = body {
            request = request.header("content-type", kind);
        }
        let text = body.map_or_else(Vec::new, |(_, value)| value.to_string().into_bytes());
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::from(text))?).await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(status)
    }

    /// The body of a GET as it comes.
    async fn open(&mut self, path: &str) -> Result<Incoming, Failure> {
        let request = http::Request::builder()
            .uri(path)
            .header("host", &self.server.host)
            .header("authorization", format!("Bearer {}", self.server.token))
            .header("accept", "application/json")
            .body(Full::default())?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?.into_body())
    }

    /// What a GET answers.
    async fn fetch(&mut self, path: &str) -> Result<(u64, Value), Failure> {
        let bytes = self.open(path).await?.collect().await?.to_bytes();
        let value: Value = serde_json::from_slice(&bytes)?;
        Ok((value["code"].as_u64().unwrap_or(200), value))
    }
}

fn settings(name: &str, value: u64) -> Value {
    let data: serde_json::Map<String, Value> =
        (0..8).map(|key| (format!("key-{key}"), json!(format!("value {value} of key {key}")))).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "load", "tier": "test"}}, "data": data,
    })
}

/// What is measured: how request `number` of connection `of` looks.
const OPERATIONS: &[&str] = &["create", "get", "list", "apply"];

async fn one(
    client: &mut Client,
    operation: &str,
    space: &str,
    of: usize,
    number: u64,
) -> Result<(), Failure> {
    let all = format!("/api/v1/namespaces/{space}/configmaps");
    let status = match operation {
        "create" => {
            let object = settings(&format!("made-{of}-{number}"), number);
            client.send("POST", &all, Some(("application/json", &object))).await?
        }
        "get" => client.send("GET", &format!("{all}/known-{}", number % 100), None).await?,
        "list" => client.send("GET", &format!("{all}?labelSelector=app%3Dload&limit=100"), None).await?,
        _ => {
            let name = format!("known-{}", (of as u64 * 7 + number) % 100);
            let path = format!("{all}/{name}?fieldManager=load&force=true");
            client
                .send("PATCH", &path, Some(("application/apply-patch+yaml", &settings(&name, number))))
                .await?
        }
    };
    if status < 300 { Ok(()) } else { Err(format!("{operation} answers {status}").into()) }
}

async fn measure(
    server: &Arc<Server>,
    operation: &'static str,
    space: &str,
    time: Duration,
    connections: usize,
) -> Result<f64, Failure> {
    let served = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut tasks = Vec::new();
    for of in 0..connections {
        let mut client = Client { server: server.clone(), sender: server.connect().await? };
        let (served, space) = (served.clone(), space.to_owned());
        tasks.push(tokio::spawn(async move {
            let mut number = 0;
            while started.elapsed() < time {
                one(&mut client, operation, &space, of, number).await?;
                number += 1;
                served.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Failure>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(served.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
}

/// Reads a watch until `count` objects have been added; says how many were, once each and in order.
async fn follow(server: Arc<Server>, path: String, count: u64) -> Result<u64, Failure> {
    let mut client = Client { sender: server.connect().await?, server };
    let mut body = client.open(&path).await?;
    let (mut text, mut names, mut last) = (Vec::new(), HashSet::new(), 0_u64);
    while (names.len() as u64) < count {
        let Some(frame) = body.frame().await else { return Err("the watch ended".into()) };
        let Ok(data) = frame?.into_data() else { continue };
        text.extend_from_slice(&data);
        let mut start = 0;
        while let Some(end) = text.get(start..).and_then(|rest| rest.iter().position(|b| *b == b'\n')) {
            let event: Value = serde_json::from_slice(text.get(start..start + end).unwrap_or_default())?;
            start += end + 1;
            let meta = &event["object"]["metadata"];
            let revision: u64 = meta["resourceVersion"].as_str().unwrap_or_default().parse()?;
            if event["type"] != "ADDED" || revision <= last {
                return Err(format!("{} at {revision} after {last}", event["type"]).into());
            }
            last = revision;
            if !names.insert(meta["name"].as_str().unwrap_or_default().to_owned()) {
                return Err(format!("{} comes twice", meta["name"]).into());
            }
        }
        text.drain(..start);
    }
    Ok(names.len() as u64)
}

/// Creates `count` objects, watched by several, and lists them in pages.
async fn crowd(server: &Arc<Server>, space: &str, count: u64, connections: usize) -> Result<(), Failure> {
    let all = format!("/api/v1/namespaces/{space}/configmaps");
    let chosen = "labelSelector=app%3Dload";
    let mut client = Client { server: server.clone(), sender: server.connect().await? };
    let (_, page) = client.fetch(&format!("{all}?limit=1")).await?;
    let from = page["metadata"]["resourceVersion"].as_str().ok_or("no revision")?.to_owned();
    let watch = format!("{all}?watch=true&resourceVersion={from}&{chosen}");
    let watches: Vec<_> =
        (0..WATCHES).map(|_| tokio::spawn(follow(server.clone(), watch.clone(), count))).collect();
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut writers = Vec::new();
    for _ in 0..connections {
        let mut client = Client { server: server.clone(), sender: server.connect().await? };
        let (next, all) = (next.clone(), all.clone());
        writers.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok::<(), Failure>(());
                }
                let object = settings(&format!("object-{number:07}"), number);
                let status = client.send("POST", &all, Some(("application/json", &object))).await?;
                if status != 201 {
                    return Err(format!("create answers {status}").into());
                }
            }
        }));
    }
    for writer in writers {
        writer.await??;
    }
    let created = started.elapsed().as_secs_f64();
    let mut events = 0;
    for watch in watches {
        events += watch.await??;
    }
    let watched = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let (mut seen, mut pages, mut token) = (HashSet::new(), 0, String::new());
    loop {
        let (status, page) =
            client.fetch(&format!("{all}?limit=500&{chosen}&continue={}", token.replace('=', "%3D"))).await?;
        if status != 200 {
            return Err(format!("a page answers {status}: {page}").into());
        }
        pages += 1;
        for item in page["items"].as_array().into_iter().flatten() {
            if !seen.insert(item["metadata"]["name"].as_str().unwrap_or_default().to_owned()) {
                return Err(format!("{} is listed twice", item["metadata"]["name"]).into());
            }
        }
        match page["metadata"]["continue"].as_str() {
            Some(more) if !more.is_empty() => token = more.to_owned(),
            _ => break,
        }
    }
    let listed = started.elapsed().as_secs_f64();
    if seen.len() as u64 != count || events != count * WATCHES {
        return Err(format!("{} listed and {events} events of {count} objects", seen.len()).into());
    }
    for (operation, number, seconds) in [
        ("object created", count, created),
        ("watch event", events, watched),
        ("object listed", count, listed),
        ("page of 500", pages, listed),
    ] {
        let rate = number as f64 / seconds;
        let row = json!({"operation": operation, "number": number, "seconds": seconds, "per second": rate});
        writeln!(std::io::stdout(), "{row}")?;
    }
    Ok(())
}

/// Creates deployments of three replicas, one after the other, and says how long the median one took
/// until it was available.
async fn deployment(client: &mut Client, space: &str) -> Result<(), Failure> {
    let all = format!("/apis/apps/v1/namespaces/{space}/deployments");
    let mut times = Vec::new();
    for number in 0..11 {
        let name = format!("web-{number}");
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            }},
        });
        let started = Instant::now();
        client.send("POST", &all, Some(("application/json", &object))).await?;
        loop {
            let (_, found) = client.fetch(&format!("{all}/{name}")).await?;
            if found["status"]["availableReplicas"] == 3 {
                break;
            }
            if started.elapsed() > Duration::from_secs(30) {
                return Err(format!("{name} does not become available").into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    writeln!(
        std::io::stdout(),
        "{}",
        json!({"operation": "deployment available", "ms": times.get(times.len() / 2)})
    )?;
    Ok(())
}

/// How many watch a crowd of objects come.
const WATCHES: u64 = 3;

/// Holds connections half open and times requests of somebody with credentials, on connections of their own.
async fn half_open(server: &Arc<Server>, connections: usize) -> Result<(), Failure> {
    const HALF_HELLO: &[u8] = &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01];
    let mut held = Vec::new();
    for number in 0..connections {
        let mut stream = TcpStream::connect(&server.host).await?;
        if number % 2 == 0 {
            stream.write_all(HALF_HELLO).await?;
        }
        held.push(stream);
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let started = Instant::now();
        let mut client = Client { server: server.clone(), sender: server.connect().await? };
        client.send("GET", "/api/v1/namespaces/default", None).await?;
        slowest = slowest.max(started.elapsed());
    }
    let shown =
        json!({"half open": held.len(), "slowest answer in milliseconds": slowest.as_millis() as u64});
    writeln!(std::io::stdout(), "{shown}")?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let kubeconfig = arguments.next().ok_or("usage: load KUBECONFIG SECONDS CONNECTIONS [OBJECTS]")?;
    let seconds: f64 = arguments.next().as_deref().unwrap_or("3").parse()?;
    let connections: usize = arguments.next().as_deref().unwrap_or("8").parse()?;
    let server = Arc::new(Server::of(Path::new(&kubeconfig))?);
    let space = format!("load-{}", std::process::id());
    let mut client = Client { server: server.clone(), sender: server.connect().await? };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
    client.send("POST", "/api/v1/namespaces", Some(("application/json", &namespace))).await?;
    if let Some(count) = arguments.next() {
        if count == "half-open" {
            return half_open(&server, connections).await;
        }
        if count == "deployment" {
            return deployment(&mut client, &space).await;
        }
        return crowd(&server, &space, count.parse()?, connections).await;
    }
    for number in 0..100 {
        let all = format!("/api/v1/namespaces/{space}/configmaps");
        let object = settings(&format!("known-{number}"), 0);
        client.send("POST", &all, Some(("application/json", &object))).await?;
    }
    for operation in OPERATIONS {
        let rate = measure(&server, operation, &space, Duration::from_secs_f64(seconds), connections).await?;
        writeln!(std::io::stdout(), "{}", json!({"operation": operation, "per second": rate}))?;
    }
    client.send("DELETE", &format!("/api/v1/namespaces/{space}"), None).await?;
    Ok(())
}
