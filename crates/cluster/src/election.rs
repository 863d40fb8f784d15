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

/// Somebody else's Lease, and when it was first seen in this state.
struct SeenLease {
    record: LeaseRecord,
    since: Instant,
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
    let mut seen: Option<SeenLease> = None;
    loop {
        match candidate.try_acquire(&mut seen).await {
            Ok(Some((until, term))) => return Leadership::start_renewal(candidate, until, term),
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

impl Candidate {
    /// The time until the next try: no longer than until the Lease is free.
    fn pause(&self, seen: Option<&SeenLease>) -> Duration {
        let ElectionTimes { duration, retry, .. } = self.options.times;
        let left = seen.map_or(retry, |seen| duration.saturating_sub(seen.since.elapsed()));
        left.clamp(SHORTEST_PAUSE, retry.max(SHORTEST_PAUSE))
    }

    async fn try_acquire(&self, seen: &mut Option<SeenLease>) -> Result<Option<(LeaseEnd, i64)>, Error> {
        let Some(live) = self.cluster.get(&self.at).await? else {
            let end = self.lease_end();
            let manifest = self.manifest(None, 0);
            self.cluster.create(&self.at, &manifest, &self.write_options()).await?;
            return Ok(Some((end, 0)));
        };
        let record = LeaseRecord::of(&live);
        let is_ours = record.holder == self.options.identity;
        let since = match seen.take() {
            Some(seen) if seen.record == record => seen.since,
            _ => Instant::now(),
        };
        let is_free = record.holder.is_empty() || since.elapsed() >= self.options.times.duration;
        let transitions = record.transitions + i64::from(!is_ours);
        *seen = Some(SeenLease { record, since });
        if !is_free && !is_ours {
            return Ok(None);
        }
        let end = self.lease_end();
        self.cluster
            .replace(&self.at, &self.manifest(Some(&live), transitions), &self.write_options())
            .await?;
        Ok(Some((end, transitions)))
    }

    /// Renews the Lease if it is still ours.
    async fn renew(&self, term: i64) -> Result<Option<LeaseEnd>, Error> {
        let Some(live) = self.cluster.get(&self.at).await? else { return Ok(None) };
        let record = LeaseRecord::of(&live);
        if record.holder != self.options.identity || record.transitions != term {
            return Ok(None);
        }
        let end = self.lease_end();
        self.cluster.replace(&self.at, &self.manifest(Some(&live), term), &self.write_options()).await?;
        Ok(Some(end))
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

    fn manifest(&self, live: Option<&Value>, transitions: i64) -> Value {
        let now = format!("{:.6}", self.events.clock().now());
        let acquired = live
            .filter(|live| LeaseRecord::of(live).transitions == transitions)
            .and_then(|live| live["spec"]["acquireTime"].as_str())
            .map_or_else(|| now.clone(), str::to_owned);
        let seconds = self.options.times.duration.as_millis().div_ceil(1000).max(1);
        let mut manifest = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.at.name, "namespace": self.at.namespace},
            "spec": {
                "holderIdentity": self.options.identity,
                "leaseDurationSeconds": u64::try_from(seconds).unwrap_or(15),
                "acquireTime": acquired,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        });
        if let Some(live) = live {
            manifest["metadata"] = live["metadata"].clone();
            if let Some(metadata) = manifest["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
        }
        manifest
    }
}

/// A Lease that is held and kept.
pub struct Leadership {
    candidate: Arc<Candidate>,
    gate: WriteGate,
    term: i64,
    keeper: JoinHandle<()>,
}

impl Leadership {
    fn start_renewal(candidate: Arc<Candidate>, until: LeaseEnd, term: i64) -> Self {
        let (renewed, until) = watch::channel(until);
        let gate = WriteGate { until, lost: CancellationToken::new(), events: candidate.events.clone() };
        let keeper = tokio::spawn(keep_renewed(candidate.clone(), term, renewed, gate.lost.clone()));
        Self { candidate, gate, term, keeper }
    }

    /// Counts the holders of the Lease so far; a later one has a higher number.
    pub fn term(&self) -> i64 {
        self.term
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
        let candidate = &self.candidate;
        loop {
            let Some(live) = candidate.cluster.get(&candidate.at).await? else { return Ok(()) };
            let record = LeaseRecord::of(&live);
            if record.holder != candidate.options.identity || record.transitions != self.term {
                return Ok(());
            }
            let mut manifest = candidate.manifest(Some(&live), self.term);
            manifest["spec"]["holderIdentity"] = "".into();
            match candidate.cluster.replace(&candidate.at, &manifest, &candidate.write_options()).await {
                Err(error) if error.class == ErrorClass::Conflict => {}
                result => return result.map(drop),
            }
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // Not given back: it ends by itself.
        self.keeper.abort();
        self.gate.lost.cancel();
    }
}

async fn keep_renewed(
    candidate: Arc<Candidate>,
    term: i64,
    renewed: watch::Sender<LeaseEnd>,
    lost: CancellationToken,
) {
    loop {
        tokio::time::sleep(candidate.options.times.retry).await;
        let end = renewed.borrow().instant;
        match tokio::time::timeout_at(end, candidate.renew(term)).await {
            Ok(Ok(Some(until))) => {
                renewed.send_replace(until);
            }
            Ok(Ok(None)) => return lost.cancel(),
            Ok(Err(error)) => {
                tracing::warn!(lease = %candidate.at, %error, "the lease could not be renewed");
                if Instant::now() >= end {
                    return lost.cancel();
                }
            }
            // On a machine that stood still nobody may have taken it: the next holder says otherwise soon enough.
            Err(_) => return lost.cancel(),
        }
    }
}
