//! One shared watch for each kind: what Graphs are interested in is kept, in as little memory as it takes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Cluster, Error, ErrorClass, KindWatch, ServedKind, WatchSink};
use slipway_manifest::selector::LabelSelector;
use slipway_manifest::{Gvk, object};

use crate::names::{GraphId, OwnerId, Ownership, Place, ownership};
use crate::queue::{Queue, lock};
use crate::tombstones::Tombstones;

/// What is known of an object.
pub(crate) enum Lookup {
    Found(Value),
    Absent,
    /// Nobody was interested so far: ask the server.
    Unknown,
}

/// What a feed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedRole {
    /// The Graphs themselves: all are kept, and each change wakes the Graph.
    Graphs,
    /// What Graphs read and write.
    Objects,
}

/// Everything known of one kind.
pub(crate) struct Feed {
    pub(crate) kind: Arc<ServedKind>,
    role: FeedRole,
    queue: Arc<Queue>,
    state: Mutex<FeedState>,
    watch: Mutex<Option<KindWatch>>,
}

#[derive(Default)]
struct FeedState {
    objects: HashMap<Place, Cached>,
    /// Who reads an object by name.
    readers: HashMap<Place, Vec<Arc<GraphId>>>,
    /// Who reads by selector: then everything is kept.
    collectors: Vec<Arc<GraphId>>,
    owned: HashMap<OwnerId, BTreeSet<(String, Place)>>,
    gone: Tombstones,
    listed: HashSet<Place>,
    /// The version of the last change the watch has told of.
    seen: u64,
    sync: Sync,
    /// Who waits for the first state.
    waiting: Vec<Arc<GraphId>>,
}

#[derive(Default)]
enum Sync {
    #[default]
    Pending,
    Done,
    /// Nothing can be read, as was first seen at a time.
    Denied(Error, Option<Timestamp>),
}

/// After how long a kind that could not be read is tried again.
pub(crate) const DENIED_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);

/// An object as text, which takes a fraction of the memory of a tree.
struct Cached {
    text: Box<[u8]>,
    version: u64,
    owners: Vec<Ownership>,
}

fn version_of(value: &Value) -> u64 {
    value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn owners_of(value: &Value) -> Vec<Ownership> {
    object::labels(value).filter_map(|(key, value)| ownership(key, value)).collect()
}

impl Feed {
    /// Reads an object by name.
    pub(crate) fn get(&self, place: &Place) -> Lookup {
        let state = lock(&self.state);
        match state.objects.get(place) {
            Some(cached) => match serde_json::from_slice(&cached.text) {
                Ok(value) => Lookup::Found(value),
                Err(_) => Lookup::Unknown,
            },
            None if state.is_whole(self.role) || state.readers.contains_key(place) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// The version of a kept object; 0 when it is not there.
    pub(crate) fn version(&self, place: &Place) -> u64 {
        lock(&self.state).objects.get(place).map_or(0, |cached| cached.version)
    }

    /// Begins to wake a Graph when an object changes. Gives whether the object was followed before.
    pub(crate) fn follow(&self, place: &Place, graph: &Arc<GraphId>) -> Followed {
        let mut state = lock(&self.state);
        let is_whole = state.is_whole(self.role);
        let was_known = is_whole || state.readers.contains_key(place) || state.objects.contains_key(place);
        let readers = state.readers.entry(place.clone()).or_default();
        if !readers.contains(graph) {
            readers.push(graph.clone());
        }
        if was_known { Followed::Before } else { Followed::Anew }
    }

    pub(crate) fn unfollow(&self, place: &Place, graph: &Arc<GraphId>) {
        let mut state = lock(&self.state);
        if let Some(readers) = state.readers.get_mut(place) {
            readers.retain(|reader| reader != graph);
            if readers.is_empty() {
                state.readers.remove(place);
                if !state.is_whole(self.role)
                    && state.objects.get(place).is_some_and(|cached| cached.owners.is_empty())
                {
                    state.remove(place);
                }
            }
        }
    }

    /// Everything that fits a selector, by namespace and name.
    pub(crate) fn select(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Value> {
        let state = lock(&self.state);
        let mut places: Vec<&Place> = state
            .objects
            .keys()
            .filter(|place| namespace.is_none_or(|wanted| place.namespace == wanted))
            .collect();
        places.sort();
        let parse = |place: &&Place| serde_json::from_slice::<Value>(&state.objects.get(*place)?.text).ok();
        places.iter().filter_map(parse).filter(|value| selector.matches_object(value)).collect()
    }

    /// The objects labelled with a Graph, each with the node that wrote it.
    pub(crate) fn owned(&self, owner: &OwnerId) -> Vec<(String, Place)> {
        lock(&self.state).owned.get(owner).map(|owned| owned.iter().cloned().collect()).unwrap_or_default()
    }

    /// The objects a node of a Graph wrote.
    pub(crate) fn owned_by_node(&self, owner: &OwnerId, node: &str) -> Vec<Place> {
        let node = node.to_lowercase();
        let owned = self.owned(owner);
        owned.into_iter().filter(|(writer, _)| *writer == node).map(|(_, place)| place).collect()
    }

    /// Takes in the answer to a write or read of our own, unless something newer is known. The watch will show the
    /// same version again, so whoever follows the object is woken now.
    pub(crate) fn put(&self, value: &Value) {
        let mut state = lock(&self.state);
        if matches!(state.insert(self.role, value), Taken::New) {
            self.wake(&state, &Place::of(value), &owners_of(value));
        }
    }

    /// Takes in that an object is gone.
    pub(crate) fn drop_object(&self, place: &Place) {
        lock(&self.state).remove(place);
    }

    /// Whether the first state is known; if not, the Graph is woken when it is.
    pub(crate) fn is_synced(
        self: &Arc<Self>,
        cluster: &Cluster,
        graph: &Arc<GraphId>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut state = lock(&self.state);
        if let Sync::Denied(error, since) = &mut state.sync {
            let since = *since.get_or_insert(now);
            if since.checked_add(DENIED_PAUSE).is_ok_and(|retry| now < retry) {
                return Err(error.clone());
            }
            state.sync = Sync::Pending;
            state.waiting.push(graph.clone());
            drop(state);
            self.start(cluster);
            return Ok(false);
        }
        if matches!(state.sync, Sync::Done) {
            return Ok(true);
        }
        state.waiting.push(graph.clone());
        Ok(false)
    }

    /// Whether the first state is known.
    pub(crate) fn has_synced(&self) -> bool {
        matches!(lock(&self.state).sync, Sync::Done)
    }

    /// The version up to which the watch has told everything; whoever it concerns was woken before.
    pub(crate) fn seen(&self) -> u64 {
        lock(&self.state).seen
    }

    /// Begins to keep everything, for a Graph that selects.
    fn collect(self: &Arc<Self>, cluster: &Cluster, graph: &Arc<GraphId>) {
        let mut state = lock(&self.state);
        let was_whole = state.is_whole(self.role);
        if !state.collectors.contains(graph) {
            state.collectors.push(graph.clone());
        }
        if !was_whole {
            state.sync = Sync::Pending;
            drop(state);
            self.start(cluster);
        }
    }

    fn start(self: &Arc<Self>, cluster: &Cluster) {
        *lock(&self.watch) = Some(cluster.watch_kind(&self.kind, None, self.clone()));
    }

    fn wake(&self, state: &FeedState, place: &Place, owners: &[Ownership]) {
        for reader in state.readers.get(place).into_iter().flatten().chain(&state.collectors) {
            self.queue.wake(reader);
        }
        for ownership in owners {
            self.queue.wake_owner(&ownership.owner);
        }
        if self.role == FeedRole::Graphs {
            self.queue.wake(&Arc::new(GraphId::new(&place.namespace, &place.name)));
        }
    }

    fn settle(&self, sync: Sync) {
        let mut state = lock(&self.state);
        state.sync = sync;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(|graph| self.queue.wake(graph));
        self.queue.poke();
    }
}

/// Whether an object was kept when a Graph became interested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Before,
    /// Changes from now on are seen; what it is now has to be asked for.
    Anew,
}

/// What became of an object that was taken in.
enum Taken {
    /// It is not newer than what was known.
    Stale,
    /// Nobody is interested.
    Passed,
    New,
}

impl FeedState {
    fn is_whole(&self, role: FeedRole) -> bool {
        role == FeedRole::Graphs || !self.collectors.is_empty()
    }

    fn insert(&mut self, role: FeedRole, value: &Value) -> Taken {
        let place = Place::of(value);
        let owners = owners_of(value);
        let version = version_of(value);
        let is_known = self.objects.get(&place).is_some_and(|known| known.version >= version && version > 0);
        if is_known || self.gone.covers(&place, version) {
            return Taken::Stale;
        }
        let is_wanted = self.is_whole(role) || !owners.is_empty() || self.readers.contains_key(&place);
        self.remove(&place);
        if !is_wanted {
            return Taken::Passed;
        }
        for ownership in &owners {
            let owned = self.owned.entry(ownership.owner.clone()).or_default();
            owned.insert((ownership.node.clone(), place.clone()));
        }
        let mut kept = value.clone();
        if let Some(metadata) = object::metadata_mut(&mut kept) {
            metadata.remove("managedFields");
        }
        let text = serde_json::to_vec(&kept).unwrap_or_default().into_boxed_slice();
        self.objects.insert(place, Cached { text, version, owners });
        Taken::New
    }

    fn remove(&mut self, place: &Place) -> Option<Cached> {
        let cached = self.objects.remove(place)?;
        for ownership in &cached.owners {
            if let Some(owned) = self.owned.get_mut(&ownership.owner) {
                owned.remove(&(ownership.node.clone(), place.clone()));
                if owned.is_empty() {
                    self.owned.remove(&ownership.owner);
                }
            }
        }
        Some(cached)
    }
}

impl WatchSink for Feed {
    fn list_began(&self) {
        lock(&self.state).listed.clear();
    }

    fn list_page(&self, objects: Vec<Value>) {
        let mut state = lock(&self.state);
        for value in &objects {
            let place = Place::of(value);
            if matches!(state.insert(self.role, value), Taken::New) {
                let owners = owners_of(value);
                self.wake(&state, &place, &owners);
            }
            if state.objects.contains_key(&place) {
                state.listed.insert(place);
            }
        }
    }

    fn list_ended(&self, version: &str) {
        let mut state = lock(&self.state);
        let version: u64 = version.parse().unwrap_or(u64::MAX);
        let listed = std::mem::take(&mut state.listed);
        // What is newer than the list was written by us since.
        let is_gone = |place: &Place, cached: &Cached| !listed.contains(place) && cached.version <= version;
        let gone: Vec<Place> = state
            .objects
            .iter()
            .filter(|(place, cached)| is_gone(place, cached))
            .map(|(place, _)| place.clone())
            .collect();
        for place in gone {
            if let Some(cached) = state.remove(&place) {
                state.gone.add(&place, version);
                self.wake(&state, &place, &cached.owners);
            }
        }
        if version != u64::MAX {
            state.seen = state.seen.max(version);
        }
        drop(state);
        self.settle(Sync::Done);
    }

    fn changed(&self, object: Value) {
        let mut state = lock(&self.state);
        let place = Place::of(&object);
        let before: Vec<Ownership> =
            state.objects.get(&place).map(|cached| cached.owners.clone()).unwrap_or_default();
        if matches!(state.insert(self.role, &object), Taken::New | Taken::Passed) {
            let mut owners = owners_of(&object);
            owners.extend(before);
            self.wake(&state, &place, &owners);
        }
        state.seen = state.seen.max(version_of(&object));
    }

    fn deleted(&self, object: Value) {
        let mut state = lock(&self.state);
        let place = Place::of(&object);
        let version = version_of(&object);
        // Wakes below happen under the same lock.
        state.seen = state.seen.max(version);
        if state.objects.get(&place).is_some_and(|known| known.version > version && version > 0) {
            return;
        }
        state.remove(&place);
        state.gone.add(&place, version);
        let owners = owners_of(&object);
        self.wake(&state, &place, &owners);
    }

    fn denied(&self, error: Error) {
        self.settle(Sync::Denied(error, None));
    }
}

/// The feeds of every kind that Graphs use.
pub(crate) struct Feeds {
    cluster: Cluster,
    queue: Arc<Queue>,
    all: Mutex<HashMap<Gvk, Arc<Feed>>>,
    graphs: Gvk,
}

/// How a Graph reads a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reading {
    ByName,
    BySelector,
}

impl Feeds {
    pub(crate) fn new(cluster: Cluster, queue: Arc<Queue>, graphs: Gvk) -> Feeds {
        Feeds { cluster, queue, all: Mutex::default(), graphs }
    }

    /// The feed of a kind, started when first asked for.
    pub(crate) async fn open(&self, gvk: &Gvk) -> Result<Arc<Feed>, Error> {
        if let Some(feed) = lock(&self.all).get(gvk) {
            return Ok(feed.clone());
        }
        let found = match self.cluster.find_kind(gvk).await? {
            Some(kind) => Some(kind),
            // A definition may have come since.
            None => {
                self.cluster.invalidate_kinds().await;
                self.cluster.find_kind(gvk).await?
            }
        };
        let kind = found.ok_or_else(|| {
            let message = format!("the cluster serves no kind {} in {}", gvk.kind, gvk.api_version());
            Error::new(ErrorClass::NoKind, format!("watch {gvk}"), message)
        })?;
        let mut all = lock(&self.all);
        let feed = all.entry(gvk.clone()).or_insert_with(|| {
            let role = if *gvk == self.graphs { FeedRole::Graphs } else { FeedRole::Objects };
            let feed = Arc::new(Feed {
                kind,
                role,
                queue: self.queue.clone(),
                state: Mutex::default(),
                watch: Mutex::default(),
            });
            feed.start(&self.cluster);
            feed
        });
        Ok(feed.clone())
    }

    /// The feed of a kind for a Graph that reads it in some way.
    pub(crate) async fn open_for(
        &self,
        gvk: &Gvk,
        reading: Reading,
        graph: &Arc<GraphId>,
    ) -> Result<Arc<Feed>, Error> {
        let feed = self.open(gvk).await?;
        if reading == Reading::BySelector {
            feed.collect(&self.cluster, graph);
        }
        Ok(feed)
    }

    /// Every feed there is.
    pub(crate) fn all(&self) -> Vec<(Gvk, Arc<Feed>)> {
        let mut all: Vec<_> = lock(&self.all).iter().map(|(gvk, feed)| (gvk.clone(), feed.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Stops waking a Graph that is gone.
    pub(crate) fn forget(&self, graph: &Arc<GraphId>, followed: &BTreeSet<(Gvk, Place)>) {
        let all = lock(&self.all);
        for (gvk, place) in followed {
            if let Some(feed) = all.get(gvk) {
                feed.unfollow(place, graph);
            }
        }
        for feed in all.values() {
            lock(&feed.state).collectors.retain(|collector| collector != graph);
        }
    }
}

impl Drop for Feeds {
    /// Ends every watch: each holds its feed, which holds the watch.
    fn drop(&mut self) {
        for feed in lock(&self.all).values() {
            *lock(&feed.watch) = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_late_answer_does_not_bring_an_object_back() {
        let object = |version: u64| json!({"metadata": {"namespace": "default", "name": "a", "resourceVersion": version.to_string()}});
        let place = Place::of(&object(1));
        let mut state = FeedState::default();
        state.readers.insert(place.clone(), Vec::new());
        state.gone.add(&place, 7);
        for (version, is_back) in [(5, false), (7, false), (8, true)] {
            state.insert(FeedRole::Objects, &object(version));
            assert_eq!(state.objects.contains_key(&place), is_back, "version {version}");
        }
    }
}
