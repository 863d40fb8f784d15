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
use crate::objects::{ListOptions, ListPart, add_type_fields};
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

/// The groups of workloads, which no other server can serve.
const OWN_GROUPS: [&str; 3] = ["", "apps", "batch"];

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

/// The end of a watch.
enum WatchEnd {
    /// Go on from here.
    Resume(String),
    /// Too old: list again.
    Relist,
    /// An error: wait a little, then list again.
    Failed(Error),
}

/// The state a watch begins with.
enum WatchStart<'a> {
    /// The one of a version that is known.
    After(&'a str),
    /// Everything that is there, told by the watch itself.
    Everything,
}

/// Lists and watches until nobody reads any more.
async fn keep_watching(
    cluster: Cluster,
    watching: Arc<Watching>,
    sink: Arc<dyn WatchSink>,
    stop: CancellationToken,
) {
    let work = async {
        let mut failures = 0_u32;
        let mut may_watch = true;
        let mut may_stream = watching.can_stream(&cluster).await;
        loop {
            let begun = match may_stream {
                true => follow_watch(&cluster, &watching, &*sink, WatchStart::Everything).await,
                false => read_list(&cluster, &watching, &*sink).await,
            };
            let mut version = match begun {
                WatchEnd::Resume(version) => version,
                WatchEnd::Relist => continue,
                WatchEnd::Failed(e) if e.is_transient() => {
                    last_error::record_error(Some(&e));
                    failures += 1;
                    tokio::time::sleep(cluster.retry_pause(failures)).await;
                    continue;
                }
                // Switched off, or nobody may watch.
                WatchEnd::Failed(_) if may_stream => {
                    may_stream = false;
                    continue;
                }
                // Nobody who may not list will be allowed to a moment later.
                WatchEnd::Failed(e) => return sink.denied(e),
            };
            loop {
                if !may_watch {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    break;
                }
                match follow_watch(&cluster, &watching, &*sink, WatchStart::After(&version)).await {
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
                    WatchEnd::Failed(e) if e.is_absent() => return sink.denied(e),
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
        () = watching.trouble.record_during(work) => {}
    }
}

impl Watching {
    /// Returns true if one request can list and watch. Servers behind the API server may be older than it is, so only
    /// groups that it serves itself are asked for in this way.
    async fn can_stream(&self, cluster: &Cluster) -> bool {
        self.past == PastObjects::Known
            && OWN_GROUPS.contains(&self.kind.gvk.group.as_str())
            && cluster.server_version().await.is_ok_and(|version| version.streams_lists())
    }
}

/// Reads what is there, or only the version that it is of.
async fn read_list(cluster: &Cluster, watching: &Watching, sink: &dyn WatchSink) -> WatchEnd {
    let namespace = watching.namespace.as_deref();
    sink.list_began();
    let listed = match watching.past {
        PastObjects::Known => {
            let options = ListOptions::default();
            let take = |page| match page {
                ListPart::Items(items) => sink.list_page(items),
                ListPart::Restart => sink.list_began(),
            };
            cluster.list_pages(&watching.kind, namespace, &options, take).await
        }
        PastObjects::Skipped => cluster.current_version(&watching.kind, namespace).await,
    };
    match listed {
        Ok(version) => {
            last_error::record_error(None);
            sink.list_ended(&version);
            WatchEnd::Resume(version)
        }
        Err(e) => WatchEnd::Failed(e),
    }
}

/// Tells that everything there was when a watch began has been sent.
fn is_end_of_list(bookmark: &Value) -> bool {
    object::annotation(bookmark, "k8s.io/initial-events-end") == Some("true")
}

/// The events of one watch on their way to its sink.
struct WatchEvents<'a> {
    watching: &'a Watching,
    sink: &'a dyn WatchSink,
    /// The version the sink knows.
    version: String,
    /// The list the watch began with, while it is not complete.
    list: Option<StreamedList>,
}

/// A list that a watch sends. A server whose cache is behind sends changes before its end, so that a listed object can
/// be gone again.
#[derive(Default)]
struct StreamedList {
    deleted: BTreeMap<(String, String), Value>,
}

impl WatchEvents<'_> {
    fn take(&mut self, kind: &str, mut value: Value) {
        if let Some(next) = value["metadata"]["resourceVersion"].as_str() {
            self.version = next.to_owned();
        }
        add_type_fields(&mut value, &self.watching.kind);
        match (kind, &mut self.list) {
            ("BOOKMARK", Some(list)) if is_end_of_list(&value) => {
                let deleted = std::mem::take(&mut list.deleted);
                self.list = None;
                last_error::record_error(None);
                self.sink.list_ended(&self.version);
                deleted.into_values().for_each(|object| self.sink.deleted(object));
            }
            ("BOOKMARK", _) => {}
            ("DELETED", Some(list)) => {
                list.deleted.insert(key_of(&value), value);
            }
            (_, Some(list)) => {
                list.deleted.remove(&key_of(&value));
                self.sink.list_page(vec![value]);
            }
            ("DELETED", None) => self.sink.deleted(value),
            (_, None) => self.sink.changed(value),
        }
    }
}

/// Follows one watch to its end.
async fn follow_watch(
    cluster: &Cluster,
    watching: &Watching,
    sink: &dyn WatchSink,
    start: WatchStart<'_>,
) -> WatchEnd {
    let seconds = LIFETIME.as_secs().to_string();
    let query = UrlQuery::new()
        .with("watch", "true")
        .with("allowWatchBookmarks", "true")
        .with("timeoutSeconds", &seconds);
    let mut events = WatchEvents { watching, sink, version: String::new(), list: None };
    let query = match start {
        WatchStart::After(version) => {
            events.version = version.to_owned();
            query.with("resourceVersion", version)
        }
        WatchStart::Everything => {
            sink.list_began();
            events.list = Some(StreamedList::default());
            query.with("sendInitialEvents", "true").with("resourceVersionMatch", "NotOlderThan")
        }
    };
    let path = query.append_to(&watching.kind.collection_path(watching.namespace.as_deref()));
    let call = ApiCall::get(RequestVerb::Watch, path, format!("watch {}", watching.kind.resource_name()));
    let response = match tokio::time::timeout(cluster.0.retry.answer, cluster.open_stream(&call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(e)) if e.is_expired() => return WatchEnd::Relist,
        Ok(Err(e)) => return WatchEnd::Failed(e),
        Err(_) => return WatchEnd::Failed(call.call_error(ErrorClass::Timeout, "no answer")),
    };
    let mut body = response.into_body().into_data_stream();
    let mut pending: Vec<u8> = Vec::new();
    loop {
        let Ok(Some(Ok(chunk))) = tokio::time::timeout(LIFETIME + SILENCE_LIMIT, body.next()).await else {
            if events.list.is_some() {
                let message = "the watch ended before everything was listed";
                return WatchEnd::Failed(call.call_error(ErrorClass::Transport, message));
            }
            // However it ended, what was read stands; half a line is read again.
            return WatchEnd::Resume(events.version);
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
            let value = event["object"].take();
            match event["type"].as_str().unwrap_or_default() {
                "ERROR" => {
                    let status = ApiStatus::from_object(&value, 500);
                    return match status.code {
                        410 => WatchEnd::Relist,
                        _ => WatchEnd::Failed(Error::from_status(&call.action, status)),
                    };
                }
                kind => events.take(kind, value),
            }
        }
        pending.drain(..start);
        if pending.len() > LONGEST_LINE {
            return WatchEnd::Relist;
        }
    }
}
