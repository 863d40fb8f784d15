//! One process of several at work: leader election over a Lease, as client-go does it.
//!
//! A Lease is renewed every `retry`; whoever could not renew for `renew_limit` gives up, and others take a Lease over that
//! they have not seen change for `duration` by their own monotonic clock. The first is shorter than the second, so that work
//! ends before another process begins. [`Leadership::write_gate`] holds writes back while it is in doubt whose the
//! Lease is, and [`Leadership::lost_token`] ends everything else.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_event::Events;
use slipway_manifest::{Gvk, ObjectRef};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorClass};
use crate::gate::{LeaseEnd, WriteGate};
use crate::lease::{self, LeasedObject, Sighting};
use crate::{Cluster, WriteOptions};

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionTimes {
    /// The time after which a Lease that does not change is free.
    pub duration: Duration,
    /// The time without a renewal after which its holder gives up.
    pub renew_limit: Duration,
    /// The time between two renewals, and between two tries to take it.
    pub retry: Duration,
}

impl Default for ElectionTimes {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(12),
            renew_limit: Duration::from_secs(8),
            retry: Duration::from_secs(2),
        }
    }
}

/// The Lease an election is about, and who takes part.
#[derive(Clone, Debug)]
pub struct ElectionOptions {
    pub namespace: String,
    pub name: String,
    /// Names this process; no two may have the same.
    pub identity: String,
    pub manager: String,
    pub times: ElectionTimes,
}

/// A Lease as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Empty when it was given back.
    pub holder: String,
    pub renewed_at: Option<Timestamp>,
    /// Counts changes of the holder.
    pub transitions: i64,
}

impl LeaseRecord {
    fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let renewed = spec["renewTime"].as_str().and_then(|text| text.parse().ok());
        Self {
            holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
            renewed_at: renewed,
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
        }
    }
}

/// Reads a Lease; `None` when it does not exist.
pub async fn read_lease(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<Option<LeaseRecord>, Error> {
    Ok(cluster.get(&lease_at(namespace, name)).await?.as_ref().map(LeaseRecord::of))
}

fn lease_at(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("coordination.k8s.io", "v1", "Lease"), Some(namespace), name)
}

struct Candidate {
    cluster: Cluster,
    at: ObjectRef,
    options: ElectionOptions,
    /// The clock of the times that are written.
    events: Events,
}

/// Waits until the Lease is ours. Dropping the future gives up; trouble with the server is waited out.
pub async fn elect(cluster: &Cluster, options: &ElectionOptions) -> Leadership {
    let candidate = Arc::new(Candidate {
        // Requests of the work must not keep a renewal waiting.
        cluster: cluster.with_own_queue(),
        at: lease_at(&options.namespace, &options.name),
        options: options.clone(),
        events: Events::silent(),
    });
    let mut seen: Option<Sighting<LeaseRecord>> = None;
    loop {
        match candidate.try_acquire(&mut seen).await {
            Ok(Some(taken)) => return Leadership::start_renewal(candidate, taken),
            Ok(None) => {}
            Err(error) if error.class == ErrorClass::Conflict || error.class == ErrorClass::AlreadyExists => {
            }
            Err(error) => {
                tracing::warn!(lease = %candidate.at, %error, "the election could not be looked at");
            }
        }
        tokio::time::sleep(candidate.pause(seen.as_ref())).await;
    }
}

/// The shortest time between two tries: several may find the Lease free at the same moment.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// A Lease we have taken.
struct TakenLease {
    /// The Lease as it was written.
    live: Value,
    until: LeaseEnd,
    term: i64,
}

impl Candidate {
    /// The time until the next try: no longer than until the Lease is free.
    fn pause(&self, seen: Option<&Sighting<LeaseRecord>>) -> Duration {
        let ElectionTimes { duration, retry, .. } = self.options.times;
        let left = seen.map_or(retry, |seen| duration.saturating_sub(seen.since.elapsed()));
        left.clamp(SHORTEST_PAUSE, retry.max(SHORTEST_PAUSE))
    }

    async fn try_acquire(
        &self,
        seen: &mut Option<Sighting<LeaseRecord>>,
    ) -> Result<Option<TakenLease>, Error> {
        let Some(mut live) = self.cluster.get(&self.at).await? else {
            let until = self.lease_end();
            let mut manifest = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.at.name, "namespace": self.at.namespace},
            });
            self.renew_in(&mut manifest, 0);
            let live = self.cluster.create(&self.at, &manifest, &self.write_options()).await?;
            return Ok(Some(TakenLease { live, until, term: 0 }));
        };
        let record = LeaseRecord::of(&live);
        let is_ours = record.holder == self.options.identity;
        let is_given_back = record.holder.is_empty();
        let term = record.transitions + i64::from(!is_ours);
        let sighting = Sighting::update(seen.take(), record);
        let is_free = is_given_back || sighting.since.elapsed() >= self.options.times.duration;
        *seen = Some(sighting);
        if !is_free && !is_ours {
            return Ok(None);
        }
        let until = self.lease_end();
        self.renew_in(&mut live, term);
        let live = lease::write(&self.cluster, &self.at, live, &self.write_options()).await?;
        Ok(Some(TakenLease { live, until, term }))
    }

    /// Tells that a Lease is that of our term.
    fn is_ours(&self, live: &Value, term: i64) -> bool {
        let record = LeaseRecord::of(live);
        record.holder == self.options.identity && record.transitions == term
    }

    /// The end of the time a renewal that is sent now is sure to hold.
    fn lease_end(&self) -> LeaseEnd {
        let limit = self.options.times.renew_limit;
        let seconds = i64::try_from(limit.as_millis().div_ceil(1000)).unwrap_or(10);
        LeaseEnd { instant: Instant::now() + limit, second: self.events.clock().now().as_second() + seconds }
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::for_manager(&self.options.manager)
    }

    /// Makes a Lease ours, or says that it still is.
    fn renew_in(&self, lease: &mut Value, term: i64) {
        let now = format!("{:.6}", self.events.clock().now());
        let acquired = Some(&*lease)
            .filter(|lease| LeaseRecord::of(lease).transitions == term)
            .and_then(|lease| lease["spec"]["acquireTime"].as_str())
            .map_or_else(|| now.clone(), str::to_owned);
        let seconds = self.options.times.duration.as_millis().div_ceil(1000).max(1);
        lease["spec"] = json!({
            "holderIdentity": self.options.identity,
            "leaseDurationSeconds": u64::try_from(seconds).unwrap_or(15),
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": term,
        });
    }
}

/// A Lease that is held and kept.
pub struct Leadership {
    held: Arc<HeldTerm>,
    gate: WriteGate,
    keeper: JoinHandle<()>,
}

/// The Lease of our term.
struct HeldTerm {
    candidate: Arc<Candidate>,
    lease: LeasedObject,
    term: i64,
}

impl HeldTerm {
    /// Renews the Lease if it is still ours.
    async fn renew(&self) -> Result<Option<LeaseEnd>, Error> {
        let Self { candidate, lease, term } = self;
        let renewal = lease.rewrite(|live| {
            candidate.is_ours(live, *term).then(|| {
                candidate.renew_in(live, *term);
                candidate.lease_end()
            })
        });
        renewal.await
    }

    /// Gives the Lease back if it is still ours.
    async fn release(&self) -> Result<(), Error> {
        let Self { candidate, lease, term } = self;
        let release = lease.rewrite(|live| {
            candidate.is_ours(live, *term).then(|| {
                candidate.renew_in(live, *term);
                live["spec"]["holderIdentity"] = "".into();
            })
        });
        release.await.map(drop)
    }
}

impl Leadership {
    fn start_renewal(candidate: Arc<Candidate>, taken: TakenLease) -> Self {
        let TakenLease { live, until, term } = taken;
        let (cluster, at) = (candidate.cluster.clone(), candidate.at.clone());
        let lease = LeasedObject::new(cluster, at, candidate.write_options(), live);
        let (renewed, until) = watch::channel(until);
        let gate = WriteGate { until, lost: CancellationToken::new(), events: candidate.events.clone() };
        let held = Arc::new(HeldTerm { candidate, lease, term });
        let keeper = tokio::spawn(keep_renewed(held.clone(), renewed, gate.lost.clone()));
        Self { held, gate, keeper }
    }

    /// Counts the holders of the Lease so far; a later one has a higher number.
    pub fn term(&self) -> i64 {
        self.held.term
    }

    /// Lets writes through only while the Lease is surely ours: see [`Cluster::with_write_gate`].
    pub fn write_gate(&self) -> WriteGate {
        self.gate.clone()
    }

    /// Fires when the Lease is no longer ours: stop everything.
    pub fn lost_token(&self) -> CancellationToken {
        self.gate.lost.clone()
    }

    /// Gives the Lease back, so that another process need not wait for its end.
    pub async fn release(self) -> Result<(), Error> {
        self.keeper.abort();
        self.gate.lost.cancel();
        self.held.release().await
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // Not given back: it ends by itself.
        self.keeper.abort();
        self.gate.lost.cancel();
    }
}

async fn keep_renewed(held: Arc<HeldTerm>, renewed: watch::Sender<LeaseEnd>, lost: CancellationToken) {
    loop {
        tokio::time::sleep(held.candidate.options.times.retry).await;
        let end = renewed.borrow().instant;
        match tokio::time::timeout_at(end, held.renew()).await {
            Ok(Ok(Some(until))) => {
                renewed.send_replace(until);
            }
            Ok(Ok(None)) => return lost.cancel(),
            Ok(Err(error)) => {
                tracing::warn!(lease = %held.candidate.at, %error, "the lease could not be renewed");
                if Instant::now() >= end {
                    return lost.cancel();
                }
            }
            // On a machine that stood still nobody may have taken it: the next holder says otherwise soon enough.
            Err(_) => return lost.cancel(),
        }
    }
}
