//! One shared watch for each kind and namespace: started when first asked for, ended with its last
//! reader, resumed after every loss.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use slipway_manifest::{Gvk, object};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::follow::keep_watching;
use crate::error::Error;
use crate::kinds::ServedKind;
use crate::{Cluster, LastRequestError};

mod follow;

type Key = (Gvk, Option<String>, PastObjects);

/// The treatment of objects that existed before the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PastObjects {
    Known,
    Skipped,
}

/// The watches under way.
#[derive(Default)]
pub(crate) struct SharedWatches(Mutex<HashMap<Key, Weak<RunningWatch>>>);

struct RunningWatch {
    shared: Arc<SharedWatch>,
    watching: Arc<Watching>,
    _stop: DropGuard,
}

struct SharedWatch {
    state: Mutex<WatchState>,
    /// The items of a list that is still being read.
    pages: Mutex<Vec<Value>>,
}

/// What is watched, for one or for all.
struct Watching {
    kind: Arc<ServedKind>,
    namespace: Option<String>,
    past: PastObjects,
    trouble: LastRequestError,
}

/// Receives what a watch of a kind sees, in order. Calls come one at a time and must not wait.
pub trait WatchSink: Send + Sync + 'static {
    /// A list begins: at the start, and after every gap. What was listed halfway is void.
    fn list_began(&self);
    /// One page of the list.
    fn list_page(&self, objects: Vec<Value>);
    /// The list is complete as of a resource version: what it did not name is gone.
    fn list_ended(&self, version: &str);
    fn changed(&self, object: Value);
    fn deleted(&self, object: Value);
    /// Nothing can be read, and that will not change by itself. The watch has ended.
    fn denied(&self, error: Error);
}

/// A watch that feeds a sink until it is dropped.
pub struct KindWatch {
    watching: Arc<Watching>,
    _stop: DropGuard,
}

impl KindWatch {
    /// The error that listing or watching is repeated for.
    pub fn trouble(&self) -> Option<Error> {
        self.watching.trouble.last_error()
    }
}

#[derive(Default)]
struct WatchState {
    objects: BTreeMap<(String, String), Arc<Value>>,
    /// The last states of deleted objects that a reader follows by name.
    departed: BTreeMap<(String, String), Arc<Value>>,
    /// The version of the cluster this is known to be the state of.
    version: u64,
    is_synced: bool,
    denied: Option<Error>,
    readers: WatchReaders,
}

/// The objects that wake a reader.
pub(crate) enum ReaderInterest {
    /// Those of a name.
    Named(String),
    Fitting(Box<dyn Fn(&Value) -> bool + Send + Sync>),
}

impl ReaderInterest {
    pub(crate) fn matching(fits: impl Fn(&Value) -> bool + Send + Sync + 'static) -> ReaderInterest {
        ReaderInterest::Fitting(Box::new(fits))
    }
}

struct WatchReader {
    interest: ReaderInterest,
    wake: Arc<Notify>,
}

/// The readers of a watch, by name: with thousands of them, a change must not ask all.
#[derive(Default)]
struct WatchReaders {
    named: HashMap<String, Vec<Weak<WatchReader>>>,
    others: Vec<Weak<WatchReader>>,
}

impl WatchReaders {
    fn add_reader(&mut self, reader: &Arc<WatchReader>) {
        let place = match &reader.interest {
            ReaderInterest::Named(name) => self.named.entry(name.clone()).or_default(),
            ReaderInterest::Fitting(_) => &mut self.others,
        };
        place.retain(|reader| reader.strong_count() > 0);
        place.push(Arc::downgrade(reader));
    }

    fn has_named_reader(&self, name: &str) -> bool {
        self.named.get(name).is_some_and(|readers| readers.iter().any(|reader| reader.strong_count() > 0))
    }

    fn wake_all(&self) {
        for reader in self.named.values().flatten().chain(&self.others).filter_map(Weak::upgrade) {
            reader.wake.notify_one();
        }
    }

    /// Wakes the readers an object interests. The permit is kept until the reader looks: nothing is lost in between.
    fn wake_interested(&self, about: &Value) {
        let named = object::name(about).and_then(|name| self.named.get(name));
        for reader in named.into_iter().flatten().chain(&self.others).filter_map(Weak::upgrade) {
            match &reader.interest {
                ReaderInterest::Fitting(fits) if !fits(about) => {}
                _ => reader.wake.notify_one(),
            }
        }
    }
}

/// A reader's view of a watch. It reads states, never a queue: however late it looks, it sees the
/// current state.
pub(crate) struct WatchHandle {
    running: Arc<RunningWatch>,
    _reader: Arc<WatchReader>,
}

fn lock_state<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Reads along a shared watch; `wake` is notified about what interests, and about the first state.
    pub(crate) fn watch_shared(
        &self,
        kind: &Arc<ServedKind>,
        namespace: Option<&str>,
        past: PastObjects,
        wake: &Arc<Notify>,
        interest: ReaderInterest,
    ) -> WatchHandle {
        let key = (kind.gvk.clone(), namespace.map(str::to_owned), past);
        let mut all = lock_state(&self.0.watches.0);
        all.retain(|_, running| running.strong_count() > 0);
        let running = all.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let shared = Arc::new(SharedWatch { state: Mutex::default(), pages: Mutex::default() });
            let (watching, stop) = self.start_watch(kind, key.1.clone(), past, shared.clone());
            let running = Arc::new(RunningWatch { shared, watching, _stop: stop });
            all.insert(key, Arc::downgrade(&running));
            running
        });
        drop(all);
        let reader = Arc::new(WatchReader { interest, wake: wake.clone() });
        lock_state(&running.shared.state).readers.add_reader(&reader);
        WatchHandle { running, _reader: reader }
    }

    /// Watches a kind in a namespace, or in all, for a sink of its own. For readers that keep what they need
    /// themselves; the watch keeps nothing.
    pub fn watch_kind(
        &self,
        kind: &Arc<ServedKind>,
        namespace: Option<&str>,
        sink: Arc<dyn WatchSink>,
    ) -> KindWatch {
        let (watching, stop) = self.start_watch(kind, namespace.map(str::to_owned), PastObjects::Known, sink);
        KindWatch { watching, _stop: stop }
    }

    fn start_watch(
        &self,
        kind: &Arc<ServedKind>,
        namespace: Option<String>,
        past: PastObjects,
        sink: Arc<dyn WatchSink>,
    ) -> (Arc<Watching>, DropGuard) {
        let watching =
            Arc::new(Watching { kind: kind.clone(), namespace, past, trouble: LastRequestError::default() });
        let stop = CancellationToken::new();
        // It outlives the handle that first asked for it.
        tokio::spawn(keep_watching(self.without_deadline(), watching.clone(), sink, stop.clone()));
        (watching, stop.drop_guard())
    }
}

impl WatchHandle {
    /// Returns true if the first state has been read.
    pub(crate) fn is_synced(&self) -> bool {
        lock_state(&self.running.shared.state).is_synced
    }

    /// The version of the cluster the objects are known to be the state of.
    pub(crate) fn known_version(&self) -> u64 {
        lock_state(&self.running.shared.state).version
    }

    /// The error that prevents reading, if there is one.
    pub(crate) fn denied_error(&self) -> Option<Error> {
        lock_state(&self.running.shared.state).denied.clone()
    }

    /// The error that listing or watching is repeated for.
    pub(crate) fn last_error(&self) -> Option<Error> {
        self.running.watching.trouble.last_error()
    }

    pub(crate) fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        lock_state(&self.running.shared.state).objects.get(&key).cloned()
    }

    /// The last state of a deleted object, if it was seen.
    pub(crate) fn departed_object(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        lock_state(&self.running.shared.state).departed.get(&key).cloned()
    }

    pub(crate) fn find_objects(&self, fits: impl Fn(&Value) -> bool) -> Vec<Arc<Value>> {
        let state = lock_state(&self.running.shared.state);
        state.objects.values().filter(|value| fits(value)).cloned().collect()
    }
}

/// The version an object was last written in.
pub(crate) fn resource_version(value: &Value) -> Option<u64> {
    value["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn key_of(value: &Value) -> (String, String) {
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    (text(object::namespace(value)), text(object::name(value)))
}

impl SharedWatch {
    fn replace_objects(&self, items: Vec<Value>, version: &str) {
        let mut state = lock_state(&self.state);
        state.version = version.parse().unwrap_or(0);
        let fresh: BTreeMap<_, _> = items.into_iter().map(|item| (key_of(&item), Arc::new(item))).collect();
        let old = std::mem::replace(&mut state.objects, fresh);
        let was_synced = std::mem::replace(&mut state.is_synced, true);
        state.denied = None;
        if !was_synced {
            return state.readers.wake_all();
        }
        let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
        for (key, value) in &state.objects {
            if old.get(key).is_none_or(|old| version(old) != version(value)) {
                state.readers.wake_interested(value);
            }
        }
        for (key, value) in &old {
            if !state.objects.contains_key(key) {
                state.readers.wake_interested(value);
            }
        }
    }
}

impl WatchSink for SharedWatch {
    fn list_began(&self) {
        lock_state(&self.pages).clear();
    }

    fn list_page(&self, objects: Vec<Value>) {
        lock_state(&self.pages).extend(objects);
    }

    fn list_ended(&self, version: &str) {
        let items = std::mem::take(&mut *lock_state(&self.pages));
        self.replace_objects(items, version);
    }

    fn changed(&self, object: Value) {
        let mut state = lock_state(&self.state);
        state.version = resource_version(&object).unwrap_or(0).max(state.version);
        let object = Arc::new(object);
        state.objects.insert(key_of(&object), object.clone());
        state.readers.wake_interested(&object);
    }

    fn deleted(&self, object: Value) {
        let mut state = lock_state(&self.state);
        state.version = resource_version(&object).unwrap_or(0).max(state.version);
        let object = Arc::new(object);
        let key = key_of(&object);
        state.objects.remove(&key);
        if state.readers.has_named_reader(&key.1) {
            state.departed.insert(key, object.clone());
        }
        state.readers.wake_interested(&object);
    }

    fn denied(&self, error: Error) {
        let mut state = lock_state(&self.state);
        state.denied = Some(error);
        state.readers.wake_all();
    }
}
