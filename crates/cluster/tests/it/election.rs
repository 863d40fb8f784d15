//! Elections: who takes over from a leader that is gone, and when.

use std::time::Duration;

use slipway_cluster::election::{ElectionOptions, ElectionTimes, elect};
use tokio::time::Instant;

use crate::world::bare;

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
