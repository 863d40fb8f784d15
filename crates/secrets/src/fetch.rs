//! Fetching: one read a path and run, in batches, by as many tasks as the limits allow.
//!
//! A path that is being fetched is shared: whoever asks for it meanwhile waits for the same read. Failures are
//! kept like values, so that a missing secret is asked for once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::audit::CacheUse;
use crate::config::ResolveLimits;
use crate::provider::{ErrorCode, FetchOutcomes, FetchedSecret, Provider, ProviderError, all_failed};
use crate::reference::{Locator, ProviderName};

/// A read of a run: the provider and what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FetchKey {
    pub(crate) provider: ProviderName,
    pub(crate) locator: Locator,
}

/// The end of a read.
#[derive(Clone, Debug)]
pub(crate) struct FetchOutcome {
    pub(crate) result: Result<Arc<FetchedSecret>, ProviderError>,
    pub(crate) cache: CacheUse,
    pub(crate) latency_ms: u64,
}

/// Every read of a run, finished or under way.
pub(crate) struct FetchCache {
    reads: Mutex<HashMap<FetchKey, SharedBatch>>,
    slots: Arc<Semaphore>,
    /// The size a secret may have.
    max_bytes: usize,
    /// Everything backends lent to this run. A lease is noted when it arrives, whether anybody still waits for it or not.
    leases: Arc<Mutex<BTreeMap<String, ProviderName>>>,
}

/// The time reads that are under way have left when a run ends.
const LAST_READS: Duration = Duration::from_secs(2);

type SharedBatch = Shared<BoxFuture<'static, Arc<FinishedBatch>>>;

struct FinishedBatch {
    outcomes: FetchOutcomes,
    latency_ms: u64,
}

impl FetchCache {
    pub(crate) fn new(limits: &ResolveLimits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.concurrency));
        Self { reads: Mutex::default(), slots, max_bytes: limits.max_bytes, leases: Arc::default() }
    }

    /// Fetches what nobody fetched yet and waits for everything, at most until `deadline`.
    pub(crate) async fn fetch(
        &self,
        keys: &BTreeSet<FetchKey>,
        providers: &BTreeMap<ProviderName, Arc<dyn Provider>>,
        deadline: Instant,
    ) -> BTreeMap<FetchKey, FetchOutcome> {
        let (batches, missed) = self.join(keys, providers);
        let finished = batches.into_iter().map(|(key, batch)| async move {
            let finished = tokio::time::timeout_at(deadline, batch).await;
            (key, finished)
        });
        let mut outcomes = BTreeMap::new();
        for (key, finished) in futures::future::join_all(finished).await {
            let cache = if missed.contains(&key) { CacheUse::Miss } else { CacheUse::Hit };
            let outcome = match finished {
                Ok(batch) => FetchOutcome {
                    result: batch.outcomes.get(&key.locator).cloned().unwrap_or_else(|| Err(unanswered())),
                    cache,
                    latency_ms: batch.latency_ms,
                },
                Err(_) => FetchOutcome { result: Err(late()), cache, latency_ms: 0 },
            };
            outcomes.insert(key, outcome);
        }
        outcomes
    }

    /// The batches that will answer, started where nobody had; and the keys that started one.
    fn join(
        &self,
        keys: &BTreeSet<FetchKey>,
        providers: &BTreeMap<ProviderName, Arc<dyn Provider>>,
    ) -> (Vec<(FetchKey, SharedBatch)>, BTreeSet<FetchKey>) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let missed: BTreeSet<FetchKey> =
            keys.iter().filter(|key| !reads.contains_key(key)).cloned().collect();
        for (name, provider) in providers {
            let locators: Vec<Locator> =
                missed.iter().filter(|key| key.provider == *name).map(|key| key.locator.clone()).collect();
            for chunk in locators.chunks(provider.batch_size().max(1)) {
                let batch = self.start(name.clone(), Arc::clone(provider), chunk.to_vec());
                for locator in chunk {
                    let key = FetchKey { provider: name.clone(), locator: locator.clone() };
                    reads.insert(key, batch.clone());
                }
            }
        }
        let batches = keys.iter().filter_map(|key| Some((key.clone(), reads.get(key)?.clone()))).collect();
        (batches, missed)
    }

    /// Starts a batch as a task of its own, so that it goes on when the node that asked first is cancelled.
    fn start(&self, name: ProviderName, provider: Arc<dyn Provider>, locators: Vec<Locator>) -> SharedBatch {
        let (slots, leases) = (Arc::clone(&self.slots), Arc::clone(&self.leases));
        let (asked, max_bytes) = (locators.clone(), self.max_bytes);
        let task = tokio::spawn(async move {
            let Ok(_slot) = slots.acquire_owned().await else {
                let stopped = ProviderError::new(ErrorCode::Interrupted, "stopped");
                return FinishedBatch { outcomes: all_failed(&asked, &stopped), latency_ms: 0 };
            };
            let start = Instant::now();
            let mut outcomes = provider.fetch(&asked).await;
            let lent = outcomes.values().flatten().filter_map(|fetched| fetched.lease.clone());
            leases
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(lent.map(|lease| (lease, name.clone())));
            for outcome in outcomes.values_mut().filter(|outcome| is_larger(outcome, max_bytes)) {
                *outcome = Err(too_large(max_bytes));
            }
            FinishedBatch { outcomes, latency_ms: start.elapsed().as_millis() as u64 }
        });
        async move {
            Arc::new(task.await.unwrap_or_else(|_| FinishedBatch {
                outcomes: all_failed(
                    &locators,
                    &ProviderError::new(ErrorCode::Unavailable, "the read was stopped"),
                ),
                latency_ms: 0,
            }))
        }
        .boxed()
        .shared()
    }

    /// Ends the run: lets reads under way come in for a moment, forgets everything (values nobody holds are wiped) and
    /// gives the leases to return.
    pub(crate) async fn close(&self) -> BTreeMap<String, ProviderName> {
        let reads = std::mem::take(&mut *self.reads.lock().unwrap_or_else(PoisonError::into_inner));
        let pending = reads.into_values().filter(|read| read.peek().is_none());
        // Nothing new begins; what does not come in leaves its lease to expire.
        self.slots.close();
        let _ = tokio::time::timeout(LAST_READS, futures::future::join_all(pending)).await;
        std::mem::take(&mut *self.leases.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn is_larger(outcome: &Result<Arc<FetchedSecret>, ProviderError>, limit: usize) -> bool {
    outcome.as_ref().is_ok_and(|fetched| fetched.content.len() > limit)
}

fn too_large(limit: usize) -> ProviderError {
    ProviderError::new(ErrorCode::Invalid, format!("it is larger than {limit} bytes"))
        .hint("raise `secrets.limits.maxBytes`")
}

fn unanswered() -> ProviderError {
    ProviderError::new(ErrorCode::Invalid, "the provider gave no answer for this path")
}

fn late() -> ProviderError {
    ProviderError::new(ErrorCode::Timeout, "no answer within the time for all secrets")
        .hint("raise `secrets.limits.phase`, or look after the backend")
}
