//! One shared watch for each kind and namespace: started when first asked for, ended with its last
//! reader, resumed after every loss.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use http_body_util::BodyExt;
use serde_json::Value;
use slipway_manifest::{Gvk, object};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::calls::RequestVerb;
use crate::error::{ApiStatus, Error, ErrorClass};
use crate::kinds::ServedKind;
use crate::objects::{ListOptions, add_type_fields};
use crate::request::{ApiCall, UrlQuery};
use crate::{Cluster, LastRequestError, last_error};

/// The lifetime of a watch that is asked of the server.
const LIFETIME: Duration = Duration::from_secs(290);
/// The time without data after which the connection counts as dead.
const SILENCE_LIMIT: Duration = Duration::from_secs(15);
/// The polling interval where watching is not allowed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// A line longer than this is no event.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

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
    _stop: DropGuard,
}

struct SharedWatch {
    kind: Arc<ServedKind>,
    namespace: Option<String>,
    past: PastObjects,
    state: Mutex<WatchState>,
    trouble: LastRequestError,
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
            let shared = Arc::new(SharedWatch {
                kind: kind.clone(),
                namespace: key.1.clone(),
                past,
                state: Mutex::default(),
                trouble: LastRequestError::default(),
            });
            let stop = CancellationToken::new();
            // It outlives the handle that first asked for it.
            tokio::spawn(keep_watching(self.without_deadline(), shared.clone(), stop.clone()));
            let running = Arc::new(RunningWatch { shared, _stop: stop.drop_guard() });
            all.insert(key, Arc::downgrade(&running));
            running
        });
        drop(all);
        let reader = Arc::new(WatchReader { interest, wake: wake.clone() });
        lock_state(&running.shared.state).readers.add_reader(&reader);
        WatchHandle { running, _reader: reader }
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
        self.running.shared.trouble.last_error()
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

    fn apply_change(&self, kind: &str, value: Value) {
        let mut state = lock_state(&self.state);
        state.version = resource_version(&value).unwrap_or(0).max(state.version);
        let value = Arc::new(value);
        if kind == "DELETED" {
            let key = key_of(&value);
            state.objects.remove(&key);
            if state.readers.has_named_reader(&key.1) {
                state.departed.insert(key, value.clone());
            }
        } else {
            state.objects.insert(key_of(&value), value.clone());
        }
        state.readers.wake_interested(&value);
    }

    fn deny_access(&self, error: Error) {
        let mut state = lock_state(&self.state);
        state.denied = Some(error);
        state.readers.wake_all();
    }
}

/// The end of a watch.
enum WatchEnd {
    /// Go on from here.
    Resume(String),
    /// Too old: list again.
    Relist,
    /// An error: wait a little, then list again.
    Failed(Error),
}

/// Lists and watches until there is no reader.
async fn keep_watching(cluster: Cluster, shared: Arc<SharedWatch>, stop: CancellationToken) {
    let work = async {
        let mut failures = 0_u32;
        let mut may_watch = true;
        loop {
            let listed = match shared.past {
                PastObjects::Known => {
                    let namespace = shared.namespace.as_deref();
                    cluster.list(&shared.kind, namespace, &ListOptions::default()).await
                }
                PastObjects::Skipped => {
                    cluster.current_version(&shared.kind, shared.namespace.as_deref()).await
                }
            };
            let mut version = match listed {
                Ok(listed) => {
                    last_error::record_error(None);
                    shared.replace_objects(listed.items, &listed.resource_version);
                    listed.resource_version
                }
                Err(e) if e.is_transient() => {
                    last_error::record_error(Some(&e));
                    failures += 1;
                    tokio::time::sleep(cluster.retry_pause(failures)).await;
                    continue;
                }
                // A user who may not list will not be allowed to soon.
                Err(e) => return shared.deny_access(e),
            };
            loop {
                if !may_watch {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    break;
                }
                match follow_watch(&cluster, &shared, &version).await {
                    WatchEnd::Resume(next) => {
                        // A server that closes connections at once must not be called in a tight loop.
                        failures = if next == version { failures + 1 } else { 0 };
                        version = next;
                        if failures > 1 {
                            tokio::time::sleep(cluster.retry_pause(failures)).await;
                        }
                    }
                    WatchEnd::Relist => break,
                    WatchEnd::Failed(e) if matches!(e.class, ErrorClass::Forbidden | ErrorClass::Other) => {
                        may_watch = false;
                    }
                    WatchEnd::Failed(e) if e.is_absent() => return shared.deny_access(e),
                    WatchEnd::Failed(e) => {
                        last_error::record_error(Some(&e));
                        failures += 1;
                        tokio::time::sleep(cluster.retry_pause(failures)).await;
                        break;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = shared.trouble.record_during(work) => {}
    }
}

/// Follows one watch to its end.
async fn follow_watch(cluster: &Cluster, shared: &SharedWatch, from: &str) -> WatchEnd {
    let seconds = LIFETIME.as_secs().to_string();
    let path = UrlQuery::new()
        .with("watch", "true")
        .with("allowWatchBookmarks", "true")
        .with("resourceVersion", from)
        .with("timeoutSeconds", &seconds)
        .append_to(&shared.kind.collection_path(shared.namespace.as_deref()));
    let call = ApiCall::get(RequestVerb::Watch, path, format!("watch {}", shared.kind.resource_name()));
    let response = match tokio::time::timeout(cluster.0.retry.answer, cluster.open_stream(&call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(e)) if e.is_expired() => return WatchEnd::Relist,
        Ok(Err(e)) => return WatchEnd::Failed(e),
        Err(_) => return WatchEnd::Failed(call.call_error(ErrorClass::Timeout, "no answer")),
    };
    let mut version = from.to_owned();
    let mut body = response.into_body().into_data_stream();
    let mut pending: Vec<u8> = Vec::new();
    loop {
        // However it ended, what was read stands; half a line is read again.
        let Ok(Some(Ok(chunk))) = tokio::time::timeout(LIFETIME + SILENCE_LIMIT, body.next()).await else {
            return WatchEnd::Resume(version);
        };
        pending.extend_from_slice(&chunk);
        let mut start = 0;
        while let Some(length) = pending[start..].iter().position(|byte| *byte == b'\n') {
            let line = &pending[start..start + length];
            start += length + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return WatchEnd::Relist };
            let mut value = event["object"].take();
            match event["type"].as_str().unwrap_or_default() {
                "ERROR" => {
                    let status = ApiStatus::from_object(&value, 500);
                    return match status.code {
                        410 => WatchEnd::Relist,
                        _ => WatchEnd::Failed(Error::from_status(&call.action, status)),
                    };
                }
                kind => {
                    if let Some(next) = value["metadata"]["resourceVersion"].as_str() {
                        version = next.to_owned();
                    }
                    if kind != "BOOKMARK" {
                        add_type_fields(&mut value, &shared.kind);
                        shared.apply_change(kind, value);
                    }
                }
            }
        }
        pending.drain(..start);
        if pending.len() > LONGEST_LINE {
            return WatchEnd::Relist;
        }
    }
}
