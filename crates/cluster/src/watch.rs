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

use crate::calls::Verb;
use crate::error::{Error, ErrorClass, Status};
use crate::kinds::Kind;
use crate::objects::{ListOptions, ListPage, name_type};
use crate::request::{Call, Query};
use crate::{Cluster, Trouble, trouble};

/// How long the server is asked to keep a watch open.
const LIFETIME: Duration = Duration::from_secs(290);
/// After this much more silence the connection is taken for dead.
const SILENCE: Duration = Duration::from_secs(15);
/// How often to list where watching is not allowed.
const POLL: Duration = Duration::from_secs(2);
/// A line longer than this is no event.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

type Key = (Gvk, Option<String>, Past);

/// Whether what was there before the watch matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Past {
    Known,
    Skipped,
}

/// The watches under way.
#[derive(Default)]
pub(crate) struct Watches(Mutex<HashMap<Key, Weak<Running>>>);

struct Running {
    shared: Arc<Shared>,
    watching: Arc<Watching>,
    _stop: DropGuard,
}

struct Shared {
    state: Mutex<State>,
    /// The items of a list that is still being read.
    pages: Mutex<Vec<Value>>,
}

/// What is watched, for one or for all.
struct Watching {
    kind: Arc<Kind>,
    namespace: Option<String>,
    past: Past,
    trouble: Trouble,
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
        self.watching.trouble.last()
    }
}

#[derive(Default)]
struct State {
    objects: BTreeMap<(String, String), Arc<Value>>,
    /// How objects that somebody follows by name were when they went.
    departed: BTreeMap<(String, String), Arc<Value>>,
    /// The version of the cluster this is known to be the state of.
    version: u64,
    is_synced: bool,
    denied: Option<Error>,
    readers: Readers,
}

/// Which objects wake a reader.
pub(crate) enum Interest {
    /// Those of a name.
    Named(String),
    Fitting(Box<dyn Fn(&Value) -> bool + Send + Sync>),
}

impl Interest {
    pub(crate) fn fitting(fits: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Interest {
        Interest::Fitting(Box::new(fits))
    }
}

struct Reader {
    interest: Interest,
    wake: Arc<Notify>,
}

/// Who reads along. Thousands of objects have a reader each: what happens to one of them must not ask all.
#[derive(Default)]
struct Readers {
    named: HashMap<String, Vec<Weak<Reader>>>,
    others: Vec<Weak<Reader>>,
}

impl Readers {
    fn add(&mut self, reader: &Arc<Reader>) {
        let place = match &reader.interest {
            Interest::Named(name) => self.named.entry(name.clone()).or_default(),
            Interest::Fitting(_) => &mut self.others,
        };
        place.retain(|reader| reader.strong_count() > 0);
        place.push(Arc::downgrade(reader));
    }

    fn follows(&self, name: &str) -> bool {
        self.named.get(name).is_some_and(|readers| readers.iter().any(|reader| reader.strong_count() > 0))
    }

    fn wake_all(&self) {
        for reader in self.named.values().flatten().chain(&self.others).filter_map(Weak::upgrade) {
            reader.wake.notify_one();
        }
    }

    /// Wakes whom an object interests. The permit is kept until the reader looks: nothing is lost in between.
    fn wake(&self, about: &Value) {
        let named = object::name(about).and_then(|name| self.named.get(name));
        for reader in named.into_iter().flatten().chain(&self.others).filter_map(Weak::upgrade) {
            match &reader.interest {
                Interest::Fitting(fits) if !fits(about) => {}
                _ => reader.wake.notify_one(),
            }
        }
    }
}

/// What a reader sees of a watch. It reads states, never a queue: however late it looks, it sees what
/// is there.
pub(crate) struct Watched {
    running: Arc<Running>,
    _reader: Arc<Reader>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Reads along a shared watch; `wake` is notified about what interests, and about the first state.
    pub(crate) fn watch(
        &self,
        kind: &Arc<Kind>,
        namespace: Option<&str>,
        past: Past,
        wake: &Arc<Notify>,
        interest: Interest,
    ) -> Watched {
        let key = (kind.gvk.clone(), namespace.map(str::to_owned), past);
        let mut all = lock(&self.0.watches.0);
        all.retain(|_, running| running.strong_count() > 0);
        let running = all.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let shared = Arc::new(Shared { state: Mutex::default(), pages: Mutex::default() });
            let (watching, stop) = self.start_watch(kind, key.1.clone(), past, shared.clone());
            let running = Arc::new(Running { shared, watching, _stop: stop });
            all.insert(key, Arc::downgrade(&running));
            running
        });
        drop(all);
        let reader = Arc::new(Reader { interest, wake: wake.clone() });
        lock(&running.shared.state).readers.add(&reader);
        Watched { running, _reader: reader }
    }

    /// Watches a kind in a namespace, or in all, for a sink of its own. For readers that keep what they need
    /// themselves; the watch keeps nothing.
    pub fn watch_kind(
        &self,
        kind: &Arc<Kind>,
        namespace: Option<&str>,
        sink: Arc<dyn WatchSink>,
    ) -> KindWatch {
        let (watching, stop) = self.start_watch(kind, namespace.map(str::to_owned), Past::Known, sink);
        KindWatch { watching, _stop: stop }
    }

    fn start_watch(
        &self,
        kind: &Arc<Kind>,
        namespace: Option<String>,
        past: Past,
        sink: Arc<dyn WatchSink>,
    ) -> (Arc<Watching>, DropGuard) {
        let watching =
            Arc::new(Watching { kind: kind.clone(), namespace, past, trouble: Trouble::default() });
        let stop = CancellationToken::new();
        // It outlives the handle that first asked for it.
        tokio::spawn(keep(self.without_deadline(), watching.clone(), sink, stop.clone()));
        (watching, stop.drop_guard())
    }
}

impl Watched {
    /// Whether the first state has been read.
    pub(crate) fn is_synced(&self) -> bool {
        lock(&self.running.shared.state).is_synced
    }

    /// The version of the cluster the objects are known to be the state of.
    pub(crate) fn version(&self) -> u64 {
        lock(&self.running.shared.state).version
    }

    /// Why nothing can be read, if so.
    pub(crate) fn denied(&self) -> Option<Error> {
        lock(&self.running.shared.state).denied.clone()
    }

    /// The error that listing or watching is repeated for.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.running.watching.trouble.last()
    }

    pub(crate) fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        lock(&self.running.shared.state).objects.get(&key).cloned()
    }

    /// How an object was when it went, as far as that was seen.
    pub(crate) fn departed(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        lock(&self.running.shared.state).departed.get(&key).cloned()
    }

    pub(crate) fn find(&self, fits: impl Fn(&Value) -> bool) -> Vec<Arc<Value>> {
        let state = lock(&self.running.shared.state);
        state.objects.values().filter(|value| fits(value)).cloned().collect()
    }
}

/// The version an object was last written in.
pub(crate) fn version(value: &Value) -> Option<u64> {
    value["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn key_of(value: &Value) -> (String, String) {
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    (text(object::namespace(value)), text(object::name(value)))
}

impl Shared {
    fn replace(&self, items: Vec<Value>, version: &str) {
        let mut state = lock(&self.state);
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
                state.readers.wake(value);
            }
        }
        for (key, value) in &old {
            if !state.objects.contains_key(key) {
                state.readers.wake(value);
            }
        }
    }
}

impl WatchSink for Shared {
    fn list_began(&self) {
        lock(&self.pages).clear();
    }

    fn list_page(&self, objects: Vec<Value>) {
        lock(&self.pages).extend(objects);
    }

    fn list_ended(&self, version: &str) {
        let items = std::mem::take(&mut *lock(&self.pages));
        self.replace(items, version);
    }

    fn changed(&self, object: Value) {
        let mut state = lock(&self.state);
        state.version = version(&object).unwrap_or(0).max(state.version);
        let object = Arc::new(object);
        state.objects.insert(key_of(&object), object.clone());
        state.readers.wake(&object);
    }

    fn deleted(&self, object: Value) {
        let mut state = lock(&self.state);
        state.version = version(&object).unwrap_or(0).max(state.version);
        let object = Arc::new(object);
        let key = key_of(&object);
        state.objects.remove(&key);
        if state.readers.follows(&key.1) {
            state.departed.insert(key, object.clone());
        }
        state.readers.wake(&object);
    }

    fn denied(&self, error: Error) {
        let mut state = lock(&self.state);
        state.denied = Some(error);
        state.readers.wake_all();
    }
}

/// How a watch ended.
enum End {
    /// Go on from here.
    Resume(String),
    /// Too old: list again.
    Relist,
    /// Trouble: wait a little, then list again.
    Failed(Error),
}

/// Lists and watches until nobody reads any more.
async fn keep(cluster: Cluster, watching: Arc<Watching>, sink: Arc<dyn WatchSink>, stop: CancellationToken) {
    let work = async {
        let mut failures = 0_u32;
        let mut may_watch = true;
        loop {
            let namespace = watching.namespace.as_deref();
            sink.list_began();
            let listed = match watching.past {
                Past::Known => {
                    let options = ListOptions::default();
                    let take = |page| match page {
                        ListPage::Items(items) => sink.list_page(items),
                        ListPage::Restart => sink.list_began(),
                    };
                    cluster.list_pages(&watching.kind, namespace, &options, take).await
                }
                Past::Skipped => cluster.now(&watching.kind, namespace).await,
            };
            let mut version = match listed {
                Ok(version) => {
                    trouble::note(None);
                    sink.list_ended(&version);
                    version
                }
                Err(e) if e.is_transient() => {
                    trouble::note(Some(&e));
                    failures += 1;
                    tokio::time::sleep(cluster.pause(failures)).await;
                    continue;
                }
                // Nobody who may not list will be allowed to a moment later.
                Err(e) => return sink.denied(e),
            };
            loop {
                if !may_watch {
                    tokio::time::sleep(POLL).await;
                    break;
                }
                match follow(&cluster, &watching, &*sink, &version).await {
                    End::Resume(next) => {
                        // A server that hangs up at once must not be called in a circle.
                        failures = if next == version { failures + 1 } else { 0 };
                        version = next;
                        if failures > 1 {
                            tokio::time::sleep(cluster.pause(failures)).await;
                        }
                    }
                    End::Relist => break,
                    End::Failed(e) if matches!(e.class, ErrorClass::Forbidden | ErrorClass::Other) => {
                        may_watch = false;
                    }
                    End::Failed(e) if e.is_absent() => return sink.denied(e),
                    End::Failed(e) => {
                        trouble::note(Some(&e));
                        failures += 1;
                        tokio::time::sleep(cluster.pause(failures)).await;
                        break;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = watching.trouble.watch(work) => {}
    }
}

/// Follows one watch to its end.
async fn follow(cluster: &Cluster, watching: &Watching, sink: &dyn WatchSink, from: &str) -> End {
    let seconds = LIFETIME.as_secs().to_string();
    let path = Query::new()
        .with("watch", "true")
        .with("allowWatchBookmarks", "true")
        .with("resourceVersion", from)
        .with("timeoutSeconds", &seconds)
        .on(&watching.kind.collection(watching.namespace.as_deref()));
    let call = Call::get(Verb::Watch, path, format!("watch {}", watching.kind.resource()));
    let response = match tokio::time::timeout(cluster.0.retry.answer, cluster.open(&call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(e)) if e.is_expired() => return End::Relist,
        Ok(Err(e)) => return End::Failed(e),
        Err(_) => return End::Failed(call.error(ErrorClass::Timeout, "no answer")),
    };
    let mut version = from.to_owned();
    let mut body = response.into_body().into_data_stream();
    let mut pending: Vec<u8> = Vec::new();
    loop {
        // However it ended, what was read stands; half a line is read again.
        let Ok(Some(Ok(chunk))) = tokio::time::timeout(LIFETIME + SILENCE, body.next()).await else {
            return End::Resume(version);
        };
        pending.extend_from_slice(&chunk);
        let mut start = 0;
        while let Some(length) = pending[start..].iter().position(|byte| *byte == b'\n') {
            let line = &pending[start..start + length];
            start += length + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return End::Relist };
            let mut value = event["object"].take();
            match event["type"].as_str().unwrap_or_default() {
                "ERROR" => {
                    let status = Status::of(&value, 500);
                    return match status.code {
                        410 => End::Relist,
                        _ => End::Failed(Error::from_status(&call.action, status)),
                    };
                }
                kind => {
                    if let Some(next) = value["metadata"]["resourceVersion"].as_str() {
                        version = next.to_owned();
                    }
                    name_type(&mut value, &watching.kind);
                    match kind {
                        "BOOKMARK" => {}
                        "DELETED" => sink.deleted(value),
                        _ => sink.changed(value),
                    }
                }
            }
        }
        pending.drain(..start);
        if pending.len() > LONGEST_LINE {
            return End::Relist;
        }
    }
}
