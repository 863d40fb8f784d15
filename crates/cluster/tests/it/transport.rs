//! Connections over TCP: how many there are, and what goes through them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, WatchEvent, WatchParams};
use slipway_cluster::Cluster;
use slipway_cluster::connect::{ConnectOptions, KubeconfigSource, connect};
use slipway_event::Redactor;
use slipway_sandbox::Sandbox;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::world::{at, config_map, helm, soon};

/// Passes connections on to a server.
struct Relay {
    address: SocketAddr,
    /// The connections there have been.
    connections: Arc<AtomicUsize>,
    silence: Arc<Notify>,
}

impl Relay {
    async fn start(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (connections, silence) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let relay = Relay { address: listener.local_addr().unwrap(), connections, silence };
        let (connections, silence) = (relay.connections.clone(), relay.silence.clone());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let silence = silence.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        // The connection stays open, and nothing goes through it any more.
                        () = silence.notified() => std::future::pending().await,
                    }
                });
            }
        });
        relay
    }

    fn connection_count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Lets nothing through the connections that are open now.
    fn silence_connections(&self) {
        self.silence.notify_waiters();
    }
}

/// A sandbox that is listened to, and a relay to it.
async fn relayed_sandbox() -> (Sandbox, Relay) {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build().unwrap();
    let (server, serving) = sandbox.listen(([127, 0, 0, 1], 0).into(), std::future::pending()).await.unwrap();
    tokio::spawn(serving);
    let relay = Relay::start(server).await;
    (sandbox, relay)
}

async fn connect_to(kubeconfig: String) -> Cluster {
    let options =
        ConnectOptions { kubeconfig: KubeconfigSource::Text(kubeconfig.into()), ..ConnectOptions::default() };
    connect(&options, &Redactor::new()).await.unwrap().cluster
}

#[tokio::test]
async fn requests_share_a_connection_and_watches_another() {
    let (sandbox, relay) = relayed_sandbox().await;
    let cluster = connect_to(sandbox.kubeconfig(relay.address)).await;
    soon(cluster.server_version()).await.unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("m{number}")).collect();
    let written = futures::future::join_all(names.iter().map(|name| async {
        cluster.apply(&at("v1", "ConfigMap", name), &config_map(name, "1"), &helm()).await.unwrap();
        cluster.get(&at("v1", "ConfigMap", name)).await.unwrap().unwrap();
    }));
    soon(written).await;
    assert_eq!(relay.connection_count(), 1);

    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let open_watch = async || {
        let mut watch = soon(maps.watch(&WatchParams::default(), "0")).await.unwrap().boxed();
        let first = soon(watch.next()).await.unwrap().unwrap();
        assert!(matches!(first, WatchEvent::Added(_)), "{first:?}");
        watch
    };
    let mut watches = Vec::new();
    for _ in 0..50 {
        watches.push(open_watch().await);
    }
    soon(cluster.get(&at("v1", "ConfigMap", "m1"))).await.unwrap().unwrap();
    assert_eq!(relay.connection_count(), 2);

    // A server might let no more through, so another watch has a connection of its own, until one has ended.
    watches.push(open_watch().await);
    assert_eq!(relay.connection_count(), 3);
    watches.drain(..2);
    watches.push(open_watch().await);
    assert_eq!(relay.connection_count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_notices_that_nothing_comes_through_any_more() {
    let (sandbox, relay) = relayed_sandbox().await;
    let cluster = connect_to(sandbox.kubeconfig(relay.address)).await;
    cluster.apply(&at("v1", "ConfigMap", "m"), &config_map("m", "1"), &helm()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let named = WatchParams::default().fields("metadata.name=m");
    let mut watch = maps.watch(&named, "0").await.unwrap().boxed();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));

    relay.silence_connections();
    let since = Instant::now();
    let end = watch.next().await;
    assert!(matches!(end, None | Some(Err(_))), "{end:?}");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
}

/// A proxy that opens tunnels to whatever it is asked for, and keeps what each client said first.
async fn tunnelling_proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, heads) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let kept = heads.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let kept = kept.clone();
            tokio::spawn(async move {
                let mut near = BufReader::new(near);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    near.read_line(&mut head).await.unwrap();
                }
                let target = head.split(' ').nth(1).unwrap().to_owned();
                kept.lock().unwrap().push(head);
                let mut far = TcpStream::connect(target).await.unwrap();
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel_with_its_login() {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build().unwrap();
    let (server, serving) = sandbox.listen(([127, 0, 0, 1], 0).into(), std::future::pending()).await.unwrap();
    tokio::spawn(serving);
    let (proxy, heads) = tunnelling_proxy().await;
    let kubeconfig = KubeconfigSource::Text(sandbox.kubeconfig(server).into());
    let options = |proxy: String| ConnectOptions {
        kubeconfig: kubeconfig.clone(),
        proxy: Some(proxy),
        ..ConnectOptions::default()
    };
    let through = options(format!("http://jo:p%40ss@{proxy}"));
    let cluster = connect(&through, &Redactor::new()).await.unwrap().cluster;
    soon(cluster.server_version()).await.unwrap();
    soon(cluster.get(&at("v1", "ConfigMap", "none"))).await.unwrap();
    let heads = heads.lock().unwrap().clone();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(heads[0].starts_with(&format!("CONNECT {server} ")), "{heads:?}");
    // jo:p@ss
    assert!(heads[0].contains("Basic am86cEBzcw=="), "{heads:?}");

    let refused = connect(&options("ftp://127.0.0.1:1".into()), &Redactor::new()).await.err().unwrap();
    assert!(refused.message.contains("`ftp`; http, https and socks5 are known"), "{}", refused.message);
}
