//! Connections over TCP: how many there are, and what goes through them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, WatchEvent, WatchParams};
use slipway_cluster::Cluster;
use slipway_cluster::connect::{ConnectOptions, KubeconfigSource, connect};
use slipway_event::Redactor;
use slipway_sandbox::Sandbox;
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
