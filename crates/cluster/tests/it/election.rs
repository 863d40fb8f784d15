//! Elections: who takes over from a leader that is gone, and when.

use std::time::Duration;

use serde_json::json;
use slipway_cluster::election::{ElectionOptions, ElectionTimes, elect, read_lease};
use slipway_cluster::{Cluster, ObjectPatch, RequestVerb, WriteOptions};
use tokio::time::Instant;

use crate::world::{at, bare};

fn candidate(identity: &str) -> ElectionOptions {
    ElectionOptions {
        namespace: "default".into(),
        name: "work".into(),
        identity: identity.into(),
        manager: "test".into(),
        times: ElectionTimes::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_within_fifteen_seconds() {
    for milliseconds in [0, 1, 500, 1000, 1500, 1999] {
        let (_sandbox, cluster) = bare();
        let leader = elect(&cluster, &candidate("first")).await;
        // It looks at another moment than the leader renews.
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        let standby = tokio::spawn({
            let cluster = cluster.clone();
            async move { elect(&cluster, &candidate("second")).await }
        });
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!standby.is_finished(), "a Lease that is renewed is left alone");
        let killed = Instant::now();
        drop(leader);
        let _next = standby.await.unwrap();
        let took = killed.elapsed();
        assert!(took <= Duration::from_secs(15), "{took:?} with {milliseconds} ms between them");
    }
}

/// Changes the Lease as somebody else.
async fn change_lease(cluster: &Cluster, change: serde_json::Value) {
    let lease = at("coordination.k8s.io/v1", "Lease", "work");
    cluster.patch(&lease, &ObjectPatch::Merge(change), &WriteOptions::default(), None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_term_is_renewed_without_being_read() {
    let (_sandbox, cluster) = bare();
    let leader = elect(&cluster, &candidate("first")).await;
    let before = cluster.call_counts();
    let since = async |seconds: u64| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let calls = cluster.call_counts().since(&before);
        (calls.count_of(RequestVerb::Get), calls.count_of(RequestVerb::Replace))
    };
    assert_eq!(since(21).await, (0, 10));
    // What somebody else wrote is read once, and kept.
    change_lease(&cluster, json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    assert_eq!(since(20).await, (1, 21), "one renewal was refused");
    leader.release().await.unwrap();
    assert_eq!(since(0).await, (1, 22));
    let lease = read_lease(&cluster, "default", "work").await.unwrap().unwrap();
    assert_eq!((lease.holder.as_str(), lease.transitions), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_somebody_else_has_taken_is_lost() {
    let (_sandbox, cluster) = bare();
    let leader = elect(&cluster, &candidate("first")).await;
    change_lease(&cluster, json!({"spec": {"holderIdentity": "second", "leaseTransitions": 1}})).await;
    tokio::time::timeout(Duration::from_secs(3), leader.lost_token().cancelled()).await.unwrap();
    leader.release().await.unwrap();
    let lease = read_lease(&cluster, "default", "work").await.unwrap().unwrap();
    assert_eq!((lease.holder.as_str(), lease.transitions), ("second", 1), "giving back changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_lost() {
    let (_sandbox, cluster) = bare();
    let leader = elect(&cluster, &candidate("first")).await;
    let lease = at("coordination.k8s.io/v1", "Lease", "work");
    cluster.delete(&lease, &slipway_cluster::DeleteOptions::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(3), leader.lost_token().cancelled()).await.unwrap();
}
