//! The lock that keeps two runs off one release, shared with Nelm and werf.
//!
//! A lease in an annotation of a ConfigMap of the release's namespace: ten seconds long, renewed every
//! three, taken over when it was not renewed for its length. Every write carries the `resourceVersion` it was
//! read with. The time of its end is written for Nelm and werf; we do not read it, because it is of another
//! machine's clock. As in client-go's leader election, a lease is stale when our own monotonic clock has seen
//! no change of it for as long as a lease lasts.
//! Unlike its models a lost lease is not merely logged: [`Held::lost`] fires and the run must stop,
//! and [`Held::check_fence`] tells before a last word is written whether it still counts.
//!
//! A server that does not answer for a while takes the lock from nobody: whoever wants it has to ask the same
//! server. Renewal goes on then, and as long as it is in doubt whose the lock is, [`Held::gate`] holds back
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
use crate::gate::{Gate, Until};
use crate::request::seconds;
use crate::{Apply, Cluster, Deadline, WriteOptions};

/// The ConfigMap every lock of a namespace lives in.
pub(crate) const CONFIG_MAP: &str = "werf-synchronization";

/// How long one try to renew may take before the next.
const TRY: Duration = Duration::from_secs(3);
/// How long after its end a lease that nobody can be asked about is still hoped for.
const DOUBT: Duration = Duration::from_secs(120);

/// How to take a lock.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// The field manager that creates the ConfigMap.
    pub manager: String,
    /// How long to wait for somebody else's lock; as long as the cluster handle's deadline when absent.
    pub patience: Option<Duration>,
    pub lease: Duration,
    pub renew: Duration,
    /// How often to look again while somebody holds it.
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
pub fn annotation(name: &str) -> String {
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
    fn read(text: &str) -> Option<Lease> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Lease {
            uuid: value["uuid"].as_str()?.to_owned(),
            expires: value["ExpireAtTimestamp"].as_i64()?,
            holders: value["SharedHoldersCount"].as_i64().unwrap_or(1),
            is_shared: value["IsShared"].as_bool().unwrap_or(false),
        })
    }

    fn text(&self, name: &str) -> String {
        json!({
            "uuid": self.uuid, "lockName": name, "ExpireAtTimestamp": self.expires,
            "SharedHoldersCount": self.holders, "IsShared": self.is_shared, "QueueMembers": {},
        })
        .to_string()
    }
}

/// Why a lock was not taken.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LockError {
    /// Another run has it for longer than there is time.
    #[error("take the lock {name}: another run still holds it after {}", seconds(*after))]
    Held { name: String, after: Duration },
    #[error(transparent)]
    Cluster(#[from] Error),
}

/// Another holder's lease, and when it was first seen in this state.
struct Sighting {
    lease: Lease,
    since: Instant,
}

impl Sighting {
    /// Takes note of a lease; any change of it is a sign of life.
    fn update(seen: Option<Sighting>, lease: Lease) -> Sighting {
        match seen {
            Some(seen) if seen.lease == lease => seen,
            _ => Sighting { lease, since: Instant::now() },
        }
    }
}

/// Takes locks.
#[derive(Clone)]
pub struct Lock {
    cluster: Cluster,
    at: ObjectRef,
    name: String,
    key: String,
    options: LockOptions,
    events: Events,
}

impl Lock {
    /// Waits for the lock called `name`, `release/<release>`, and takes it. Dropping the future gives up.
    pub async fn acquire(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        options: &LockOptions,
        events: &Events,
    ) -> Result<Held, LockError> {
        let lock = Arc::new(Lock {
            // Thousands of requests of the run may be queued; a renewal behind them would come too late.
            cluster: cluster.apart(),
            at: ObjectRef::core("ConfigMap", Some(namespace), CONFIG_MAP),
            name: name.to_owned(),
            key: annotation(name),
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
        let asking = match cluster.deadline() {
            Some(deadline) => {
                Lock { cluster: lock.cluster.with_deadline(deadline.clone()), ..(*lock).clone() }
            }
            None => (*lock).clone(),
        };
        let mut seen: Option<Sighting> = None;
        let mut is_told = false;
        loop {
            let pause = match asking.try_take(&mut seen).await {
                Ok(Taken::Ours { uuid, until, held }) => {
                    if held == HeldBefore::ByAnother {
                        events.send(Event::LockTakenOver { lock: name.to_owned(), holder: None });
                    }
                    return Ok(Held::start(lock, uuid, until));
                }
                Ok(Taken::Theirs { stale_at }) => {
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

    fn now(&self) -> i64 {
        self.events.clock().now().as_second()
    }

    fn fresh_lease(&self, uuid: String) -> Lease {
        let seconds = self.options.lease.as_millis().div_ceil(1000);
        let expires = self.now() + i64::try_from(seconds).unwrap_or(10);
        Lease { uuid, expires, holders: 1, is_shared: false }
    }

    /// The ConfigMap and the lease in it.
    async fn read(&self) -> Result<(Value, Option<Lease>), Error> {
        let live = match self.cluster.get(&self.at).await? {
            Some(live) => live,
            None => {
                let manifest = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": self.at.name, "namespace": self.at.namespace},
                });
                self.cluster.apply(&self.at, &manifest, &Apply::new(&self.options.manager)).await?
            }
        };
        // What cannot be read cannot be held by anybody.
        let lease = object::annotation(&live, &self.key).and_then(Lease::read);
        Ok((live, lease))
    }

    /// Writes or removes the lease, if nobody wrote in between.
    async fn write(&self, mut live: Value, lease: Option<&Lease>) -> Result<(), Error> {
        if let Some(metadata) = object::metadata_mut(&mut live) {
            metadata.remove("managedFields");
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if !annotations.is_object() {
                *annotations = Value::Object(Map::new());
            }
            if let Value::Object(annotations) = annotations {
                match lease {
                    Some(lease) => {
                        annotations.insert(self.key.clone(), lease.text(&self.name).into());
                    }
                    None => {
                        annotations.shift_remove(&self.key);
                    }
                }
            }
        }
        let options = WriteOptions::manager(&self.options.manager);
        self.cluster.replace(&self.at, &live, &options).await.map(|_| ())
    }

    /// Takes the lock, unless somebody else was seen to renew it within the length of a lease.
    async fn try_take(&self, seen: &mut Option<Sighting>) -> Result<Taken, Error> {
        let (live, lease) = self.read().await?;
        let held = if lease.is_some() { HeldBefore::ByAnother } else { HeldBefore::ByNobody };
        if let Some(lease) = lease {
            let sighting = Sighting::update(seen.take(), lease);
            let stale_at = sighting.since + self.options.lease;
            *seen = Some(sighting);
            if Instant::now() < stale_at {
                return Ok(Taken::Theirs { stale_at });
            }
        }
        let uuid = uuid::Uuid::new_v4().to_string();
        let until = self.extend(live, &uuid).await?;
        Ok(Taken::Ours { uuid, until, held })
    }

    /// Writes a fresh lease of ours and says how long it holds, counted from before it was sent.
    async fn extend(&self, live: Value, uuid: &str) -> Result<Until, Error> {
        let instant = Instant::now() + self.options.lease;
        let lease = self.fresh_lease(uuid.to_owned());
        self.write(live, Some(&lease)).await?;
        Ok(Until { instant, second: lease.expires })
    }

    /// Renews the lease if it is still ours.
    async fn renew(&self, uuid: &str) -> Result<Option<Until>, Error> {
        loop {
            let (live, lease) = self.read().await?;
            match lease {
                Some(lease) if lease.uuid == uuid => {}
                _ => return Ok(None),
            }
            match self.extend(live, uuid).await {
                Ok(until) => return Ok(Some(until)),
                // Another lock of the namespace was written: read again.
                Err(e) if e.class == ErrorClass::Conflict => {}
                Err(e) => return Err(e),
            }
        }
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
enum Taken {
    Ours {
        uuid: String,
        until: Until,
        held: HeldBefore,
    },
    /// Somebody else's until then, unless it is renewed.
    Theirs {
        stale_at: Instant,
    },
}

/// A lock that is held and kept.
pub struct Held {
    lock: Arc<Lock>,
    uuid: String,
    gate: Gate,
    keeper: JoinHandle<()>,
}

impl Held {
    fn start(lock: Arc<Lock>, uuid: String, until: Until) -> Held {
        let (renewed, until) = watch::channel(until);
        let gate = Gate { until, lost: CancellationToken::new(), events: lock.events.clone() };
        let keeper = tokio::spawn(keep(lock.clone(), uuid.clone(), renewed, gate.lost.clone()));
        Held { lock, uuid, gate, keeper }
    }

    /// Lets writes through only while the lock is surely ours: see [`Cluster::guarded`].
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Fires when the lock is no longer ours: stop everything.
    pub fn lost(&self) -> CancellationToken {
        self.gate.lost.clone()
    }

    /// Tells whether the lock is still ours, by asking the cluster.
    pub async fn check_fence(&self) -> Result<bool, Error> {
        if self.gate.lost.is_cancelled() {
            return Ok(false);
        }
        let (_, lease) = self.lock.read().await?;
        let is_ours = lease.is_some_and(|lease| lease.uuid == self.uuid);
        if !is_ours {
            self.gate.lost.cancel();
        }
        Ok(is_ours)
    }

    /// Gives the lock back. That it was lost before is no error: there is nothing to give back.
    pub async fn release(self) -> Result<(), Error> {
        self.keeper.abort();
        loop {
            let (live, lease) = self.lock.read().await?;
            let Some(lease) = lease.filter(|lease| lease.uuid == self.uuid) else { return Ok(()) };
            let rest = Lease { holders: lease.holders - 1, ..lease };
            match self.lock.write(live, Some(&rest).filter(|rest| rest.holders > 0)).await {
                Err(e) if e.class == ErrorClass::Conflict => {}
                result => return result,
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Not given back: it expires by itself.
        self.keeper.abort();
    }
}

/// Renews the lease until it is lost.
async fn keep(lock: Arc<Lock>, uuid: String, renewed: watch::Sender<Until>, lost: CancellationToken) {
    loop {
        let until = *renewed.borrow();
        tokio::time::sleep_until(until.instant - lock.options.lease + lock.options.renew).await;
        // Who overslept the end on a busy machine asks all the same: as long as the lease bears our mark,
        // nobody has taken it.
        let end = until.instant.max(Instant::now() + TRY);
        let mut pause = Duration::from_millis(250);
        loop {
            let tried = tokio::time::timeout(TRY, lock.renew(&uuid)).await;
            let last = match tried {
                Ok(Ok(Some(until))) => {
                    renewed.send_replace(until);
                    break;
                }
                Ok(Ok(None)) => return lost.cancel(),
                // Nobody answers us, and nobody else either as far as we know.
                Err(_) => end + DOUBT,
                Ok(Err(e)) if e.is_transient() => end + DOUBT,
                Ok(Err(_)) => end,
            };
            if Instant::now() + pause >= last {
                return lost.cancel();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
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
            assert_eq!(annotation(name), format!("lockgate.io/{hex}"));
        }
    }

    #[test]
    fn leases_are_written_as_others_read_them() {
        let lease = Lease { uuid: "u".into(), expires: 5, holders: 1, is_shared: false };
        let text = lease.text("release/x");
        let expected = r#"{"uuid":"u","lockName":"release/x","ExpireAtTimestamp":5,"SharedHoldersCount":1,"IsShared":false,"QueueMembers":{}}"#;
        assert_eq!(text, expected);
        assert_eq!(Lease::read(&text), Some(lease));
        assert_eq!(Lease::read("nonsense"), None);
    }
}
