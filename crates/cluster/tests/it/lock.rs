//! Two runs, one release.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipway_cluster::lock::{Held, Lock, LockOptions, annotation};
use slipway_cluster::{At, Cluster, Error, ErrorClass, Missing, Namespace, Patch, Retry, WriteOptions};
use slipway_event::{Events, Memory, Redactor, RunId, SystemClock};
use slipway_manifest::Gvk;
use slipway_sandbox::{Fault, FaultLayer, Rule};

use crate::world::{at, bare, troubled};

async fn take(cluster: &Cluster, options: &LockOptions) -> Result<Held, Error> {
    Lock::acquire(cluster, "default", "release/web", options, &Events::silent()).await
}

fn hasty() -> LockOptions {
    LockOptions { patience: Some(Duration::from_secs(1)), ..LockOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() {
    let (_sandbox, cluster) = bare();
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    assert!(held.check_fence().await.unwrap());
    let refused = take(&cluster, &hasty()).await.err().unwrap();
    assert_eq!(refused.class, ErrorClass::Timeout);
    // Another release of the namespace is another matter.
    let other =
        Lock::acquire(&cluster, "default", "release/other", &hasty(), &Events::silent()).await.unwrap();
    other.release().await.unwrap();
    let memory = Arc::new(Memory::default());
    let clock = Arc::new(SystemClock);
    let events = Events::new(RunId::generate(&*clock), clock, Redactor::new(), memory.clone());
    let options = LockOptions::default();
    let waiting = Lock::acquire(&cluster, "default", "release/web", &options, &events);
    let giving = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        held.release().await.unwrap();
    };
    let (second, ()) = tokio::join!(waiting, giving);
    assert!(second.unwrap().check_fence().await.unwrap());
    assert_eq!(memory.drain().len(), 1, "waiting is told once");
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_taken_over() {
    let (_sandbox, cluster) = bare();
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    let key = annotation("release/web");
    let stale = json!({"uuid": "theirs", "lockName": "release/web", "ExpireAtTimestamp": 5,
        "SharedHoldersCount": 1, "IsShared": false, "QueueMembers": {}})
    .to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {key: stale}}}));
    let place = at("v1", "ConfigMap", "werf-synchronization");
    cluster.patch(&place, &patch, &WriteOptions::default(), None).await.unwrap();
    assert!(!held.check_fence().await.unwrap(), "somebody else's now");
    assert!(held.lost().is_cancelled());
    let next = take(&cluster, &hasty()).await.unwrap();
    assert!(next.check_fence().await.unwrap());
    held.release().await.unwrap();
    assert!(next.check_fence().await.unwrap(), "giving back what was lost changes nothing");
    next.release().await.unwrap();
    let live = cluster.get(&place).await.unwrap().unwrap();
    assert!(live["metadata"]["annotations"].get(annotation("release/web")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_the_run() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(1);
    let cluster = troubled(&sandbox, &faults).with_retry(Retry::never());
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!held.lost().is_cancelled(), "it is renewed");
    faults.add(Rule::new(Fault::Reset));
    let started = tokio::time::Instant::now();
    held.lost().cancelled().await;
    assert!(started.elapsed() <= Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn trouble_does_not_lose_the_lock() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(5);
    for fault in [Fault::ServerError(503), Fault::Reset, Fault::LoseAnswer] {
        faults.add(Rule::new(fault).probability(0.05));
    }
    let cluster = troubled(&sandbox, &faults);
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!held.lost().is_cancelled());
    assert!(held.check_fence().await.unwrap());
    held.release().await.unwrap();
}

#[tokio::test]
async fn the_namespace_is_made_when_missing() {
    let (_sandbox, cluster) = bare();
    let look = |missing| cluster.ensure_namespace("shop", "helm", missing);
    assert_eq!(look(Missing::Leave).await.unwrap(), Namespace::Missing);
    assert_eq!(look(Missing::Create).await.unwrap(), Namespace::Created);
    assert_eq!(look(Missing::Create).await.unwrap(), Namespace::Existed);
    assert_eq!(look(Missing::Leave).await.unwrap(), Namespace::Existed);
    let namespace = At::new(Gvk::new("", "v1", "Namespace"), None, "shop");
    assert!(cluster.get(&namespace).await.unwrap().is_some());
}

#[tokio::test]
async fn a_definition_is_waited_for() {
    let (_sandbox, cluster) = bare();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let thing = Gvk::new("example.com", "v1", "Thing");
    assert!(cluster.kind(&thing).await.unwrap().is_none());
    let place = At::new(
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
        "things.example.com",
    );
    cluster.apply(&place, &definition, &crate::world::helm()).await.unwrap();
    slipway_cluster::crd::wait_served(&cluster, &definition, Duration::from_secs(10)).await.unwrap();
    assert!(cluster.kind(&thing).await.unwrap().is_some());
}
