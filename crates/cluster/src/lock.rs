//! The lock that keeps two runs off one release, shared with Nelm and werf.
//!
//! A lease in an annotation of a ConfigMap of the release's namespace: ten seconds long, renewed every
//! three, taken over when it was not renewed for its length (`lease.rs` says how). The time of its end is written for Nelm and
//! werf; we do not read it, because it is of another machine's clock. As in client-go's leader election, a lease is stale
//! when our own monotonic clock has seen no change of it for as long as a lease lasts.
//! Unlike its models a lost lease is not merely logged: [`HeldLock::lost_token`] fires and the run must stop,
//! and [`HeldLock::check_fence`] tells before a final record is written whether it still counts.
//!
//! A server that does not answer for a while takes the lock from nobody: whoever wants it has to ask the same
//! server. Renewal goes on then, and while it is in doubt whose the lock is, [`HeldLock::write_gate`] holds back
//! what would be written under it.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rand::RngExt;
use serde_json::{Map, Value, json};
use sha3::{Digest, Sha3_224};
use slipway_event::{Event, Events};
use slipway_manifest::{ObjectRef, object};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorClass};
use crate::gate::{LeaseEnd, WriteGate};
use crate::lease::{self, LeasedObject, Sighting};
use crate::request::format_seconds;
use crate::{ApplyOptions, Cluster, Deadline, WriteOptions};

/// The ConfigMap every lock of a namespace lives in.
pub(crate) const CONFIG_MAP: &str = "werf-synchronization";

/// The time limit of one attempt to renew.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(3);
/// The time after its end in which a lease that no server answers for may still be renewed.
const DOUBT_LIMIT: Duration = Duration::from_secs(120);

/// Settings of a lock.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// The field manager that creates the ConfigMap.
    pub manager: String,
    /// Time limit for waiting on somebody else's lock; the cluster handle's deadline when absent.
    pub patience: Option<Duration>,
    pub lease: Duration,
    pub renew: Duration,
    /// The interval between attempts while somebody else holds it.
    pub poll: Duration,
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        LockOptions {
            manager: "helm".into(),
            patience: None,
            lease: Duration::from_secs(10),
            renew: Duration::from_secs(3),
            poll: Duration::from_secs(2),
        }
    }
}

/// The annotation a lock is kept in.
pub fn annotation_key(name: &str) -> String {
    format!("lockgate.io/{}", HEXLOWER.encode(&Sha3_224::digest(name.as_bytes())))
}

/// One lease, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    uuid: String,
    expires: i64,
    holders: i64,
    is_shared: bool,
}

impl Lease {
    fn parse_lease(text: &str) -> Option<Lease> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Lease {
            uuid: value["uuid"].as_str()?.to_owned(),
            expires: value["ExpireAtTimestamp"].as_i64()?,
            holders: value["SharedHoldersCount"].as_i64().unwrap_or(1),
            is_shared: value["IsShared"].as_bool().unwrap_or(false),
        })
    }

    fn lease_text(&self, name: &str) -> String {
        json!({
            "uuid": self.uuid, "lockName": name, "ExpireAtTimestamp": self.expires,
            "SharedHoldersCount": self.holders, "IsShared": self.is_shared, "QueueMembers": {},
        })
        .to_string()
    }
}

/// The reason a lock was not taken.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LockError {
    /// Another run has it for longer than there is time.
    #[error("take the lock {name}: another run still holds it after {}", format_seconds(*after))]
    Held { name: String, after: Duration },
    #[error(transparent)]
    Cluster(#[from] Error),
}

/// Takes locks.
#[derive(Clone)]
pub struct ClusterLock {
    cluster: Cluster,
    at: ObjectRef,
    name: String,
    key: String,
    options: LockOptions,
    events: Events,
}

impl ClusterLock {
    /// Waits for the lock called `name`, `release/<release>`, and takes it. Dropping the future gives up.
    pub async fn acquire(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        options: &LockOptions,
        events: &Events,
    ) -> Result<HeldLock, LockError> {
        let lock = Arc::new(ClusterLock {
            // Thousands of requests of the run may be queued; a renewal behind them would come too late.
            cluster: cluster.with_own_queue(),
            at: ObjectRef::core("ConfigMap", Some(namespace), CONFIG_MAP),
            name: name.to_owned(),
            key: annotation_key(name),
            options: match cluster.1.lease {
                Some(lease) => LockOptions { lease, renew: lease / 3, poll: lease / 5, ..options.clone() },
                None => options.clone(),
            },
            events: events.clone(),
        });
        let started = Instant::now();
        let ends = [
            options.patience.and_then(|patience| started.checked_add(patience)),
            cluster.deadline().map(Deadline::instant),
        ];
        let end = ends.into_iter().flatten().min();
        // Renewal goes on after the deadline of the run: it has a failure to record.
        let asking = lock.with_deadline(cluster.deadline());
        let mut seen: Option<Sighting<Lease>> = None;
        let mut is_told = false;
        loop {
            let pause = match asking.try_acquire(&mut seen).await {
                Ok(AcquireAttempt::Ours { lease, held }) => {
                    if held == HeldBefore::ByAnother {
                        events.send(Event::LockTakenOver { lock: name.to_owned(), holder: None });
                    }
                    return Ok(HeldLock::start_renewal(lock, lease));
                }
                Ok(AcquireAttempt::Theirs { stale_at }) => {
                    if !is_told {
                        events.send(Event::LockWaiting { lock: name.to_owned(), holder: None });
                        is_told = true;
                    }
                    lock.options.poll.min(stale_at.saturating_duration_since(Instant::now()))
                }
                // Another lock of the namespace was written meanwhile: soon again, and not all in step.
                Err(e) if e.class == ErrorClass::Conflict => {
                    Duration::from_millis(rand::rng().random_range(2..40))
                }
                Err(e) => return Err(e.into()),
            };
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            tokio::time::sleep(left.map_or(pause, |left| left.min(pause))).await;
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(LockError::Held { name: name.to_owned(), after: started.elapsed() });
            }
        }
    }

    /// The same lock, whose requests end with a deadline.
    fn with_deadline(&self, deadline: Option<&Deadline>) -> ClusterLock {
        let cluster = match deadline {
            Some(deadline) => self.cluster.with_deadline(deadline.clone()),
            None => self.cluster.clone(),
        };
        ClusterLock { cluster, ..self.clone() }
    }

    fn now_seconds(&self) -> i64 {
        self.events.clock().now().as_second()
    }

    fn fresh_lease(&self, uuid: String) -> Lease {
        let seconds = self.options.lease.as_millis().div_ceil(1000);
        let expires = self.now_seconds() + i64::try_from(seconds).unwrap_or(10);
        Lease { uuid, expires, holders: 1, is_shared: false }
    }

    /// The ConfigMap and the lease in it.
    async fn read_lease(&self) -> Result<(Value, Option<Lease>), Error> {
        let live = match self.cluster.get(&self.at).await? {
            Some(live) => live,
            None => {
                let manifest = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": self.at.name, "namespace": self.at.namespace},
                });
                self.cluster.apply(&self.at, &manifest, &ApplyOptions::new(&self.options.manager)).await?
            }
        };
        let lease = self.lease_in(&live);
        Ok((live, lease))
    }

    /// The lease in the ConfigMap. What cannot be read cannot be held by anybody.
    fn lease_in(&self, live: &Value) -> Option<Lease> {
        object::annotation(live, &self.key).and_then(Lease::parse_lease)
    }

    /// Puts the lease into the ConfigMap, or takes it out.
    fn set_lease(&self, live: &mut Value, lease: Option<&Lease>) {
        let Some(metadata) = object::metadata_mut(live) else { return };
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if !annotations.is_object() {
            *annotations = Value::Object(Map::new());
        }
        if let Value::Object(annotations) = annotations {
            match lease {
                Some(lease) => {
                    annotations.insert(self.key.clone(), lease.lease_text(&self.name).into());
                }
                None => {
                    annotations.shift_remove(&self.key);
                }
            }
        }
    }

    /// Puts a fresh lease of ours into the ConfigMap; it holds from before it is sent.
    fn extend_lease(&self, live: &mut Value, uuid: &str) -> LeaseEnd {
        let instant = Instant::now() + self.options.lease;
        let lease = self.fresh_lease(uuid.to_owned());
        self.set_lease(live, Some(&lease));
        LeaseEnd { instant, second: lease.expires }
    }

    /// Takes the lock, unless somebody else was seen to renew it within the length of a lease.
    async fn try_acquire(&self, seen: &mut Option<Sighting<Lease>>) -> Result<AcquireAttempt, Error> {
        let (mut live, lease) = self.read_lease().await?;
        let held = if lease.is_some() { HeldBefore::ByAnother } else { HeldBefore::ByNobody };
        if let Some(lease) = lease {
            let sighting = Sighting::update(seen.take(), lease);
            let stale_at = sighting.since + self.options.lease;
            *seen = Some(sighting);
            if Instant::now() < stale_at {
                return Ok(AcquireAttempt::Theirs { stale_at });
            }
        }
        let uuid = uuid::Uuid::new_v4().to_string();
        let end = self.extend_lease(&mut live, &uuid);
        let live = lease::write(&self.cluster, &self.at, live, &self.write_options()).await?;
        Ok(AcquireAttempt::Ours { lease: TakenLease { uuid, live, end }, held })
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::for_manager(&self.options.manager)
    }
}

/// The state a lock was found in when it was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldBefore {
    ByNobody,
    /// Its holder was not heard of for the length of a lease.
    ByAnother,
}

/// The outcome of one try to take a lock.
enum AcquireAttempt {
    Ours {
        lease: TakenLease,
        held: HeldBefore,
    },
    /// Somebody else's until then, unless it is renewed.
    Theirs {
        stale_at: Instant,
    },
}

/// A lease we have taken.
struct TakenLease {
    uuid: String,
    /// The ConfigMap as it was written.
    live: Value,
    end: LeaseEnd,
}

/// Our lease in the ConfigMap.
struct OwnLease {
    lock: Arc<ClusterLock>,
    uuid: String,
    config_map: LeasedObject,
}

impl OwnLease {
    /// Renews the lease if it is still ours.
    async fn renew(&self) -> Result<Option<LeaseEnd>, Error> {
        let renewal = self.config_map.rewrite(|live| {
            let ours = self.lock.lease_in(live).filter(|lease| lease.uuid == self.uuid);
            ours.map(|_| self.lock.extend_lease(live, &self.uuid))
        });
        renewal.await
    }

    /// Removes the lease if it is still ours.
    async fn remove(&self) -> Result<(), Error> {
        let removal = self.config_map.rewrite(|live| {
            let ours = self.lock.lease_in(live).filter(|lease| lease.uuid == self.uuid)?;
            let rest = Lease { holders: ours.holders - 1, ..ours };
            self.lock.set_lease(live, Some(&rest).filter(|rest| rest.holders > 0));
            Some(())
        });
        removal.await.map(drop)
    }
}

/// A lock that is held and kept.
pub struct HeldLock {
    own: Arc<OwnLease>,
    gate: WriteGate,
    keeper: JoinHandle<()>,
}

impl HeldLock {
    fn start_renewal(lock: Arc<ClusterLock>, lease: TakenLease) -> HeldLock {
        let TakenLease { uuid, live, end } = lease;
        let (renewed, until) = watch::channel(end);
        let gate = WriteGate { until, lost: CancellationToken::new(), events: lock.events.clone() };
        let config_map = LeasedObject::new(lock.cluster.clone(), lock.at.clone(), lock.write_options(), live);
        let own = Arc::new(OwnLease { lock, uuid, config_map });
        let keeper = LeaseKeeper { own: own.clone(), renewed, lost: gate.lost.clone() };
        HeldLock { own, gate, keeper: tokio::spawn(keeper.keep_renewed()) }
    }

    /// Lets writes through only while the lock is surely ours: see [`Cluster::with_write_gate`].
    pub fn write_gate(&self) -> WriteGate {
        self.gate.clone()
    }

    /// Fires when the lock is no longer ours: stop everything.
    pub fn lost_token(&self) -> CancellationToken {
        self.gate.lost.clone()
    }

    /// Tells whether the lock is still ours, by asking the cluster. The deadline is that of the work the answer is for.
    pub async fn check_fence(&self, deadline: Option<&Deadline>) -> Result<bool, Error> {
        if self.gate.lost.is_cancelled() {
            return Ok(false);
        }
        let (_, lease) = self.own.lock.with_deadline(deadline).read_lease().await?;
        let is_ours = lease.is_some_and(|lease| lease.uuid == self.own.uuid);
        if !is_ours {
            self.gate.lost.cancel();
        }
        Ok(is_ours)
    }

    /// Gives the lock back. That it was lost before is no error: there is nothing to give back.
    pub async fn release(self) -> Result<(), Error> {
        self.keeper.abort();
        self.own.remove().await
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Not given back: it expires by itself.
        self.keeper.abort();
    }
}

/// Renews a lease.
struct LeaseKeeper {
    own: Arc<OwnLease>,
    renewed: watch::Sender<LeaseEnd>,
    lost: CancellationToken,
}

impl LeaseKeeper {
    /// Renews the lease until it is lost.
    async fn keep_renewed(self) {
        let LockOptions { lease, renew, .. } = self.own.lock.options;
        loop {
            let until = *self.renewed.borrow();
            tokio::time::sleep_until(until.instant - lease + renew).await;
            // After oversleeping the end on a busy machine the lease is read all the same: as long as it has our uuid,
            // nobody has taken it.
            let end = until.instant.max(Instant::now() + RENEWAL_TIMEOUT);
            let mut pause = Duration::from_millis(250);
            loop {
                let last = match tokio::time::timeout(RENEWAL_TIMEOUT, self.own.renew()).await {
                    Ok(Ok(Some(end))) => {
                        self.renewed.send_replace(end);
                        break;
                    }
                    Ok(Ok(None)) => return self.lost.cancel(),
                    // No server answers us, nor anybody else as far as we know.
                    Err(_) => end + DOUBT_LIMIT,
                    Ok(Err(e)) if e.is_transient() => end + DOUBT_LIMIT,
                    Ok(Err(_)) => end,
                };
                if Instant::now() + pause >= last {
                    return self.lost.cancel();
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_named_as_others_name_them() {
        for (name, hex) in [
            ("release/myapp", "739ae8836a79cee6cf68ae1ed93d7cf01ed68bc7cc95bacb60c3738a"),
            ("release/demo", "6af41e57cc7bc3e1cdf7a9bb61b31b68ced07bfe4ec4dba0e4635faf"),
        ] {
            assert_eq!(annotation_key(name), format!("lockgate.io/{hex}"));
        }
    }

    #[test]
    fn leases_are_written_as_others_read_them() {
        let lease = Lease { uuid: "u".into(), expires: 5, holders: 1, is_shared: false };
        let text = lease.lease_text("release/x");
        let expected = r#"{"uuid":"u","lockName":"release/x","ExpireAtTimestamp":5,"SharedHoldersCount":1,"IsShared":false,"QueueMembers":{}}"#;
        assert_eq!(text, expected);
        assert_eq!(Lease::parse_lease(&text), Some(lease));
        assert_eq!(Lease::parse_lease("nonsense"), None);
    }
}
