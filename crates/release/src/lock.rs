//! One run at a time: the lock other tools of this kind take as well, a leased annotation on a ConfigMap.

use std::time::Duration;

use serde_json::{Value, json};
use sha3::{Digest, Sha3_224};
use slipway_cluster::{At, Cluster, ErrorClass, WriteOptions};
use slipway_event::{Event, Events};
use slipway_manifest::{Gvk, object};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

const CONFIG_MAP: &str = "werf-synchronization";
const LEASE: i64 = 10;
const RENEW: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_secs(1);

/// A lock that is held; let go of it with [`Held::release`].
pub struct Held {
    lease: Lease,
    stop: CancellationToken,
    lost: CancellationToken,
    renewing: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Lease {
    cluster: Cluster,
    at: At,
    key: String,
    name: String,
    id: String,
}

/// The annotation a lock of that name is kept in.
pub fn annotation(name: &str) -> String {
    let hash = Sha3_224::digest(name.as_bytes());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("lockgate.io/{hash}")
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Waits for the lock of a release and takes it.
pub async fn acquire(
    cluster: &Cluster,
    namespace: &str,
    release: &str,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Held, Failure> {
    let name = format!("release/{release}");
    let lease = Lease {
        cluster: cluster.clone(),
        at: At::new(Gvk::new("", "v1", "ConfigMap"), Some(namespace), CONFIG_MAP),
        key: annotation(&name),
        id: uuid::Uuid::new_v4().to_string(),
        name,
    };
    let mut told = false;
    loop {
        match lease.take().await? {
            Taken::Ours => break,
            Taken::Raced => continue,
            Taken::Theirs => {
                if !told {
                    told = true;
                    let message = format!("waiting for another run of release {release} to end");
                    events.send(Event::Progress { node: None, message, done: None, total: None });
                }
                tokio::select! {
                    () = tokio::time::sleep(POLL) => {}
                    () = cancel.cancelled() => {
                        return Err(Failure::Cancelled {
                            message: format!("stopped while waiting for the lock of release {release}"),
                            report: None,
                        });
                    }
                }
            }
        }
    }
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    let (renewed, stopped, gone) = (lease.clone(), stop.clone(), lost.clone());
    let renewing = tokio::spawn(async move {
        let mut good_until = now() + LEASE;
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(RENEW) => {}
            }
            match renewed.renew().await {
                Ok(true) => good_until = now() + LEASE,
                Ok(false) => return gone.cancel(),
                Err(_) if now() < good_until => {}
                Err(_) => return gone.cancel(),
            }
        }
    });
    Ok(Held { lease, stop, lost, renewing })
}

enum Taken {
    Ours,
    Theirs,
    /// Somebody wrote in between.
    Raced,
}

impl Lease {
    fn record(&self) -> String {
        json!({"uuid": self.id, "lockName": self.name, "ExpireAtTimestamp": now() + LEASE,
            "SharedHoldersCount": 1, "IsShared": false, "QueueMembers": {}})
        .to_string()
    }

    async fn read(&self) -> Result<Option<Value>, slipway_cluster::Error> {
        self.cluster.get(&self.at).await
    }

    fn held(&self, map: &Value) -> Option<Value> {
        serde_json::from_str(object::annotation(map, &self.key)?).ok()
    }

    async fn write(&self, map: &Value) -> Result<bool, slipway_cluster::Error> {
        match self.cluster.replace(&self.at, map, &WriteOptions::manager("helm")).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.class, ErrorClass::Conflict | ErrorClass::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn take(&self) -> Result<Taken, slipway_cluster::Error> {
        let Some(mut map) = self.read().await? else {
            let fresh = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP,
                "namespace": self.at.namespace, "annotations": {self.key.as_str(): self.record()}}});
            return match self.cluster.create(&self.at, &fresh, &WriteOptions::manager("helm")).await {
                Ok(_) => Ok(Taken::Ours),
                Err(error) if error.class == ErrorClass::AlreadyExists => Ok(Taken::Raced),
                Err(error) => Err(error),
            };
        };
        if let Some(held) = self.held(&map)
            && held["uuid"] != self.id.as_str()
            && held["ExpireAtTimestamp"].as_i64().unwrap_or(0) > now()
        {
            return Ok(Taken::Theirs);
        }
        object::set_annotation(&mut map, &self.key, &self.record());
        Ok(if self.write(&map).await? { Taken::Ours } else { Taken::Raced })
    }

    /// Whether the lease is still ours, now for longer.
    async fn renew(&self) -> Result<bool, slipway_cluster::Error> {
        loop {
            let Some(mut map) = self.read().await? else { return Ok(false) };
            if self.held(&map).is_none_or(|held| held["uuid"] != self.id.as_str()) {
                return Ok(false);
            }
            object::set_annotation(&mut map, &self.key, &self.record());
            if self.write(&map).await? {
                return Ok(true);
            }
        }
    }

    async fn give_back(&self) -> Result<(), slipway_cluster::Error> {
        for _ in 0..10 {
            let Some(mut map) = self.read().await? else { return Ok(()) };
            if self.held(&map).is_none_or(|held| held["uuid"] != self.id.as_str()) {
                return Ok(());
            }
            if let Some(all) = map.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
                all.shift_remove(&self.key);
            }
            if self.write(&map).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Held {
    /// Cancelled when someone else has the lock: nothing may be written from then on.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Lets go.
    pub async fn release(self) {
        self.stop.cancel();
        // A lease nobody renews ends by itself.
        let _ = self.renewing.await;
        let _ = self.lease.give_back().await;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_annotation_is_the_one_others_use() {
        let known = "lockgate.io/739ae8836a79cee6cf68ae1ed93d7cf01ed68bc7cc95bacb60c3738a";
        assert_eq!(super::annotation("release/myapp"), known);
    }
}
