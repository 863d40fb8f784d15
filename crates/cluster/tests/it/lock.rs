//! Two runs, one release.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipway_cluster::lock::{ClusterLock, HeldLock, LockError, LockOptions, annotation_key};
use slipway_cluster::{
    Cluster, Deadline, ErrorClass, NamespaceCreation, NamespaceState, ObjectPatch, RequestLimits,
    WriteOptions,
};
use slipway_event::{Clock, Events, Memory, Redactor, RunId, SystemClock};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_sandbox::{Fault, FaultLayer, FaultRule};

use crate::world::{at, bare, config_map, helm, troubled};

async fn take(cluster: &Cluster, options: &LockOptions) -> Result<HeldLock, LockError> {
    ClusterLock::acquire(cluster, "default", "release/web", options, &Events::silent()).await
}

fn hasty() -> LockOptions {
    LockOptions { patience: Some(Duration::from_secs(1)), ..LockOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() {
    let (_sandbox, cluster) = bare();
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    assert!(held.check_fence(None).await.unwrap());
    let refused = take(&cluster, &hasty()).await.err().unwrap();
    assert!(matches!(refused, LockError::Held { .. }), "{refused}");
    // Another release of the namespace is another matter.
    let other = ClusterLock::acquire(&cluster, "default", "release/other", &hasty(), &Events::silent())
        .await
        .unwrap();
    other.release().await.unwrap();
    let memory = Arc::new(Memory::default());
    let clock = Arc::new(SystemClock);
    let events = Events::new(RunId::generate(&*clock), clock, Redactor::new(), memory.clone());
    let options = LockOptions::default();
    let waiting = ClusterLock::acquire(&cluster, "default", "release/web", &options, &events);
    let giving = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        held.release().await.unwrap();
    };
    let (second, ()) = tokio::join!(waiting, giving);
    assert!(second.unwrap().check_fence(None).await.unwrap());
    assert_eq!(memory.drain().len(), 1, "waiting is told once");
}

/// Writes another holder's lease.
async fn write_lease(cluster: &Cluster, expires: i64) {
    let theirs = json!({"uuid": "theirs", "lockName": "release/web", "ExpireAtTimestamp": expires,
        "SharedHoldersCount": 1, "IsShared": false, "QueueMembers": {}})
    .to_string();
    let patch =
        ObjectPatch::Merge(json!({"metadata": {"annotations": {annotation_key("release/web"): theirs}}}));
    let place = at("v1", "ConfigMap", "werf-synchronization");
    cluster.patch(&place, &patch, &WriteOptions::default(), None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_nobody_renews_is_taken_over() {
    let (_sandbox, cluster) = bare();
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    write_lease(&cluster, 5).await;
    assert!(!held.check_fence(None).await.unwrap(), "somebody else's now");
    assert!(held.lost_token().is_cancelled());
    let started = tokio::time::Instant::now();
    let next = take(&cluster, &LockOptions::default()).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 10, "as long as a lease lasts");
    assert!(next.check_fence(None).await.unwrap());
    held.release().await.unwrap();
    assert!(next.check_fence(None).await.unwrap(), "giving back what was lost changes nothing");
    next.release().await.unwrap();
    let place = at("v1", "ConfigMap", "werf-synchronization");
    let live = cluster.get(&place).await.unwrap().unwrap();
    assert!(live["metadata"]["annotations"].get(annotation_key("release/web")).is_none());
}

/// A clock of a paused runtime that is wrong by some seconds.
struct Shifted {
    base: jiff::Timestamp,
    started: tokio::time::Instant,
}

impl Clock for Shifted {
    fn now(&self) -> jiff::Timestamp {
        self.base + jiff::SignedDuration::try_from(self.started.elapsed()).unwrap()
    }
}

fn wrong_by(seconds: i64) -> Events {
    let base = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let clock = Arc::new(Shifted { base, started: tokio::time::Instant::now() });
    Events::new(RunId::generate(&*clock), clock, Redactor::new(), Arc::new(Memory::default()))
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_neither_steals_a_live_lock_nor_waits_for_ever() {
    for shift in [-3600, 0, 3600] {
        let (_sandbox, cluster) = bare();
        let (right, wrong) = (wrong_by(0), wrong_by(shift));
        let patient = LockOptions { patience: Some(Duration::from_secs(300)), ..LockOptions::default() };
        let acquire = |events| ClusterLock::acquire(&cluster, "default", "release/web", &patient, events);
        let held = acquire(&right).await.unwrap();
        let other = acquire(&wrong).await;
        assert!(matches!(other, Err(LockError::Held { .. })), "{shift}: a live lock is left alone");
        assert!(!held.lost_token().is_cancelled());
        // Its holder dies.
        drop(held);
        let other = acquire(&wrong).await.unwrap();
        let guarded = cluster.with_write_gate(other.write_gate());
        guarded.apply(&at("v1", "ConfigMap", "a"), &config_map("a", "1"), &helm()).await.unwrap();
        // And whoever asks with a right clock respects the lease of the wrong one.
        assert!(matches!(acquire(&right).await, Err(LockError::Held { .. })), "{shift}");
    }
}

#[tokio::test(start_paused = true)]
async fn taking_a_lock_keeps_the_deadline_and_names_the_cause() {
    let cases = [
        (Fault::TooManyRequests { retry_after: 1 }, ErrorClass::Throttled, "status 429"),
        (Fault::ServerError(503), ErrorClass::Server, "503"),
        (Fault::ServerError(500), ErrorClass::Server, "500"),
        (Fault::Reset, ErrorClass::Transport, "tried"),
        (Fault::Delay(Duration::from_secs(3600)), ErrorClass::Timeout, "no answer within 20 s"),
    ];
    for (fault, class, says) in cases {
        let (sandbox, _) = bare();
        let faults = FaultLayer::new(1);
        faults.add(FaultRule::new(fault.clone()));
        let cluster = troubled(&sandbox, &faults).with_deadline(Deadline::after(Duration::from_secs(20)));
        let started = tokio::time::Instant::now();
        let failed = take(&cluster, &LockOptions::default()).await.err().unwrap();
        assert!(started.elapsed() <= Duration::from_secs(20), "{fault:?}: {:?}", started.elapsed());
        let LockError::Cluster(error) = failed else { panic!("{fault:?}: {failed}") };
        assert_eq!(error.class, class, "{fault:?}: {error}");
        assert!(error.to_string().contains(says), "{fault:?}: {error}");
    }
}

/// Takes the lock for another run, as if the lease had expired.
async fn steal(cluster: &Cluster) {
    write_lease(cluster, i64::MAX).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_the_run() {
    let (_sandbox, cluster) = bare();
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!held.lost_token().is_cancelled(), "it is renewed");
    let guarded = cluster.with_write_gate(held.write_gate());
    guarded.apply(&at("v1", "ConfigMap", "a"), &config_map("a", "1"), &helm()).await.unwrap();
    steal(&cluster).await;
    let started = tokio::time::Instant::now();
    held.lost_token().cancelled().await;
    assert!(started.elapsed() <= Duration::from_secs(3), "{:?}", started.elapsed());
    let refused = guarded.apply(&at("v1", "ConfigMap", "a"), &config_map("a", "2"), &helm()).await;
    assert!(refused.unwrap_err().message.contains("lock was lost"));
}

/// A server that does not answer gives the lock to nobody else: what is written waits until it is known whose
/// the lock is.
#[tokio::test(start_paused = true)]
async fn a_silent_server_leaves_the_lock_in_doubt() {
    for stolen in [false, true] {
        let (sandbox, direct) = bare();
        let faults = FaultLayer::new(1);
        let cluster = troubled(&sandbox, &faults);
        let held = take(&cluster, &LockOptions::default()).await.unwrap();
        let guarded = cluster.with_write_gate(held.write_gate());
        faults.add(FaultRule::new(Fault::Reset));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!held.lost_token().is_cancelled(), "six leases long");
        if stolen {
            steal(&direct).await;
        }
        let started = tokio::time::Instant::now();
        let back = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            // Everything but the lock is served at once: a write must not slip through before it is known.
            faults.clear();
            faults.add(FaultRule::new(Fault::Delay(Duration::from_secs(1))).name("werf-synchronization"));
        };
        let place = at("v1", "ConfigMap", "a");
        let (manifest, options) = (config_map("a", "1"), helm());
        let (written, ()) = tokio::join!(guarded.apply(&place, &manifest, &options), back);
        assert!(started.elapsed() >= Duration::from_secs(6), "{:?}", started.elapsed());
        assert_eq!(written.is_err(), stolen, "{written:?}");
        assert_eq!(held.lost_token().is_cancelled(), stolen);
        assert_eq!(direct.get(&place).await.unwrap().is_some(), !stolen);
    }
}

#[tokio::test(start_paused = true)]
async fn hope_for_a_silent_server_ends() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(1);
    let cluster = troubled(&sandbox, &faults);
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    faults.add(FaultRule::new(Fault::Reset));
    let started = tokio::time::Instant::now();
    held.lost_token().cancelled().await;
    assert!((100..=140).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
}

/// Requests that wait for their turn by the thousand do not keep the lease from being renewed.
#[tokio::test(start_paused = true)]
async fn a_renewal_does_not_queue_behind_the_run() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(1);
    let slow = || FaultRule::new(Fault::Delay(Duration::from_secs(1)));
    faults.add(slow().path_contains("/configmaps/m"));
    let cluster = troubled(&sandbox, &faults).with_limits(RequestLimits { reads: 1, writes: 1 });
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("m{number}")).collect();
    // A minute of reads and a minute of writes, all asked for at once.
    let work = futures::future::join_all(names.iter().map(|name| async {
        let (place, cluster) = (at("v1", "ConfigMap", name), cluster.with_write_gate(held.write_gate()));
        let manifest = config_map(name, "1");
        let options = helm();
        let (read, written) = tokio::join!(cluster.get(&place), cluster.apply(&place, &manifest, &options));
        read.unwrap();
        written.unwrap();
    }));
    let started = tokio::time::Instant::now();
    work.await;
    assert!(started.elapsed() >= Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(!held.lost_token().is_cancelled());
    assert!(held.check_fence(None).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn trouble_does_not_lose_the_lock() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(5);
    for fault in [Fault::ServerError(503), Fault::Reset, Fault::LoseAnswer] {
        faults.add(FaultRule::new(fault).probability(0.05));
    }
    let cluster = troubled(&sandbox, &faults);
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!held.lost_token().is_cancelled());
    assert!(held.check_fence(None).await.unwrap());
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn asking_for_the_lock_keeps_the_deadline_of_the_work() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(5);
    let cluster = troubled(&sandbox, &faults);
    let held = take(&cluster, &LockOptions::default()).await.unwrap();
    faults.add(FaultRule::new(Fault::ServerError(503)).method("GET"));
    let (started, deadline) = (tokio::time::Instant::now(), Deadline::after(Duration::from_secs(1)));
    let error = held.check_fence(Some(&deadline)).await.unwrap_err();
    assert!(started.elapsed() <= Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(error.is_late && error.class == ErrorClass::Server, "{error}");
    assert_eq!(deadline.last_error().map(|error| error.class), Some(ErrorClass::Server));
}

#[tokio::test]
async fn the_namespace_is_made_when_missing() {
    let (_sandbox, cluster) = bare();
    let look = |missing| cluster.ensure_namespace("shop", "helm", missing);
    assert_eq!(look(NamespaceCreation::Leave).await.unwrap(), NamespaceState::Missing);
    assert_eq!(look(NamespaceCreation::Create).await.unwrap(), NamespaceState::Created);
    assert_eq!(look(NamespaceCreation::Create).await.unwrap(), NamespaceState::Existed);
    assert_eq!(look(NamespaceCreation::Leave).await.unwrap(), NamespaceState::Existed);
    let namespace = ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, "shop");
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
    assert!(cluster.find_kind(&thing).await.unwrap().is_none());
    let place = ObjectRef::new(
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
        "things.example.com",
    );
    cluster.apply(&place, &definition, &helm()).await.unwrap();
    slipway_cluster::crd::wait_until_served(&cluster, &definition, Duration::from_secs(10)).await.unwrap();
    assert!(cluster.find_kind(&thing).await.unwrap().is_some());
}
