//! Connections over TCP: how many there are, and what goes through them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, WatchEvent, WatchParams};
use slipway_cluster::Cluster;
use slipway_cluster::connect::{ConnectOptions, KubeconfigSource, connect};
use slipway_event::Redactor;
use slipway_sandbox::Sandbox;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{at, config_map, helm, soon};

/// Passes connections on to a server and counts them.
async fn relay_to(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, count)
}

async fn connect_to(kubeconfig: String) -> Cluster {
    let options =
        ConnectOptions { kubeconfig: KubeconfigSource::Text(kubeconfig.into()), ..ConnectOptions::default() };
    connect(&options, &Redactor::new()).await.unwrap().cluster
}

#[tokio::test]
async fn requests_share_a_connection_and_watches_have_their_own() {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build().unwrap();
    let (server, serving) = sandbox.listen(([127, 0, 0, 1], 0).into(), std::future::pending()).await.unwrap();
    tokio::spawn(serving);
    let (address, connections) = relay_to(server).await;
    let cluster = connect_to(sandbox.kubeconfig(address)).await;
    soon(cluster.server_version()).await.unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("m{number}")).collect();
    let written = futures::future::join_all(names.iter().map(|name| async {
        cluster.apply(&at("v1", "ConfigMap", name), &config_map(name, "1"), &helm()).await.unwrap();
        cluster.get(&at("v1", "ConfigMap", name)).await.unwrap().unwrap();
    }));
    soon(written).await;
    assert_eq!(connections.load(Ordering::SeqCst), 1);

    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut watch = soon(maps.watch(&WatchParams::default(), "0")).await.unwrap().boxed();
    let first = soon(watch.next()).await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(_)), "{first:?}");
    soon(cluster.get(&at("v1", "ConfigMap", "m1"))).await.unwrap().unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
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
