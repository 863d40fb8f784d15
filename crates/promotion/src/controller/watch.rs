//! One watch a kind, which wakes whoever a change concerns.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use slipway_cluster::{Error, ServedKind, WatchSink};
use slipway_kro::WorkQueue;
use slipway_manifest::object;

use super::events::{EventLog, Sighting};
use super::topics::{Topics, WorkKey, WorkKind};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn version_of(object: &Value) -> Option<&str> {
    object["metadata"]["resourceVersion"].as_str()
}

/// Turns what a watch sees into work.
pub(super) struct KindSink {
    kind: WorkKind,
    topics: Arc<Mutex<Topics>>,
    queue: Arc<WorkQueue<WorkKey>>,
    events: Arc<EventLog>,
    served: Arc<ServedKind>,
    /// The version of the last change the watch has told of; whoever it concerns was woken before.
    seen: AtomicU64,
    /// What the list under way has named so far.
    listed: Mutex<BTreeSet<WorkKey>>,
    is_synced: AtomicBool,
}

impl KindSink {
    pub(super) fn new(
        kind: WorkKind,
        served: Arc<ServedKind>,
        topics: Arc<Mutex<Topics>>,
        queue: Arc<WorkQueue<WorkKey>>,
        events: Arc<EventLog>,
    ) -> Self {
        Self {
            kind,
            served,
            topics,
            queue,
            events,
            seen: AtomicU64::new(0),
            listed: Mutex::default(),
            is_synced: AtomicBool::new(false),
        }
    }

    /// The kind, and the version up to which its watch has told everything.
    pub(super) fn seen(&self) -> (&ServedKind, u64) {
        (&self.served, self.seen.load(Ordering::Acquire))
    }

    fn saw(&self, version: Option<&str>) {
        let version = version.and_then(|version| version.parse().ok()).unwrap_or_default();
        self.seen.fetch_max(version, Ordering::AcqRel);
    }

    /// Returns true if everything there is was read once.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    fn key(&self, object: &Value) -> WorkKey {
        let namespace = object::namespace(object).unwrap_or_default();
        WorkKey::new(self.kind, namespace, object::name(object).unwrap_or_default())
    }

    fn wake(&self, keys: BTreeSet<WorkKey>) {
        // Graphs have a controller of their own, and entries of the audit trail nothing to be done with.
        let has_work =
            |key: &&WorkKey| !matches!(key.kind, WorkKind::Graph | WorkKind::Group | WorkKind::Audit);
        keys.iter().filter(has_work).for_each(|key| self.queue.wake(key));
    }

    fn forget(&self, key: &WorkKey) {
        self.events.forget(key);
        let affected = lock(&self.topics).deleted(key);
        self.wake(affected);
    }

    fn note(&self, object: &Value, sighting: Sighting) -> WorkKey {
        let key = self.key(object);
        self.events.note(&key, object, sighting);
        let affected = lock(&self.topics).changed(&key, object);
        self.wake(affected);
        key
    }
}

impl WatchSink for KindSink {
    fn list_began(&self) {
        lock(&self.listed).clear();
    }

    fn list_page(&self, objects: Vec<Value>) {
        for object in &objects {
            let key = self.note(object, Sighting::Listed);
            lock(&self.listed).insert(key);
        }
    }

    fn list_ended(&self, version: &str) {
        let listed = std::mem::take(&mut *lock(&self.listed));
        let gone: Vec<WorkKey> = lock(&self.topics).keys(self.kind).difference(&listed).cloned().collect();
        for key in gone {
            self.forget(&key);
        }
        self.saw(Some(version));
        self.is_synced.store(true, Ordering::Release);
        self.queue.poke();
    }

    fn changed(&self, object: Value) {
        self.note(&object, Sighting::Changed);
        self.saw(version_of(&object));
    }

    fn deleted(&self, object: Value) {
        self.forget(&self.key(&object));
        self.saw(version_of(&object));
    }

    fn denied(&self, error: Error) {
        tracing::error!(kind = ?self.kind, %error, "the kind cannot be watched");
    }
}
