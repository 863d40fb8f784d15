//! Objects in memory under one global revision, with the history that watches and paged lists read.
//!
//! Every write takes the next revision. A table keeps its latest events; a list at an older revision is
//! the present with those events undone, and a watch is a cursor into them, so neither holds a copy and
//! a slow reader costs nothing until it falls off the end (410 Gone).

mod log;
mod object;
pub(crate) mod private;
mod snapshot;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{mpsc, watch};

#[cfg(test)]
pub(crate) use log::Disk;
pub(crate) use log::LogOptions;
pub use log::{DataNotice, DurableError, Recovery};
use log::{FileState, Log};
pub(crate) use object::Draft;
pub use object::{Key, Object};
pub use snapshot::Snapshot;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// One revision of one object.
#[derive(Debug)]
pub struct Event {
    pub rev: u64,
    pub table: Arc<str>,
    pub change: Change,
    pub prev: Option<Arc<Object>>,
    /// The object after the change; of a deletion, its last content at the deletion's revision.
    pub object: Arc<Object>,
}

/// Why a read at some revision cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// History before `oldest` is gone.
    Compacted {
        oldest: u64,
    },
    Future {
        current: u64,
    },
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Rev(u64),
}

/// The write lost a race: the object is not at the expected revision any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raced;

/// A page of a table.
#[derive(Debug, Default)]
pub struct Page {
    pub rev: u64,
    pub objects: Vec<Arc<Object>>,
    /// The last key of this page when there may be more after it.
    pub last: Option<Key>,
    /// How many keys follow in the range; counted only when asked for.
    pub remaining: Option<usize>,
}

/// An object and the table it is in.
pub(crate) type Placed = (Arc<str>, Arc<Object>);

/// An object that is to be in the store, and where.
pub(crate) struct Wanted {
    pub table: Arc<str>,
    pub key: Key,
    pub draft: Draft,
}

/// What part of a table to read.
pub struct Range<'a> {
    pub namespace: Option<&'a str>,
    /// Start after this key.
    pub after: Option<&'a Key>,
    pub limit: Option<usize>,
    /// Read as of this revision instead of the present.
    pub at: Option<u64>,
    pub count_rest: bool,
}

impl Range<'_> {
    pub fn all() -> Range<'static> {
        Range { namespace: None, after: None, limit: None, at: None, count_rest: false }
    }
}

struct Table {
    name: Arc<str>,
    objects: BTreeMap<Key, Arc<Object>>,
    events: VecDeque<Arc<Event>>,
    /// How much memory the events hold on to.
    bytes: usize,
    /// Events at or before this revision are forgotten.
    compacted: u64,
    changed: watch::Sender<u64>,
}

impl Table {
    fn new(name: &str, compacted: u64) -> Table {
        Table {
            name: name.into(),
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            bytes: 0,
            compacted,
            changed: watch::channel(compacted).0,
        }
    }

    fn events_after(&self, rev: u64) -> impl Iterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|e| e.rev <= rev);
        self.events.range(start..)
    }

    /// Forgets the oldest event and answers how much memory it held.
    fn forget_oldest(&mut self) -> usize {
        let Some(dropped) = self.events.pop_front() else { return 0 };
        self.compacted = dropped.rev;
        self.bytes -= dropped.weight();
        dropped.weight()
    }
}

impl Event {
    /// How much memory is held on to for this event.
    fn weight(&self) -> usize {
        self.object.tail.len() + EVENT_OVERHEAD
    }
}

/// What an event takes besides the object's text.
const EVENT_OVERHEAD: usize = 256;
/// All events together hold on to no more than this; a watch that falls behind it starts over.
const HISTORY_BYTES: usize = 128 << 20;

#[derive(Default)]
struct Inner {
    rev: u64,
    /// Events up to here may be shown to watchers: all of them, or those that are on disk.
    visible: u64,
    /// No history is known before this revision, in any table.
    floor: u64,
    tables: HashMap<Arc<str>, Table>,
    /// How much memory the events of all tables hold on to.
    bytes: usize,
    /// Events that are not on disk yet.
    unflushed: VecDeque<Arc<Event>>,
    /// How often the disk refused writes that were undone.
    rollbacks: u64,
}

/// How much history a store keeps.
#[derive(Debug, Clone, Copy)]
struct HistoryLimits {
    /// Events of one table.
    events: usize,
    /// Bytes of all tables.
    bytes: usize,
}

/// All objects of one sandbox.
pub struct Store {
    inner: RwLock<Inner>,
    history: HistoryLimits,
    log: Option<Log>,
    taps: Mutex<Vec<mpsc::UnboundedSender<Arc<Event>>>>,
}

impl Store {
    /// An empty store that remembers `history` events per table.
    pub fn new(history: usize) -> Store {
        Store {
            inner: RwLock::new(Inner::default()),
            history: HistoryLimits { events: history.max(1), bytes: HISTORY_BYTES },
            log: None,
            taps: Mutex::default(),
        }
    }

    /// Opens the store kept in `dir`, creating it when there is none.
    pub fn open(dir: &std::path::Path, history: usize) -> std::io::Result<Arc<Store>> {
        Store::open_with(dir, history, LogOptions::default())
    }

    pub(crate) fn open_with(
        dir: &std::path::Path,
        history: usize,
        options: LogOptions,
    ) -> std::io::Result<Arc<Store>> {
        let mut store = Store::new(history);
        let opened = Log::open(dir, options, &mut |record| store.replay(record))?;
        {
            let mut inner = store.write();
            inner.rev = inner.rev.max(opened.floor);
            inner.visible = inner.rev;
        }
        if opened.state == FileState::Stale {
            let (rev, objects) = store.dump();
            opened.log.rewrite(rev, &objects)?;
        }
        store.log = Some(opened.log);
        let store = Arc::new(store);
        if let Some(log) = &store.log {
            log.start(Arc::downgrade(&store));
        }
        Ok(store)
    }

    /// What opening the data directory found out.
    pub fn notices(&self) -> &[DataNotice] {
        self.log.as_ref().map_or(&[], |log| log.notices())
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn rev(&self) -> u64 {
        self.read().rev
    }

    pub fn get(&self, table: &str, key: &Key) -> Option<Arc<Object>> {
        self.read().tables.get(table)?.objects.get(key).cloned()
    }

    pub fn count(&self, table: &str) -> usize {
        self.read().tables.get(table).map_or(0, |t| t.objects.len())
    }

    /// Names of all tables that hold at least one object.
    pub fn tables(&self) -> Vec<Arc<str>> {
        let inner = self.read();
        let mut names: Vec<_> =
            inner.tables.values().filter(|t| !t.objects.is_empty()).map(|t| t.name.clone()).collect();
        names.sort();
        names
    }

    /// Every object of a table, or of one namespace of it, in key order.
    pub fn list(&self, table: &str, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let range = Range { namespace, ..Range::all() };
        self.page(table, &range, &mut |_| true).map(|p| p.objects).unwrap_or_default()
    }

    /// The objects of a range that `keep` accepts, in key order.
    pub fn page(
        &self,
        table: &str,
        range: &Range<'_>,
        keep: &mut dyn FnMut(&Arc<Object>) -> bool,
    ) -> Result<Page, Unavailable> {
        let inner = self.read();
        let mut page = Page { rev: range.at.unwrap_or(inner.rev), ..Page::default() };
        if page.rev > inner.rev {
            return Err(Unavailable::Future { current: inner.rev });
        }
        let Some(table) = inner.tables.get(table) else {
            if page.rev < inner.floor {
                return Err(Unavailable::Compacted { oldest: inner.floor });
            }
            return Ok(page);
        };
        if page.rev < table.compacted {
            return Err(Unavailable::Compacted { oldest: table.compacted });
        }
        // What the keys touched since held at that revision.
        let mut past: BTreeMap<&Key, Option<&Arc<Object>>> = BTreeMap::new();
        for event in table.events_after(page.rev) {
            past.entry(&event.object.key).or_insert(event.prev.as_ref());
        }
        let within = |key: &Key| range.namespace.is_none_or(|ns| *key.namespace == *ns);
        let start = match (range.after, range.namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(ns)) => Bound::Included(Key::new(ns, "")),
            (None, None) => Bound::Unbounded,
        };
        let mut visit = |key: &Key, object: &Arc<Object>, page: &mut Page| {
            if range.limit.is_some_and(|limit| page.objects.len() >= limit) {
                if !range.count_rest {
                    // Any key more means that there is a next page, even if nothing on it matches.
                    page.last = page.objects.last().map(|o| o.key.clone());
                    return ControlFlow::Break(());
                }
                page.last = page.objects.last().map(|o| o.key.clone());
                *page.remaining.get_or_insert(0) += 1;
            } else if keep(object) {
                page.objects.push(object.clone());
            }
            let _ = key;
            ControlFlow::Continue(())
        };
        let mut old = past.range::<&Key, _>((start.as_ref(), Bound::Unbounded)).peekable();
        'all: for (key, object) in table.objects.range((start.clone(), Bound::Unbounded)) {
            while let Some((gone, before)) = old.next_if(|(k, _)| **k < key) {
                if let (true, Some(before)) = (within(gone), before)
                    && visit(gone, before, &mut page).is_break()
                {
                    break 'all;
                }
            }
            if !within(key) {
                if range.namespace.is_some_and(|ns| *key.namespace > *ns) {
                    break;
                }
                continue;
            }
            let object = match old.next_if(|(k, _)| **k == key) {
                Some((_, Some(before))) => *before,
                Some((_, None)) => continue,
                None => object,
            };
            if visit(key, object, &mut page).is_break() {
                break;
            }
        }
        if page.last.is_none() || page.remaining.is_some() {
            for (key, before) in old {
                if let (true, Some(before)) = (within(key), before)
                    && visit(key, before, &mut page).is_break()
                {
                    break;
                }
            }
        }
        Ok(page)
    }

    /// Stores `draft` under `key` if the object is as expected and `guard` agrees. The guard runs inside
    /// the write lock, so what it sees of other objects cannot change before the write.
    pub fn put<E: From<Raced>>(
        &self,
        table: &str,
        key: &Key,
        expect: Expect,
        draft: &Draft,
        guard: impl FnOnce(&View<'_>) -> Result<(), E>,
    ) -> Result<Arc<Object>, E> {
        let mut inner = self.write();
        let prev = inner.current(table, key, expect).map_err(E::from)?;
        guard(&View { inner: &inner })?;
        let object = Arc::new(Object::build(key.clone(), draft, inner.rev + 1));
        let change = if prev.is_some() { Change::Modified } else { Change::Added };
        self.record(&mut inner, table, change, prev, object.clone());
        Ok(object)
    }

    /// Removes the object. `last` is what watchers see it end as.
    pub fn remove(&self, table: &str, key: &Key, expect: u64, last: &Draft) -> Result<Arc<Object>, Raced> {
        let mut inner = self.write();
        let prev = inner.current(table, key, Expect::Rev(expect))?;
        let object = Arc::new(Object::build(key.clone(), last, inner.rev + 1));
        self.record(&mut inner, table, Change::Deleted, prev, object.clone());
        Ok(object)
    }

    fn record(
        &self,
        inner: &mut Inner,
        table: &str,
        change: Change,
        prev: Option<Arc<Object>>,
        object: Arc<Object>,
    ) {
        inner.rev = object.rev;
        if let Some(log) = &self.log {
            log.append(table, change, &object);
        } else {
            inner.visible = inner.rev;
        }
        let event = inner.apply(table, change, prev, object, self.history);
        if self.log.is_some() {
            inner.unflushed.push_back(event.clone());
        }
        if self.log.is_none()
            && let Some(table) = inner.tables.get(table)
        {
            table.changed.send_replace(event.rev);
        }
        self.tell(&event);
    }

    fn tell(&self, event: &Arc<Event>) {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|tap| tap.send(event.clone()).is_ok());
    }

    /// Undoes every write that is not on disk, and answers their revisions. `forget` drops what waits to
    /// be written and learns the revision that writing goes on from. Revisions are not given out again:
    /// somebody may have seen them.
    fn roll_back(&self, forget: impl FnOnce(u64)) -> Option<std::ops::RangeInclusive<u64>> {
        let mut inner = self.write();
        let undone = inner.visible + 1..=inner.rev;
        if undone.is_empty() {
            forget(inner.rev);
            return None;
        }
        inner.rev += 1;
        inner.visible = inner.rev;
        inner.rollbacks += 1;
        forget(inner.rev);
        for event in std::mem::take(&mut inner.unflushed).iter().rev() {
            inner.undo(event);
            // The controllers acted on it; they see it taken back.
            let (change, object) = match (&event.prev, event.change) {
                (Some(before), Change::Deleted) => (Change::Added, before.clone()),
                (Some(before), _) => (Change::Modified, before.clone()),
                (None, _) => (Change::Deleted, event.object.clone()),
            };
            let prev = (event.change != Change::Deleted).then(|| event.object.clone());
            self.tell(&Arc::new(Event { rev: inner.rev, table: event.table.clone(), change, prev, object }));
        }
        Some(undone)
    }

    /// How often the disk refused writes; what was derived from them is to be derived anew.
    pub(crate) fn rollbacks(&self) -> u64 {
        self.read().rollbacks
    }

    /// Whether the disk refused the last write.
    pub(crate) fn is_failing(&self) -> bool {
        self.log.as_ref().is_some_and(Log::is_failing)
    }

    /// Returns when the disk takes writes.
    pub(crate) async fn recovered(&self) {
        if let Some(log) = &self.log {
            log.recovered().await;
        }
    }

    /// Finds out whether writes can be kept.
    pub async fn writable(&self) -> Result<(), DurableError> {
        match &self.log {
            Some(log) => log.probe().await,
            None => Ok(()),
        }
    }

    /// Reads everything while `also` runs, so that no write comes between the two.
    fn capture<T>(&self, also: impl FnOnce() -> T) -> (u64, Vec<Placed>, T) {
        let inner = self.read();
        let (rev, objects) = inner.dump();
        (rev, objects, also())
    }

    fn replay(&self, record: log::Record) {
        let mut inner = self.write();
        inner.rev = inner.rev.max(record.rev);
        let Some(object) = Object::restore(record.key, record.rev, record.tail) else { return };
        match record.change {
            None => {
                // Part of a snapshot: history starts after it.
                inner.floor = inner.floor.max(record.floor);
                let floor = inner.floor;
                let table = inner.table(&record.table);
                table.compacted = table.compacted.max(floor);
                table.objects.insert(object.key.clone(), Arc::new(object));
            }
            Some(change) => {
                let prev = inner.tables.get(&*record.table).and_then(|t| t.objects.get(&object.key).cloned());
                inner.apply(&record.table, change, prev, Arc::new(object), self.history);
            }
        }
    }

    /// Makes `wanted` the whole content in one step and answers the revision after it. Watchers and
    /// controllers see the difference as ordinary events; an object that stays as it is keeps its revision.
    pub(crate) fn replace(&self, at_least: u64, wanted: Vec<Wanted>) -> u64 {
        let mut inner = self.write();
        inner.rev = inner.rev.max(at_least);
        let mut new: BTreeMap<(Arc<str>, Key), Draft> =
            wanted.into_iter().map(|w| ((w.table, w.key), w.draft)).collect();
        let mut old: Vec<Placed> = inner
            .tables
            .values()
            .flat_map(|t| t.objects.values().map(|o| (t.name.clone(), o.clone())))
            .collect();
        old.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
        for (table, object) in old {
            let place = (table.clone(), object.key.clone());
            if let Some(draft) = new.get(&place)
                && draft.is_of(&object)
            {
                if !draft.holds(&object) {
                    let changed = Arc::new(Object::build(object.key.clone(), draft, inner.rev + 1));
                    self.record(&mut inner, &table, Change::Modified, Some(object), changed);
                }
                new.remove(&place);
                continue;
            }
            let last =
                Arc::new(Object::build(object.key.clone(), &Draft::new(&object.value()), inner.rev + 1));
            self.record(&mut inner, &table, Change::Deleted, Some(object), last);
        }
        for ((table, key), draft) in new {
            let object = Arc::new(Object::build(key, &draft, inner.rev + 1));
            self.record(&mut inner, &table, Change::Added, None, object);
        }
        inner.rev
    }

    /// Forgets all history up to now, as etcd's compaction does.
    pub fn compact(&self) {
        let mut inner = self.write();
        let rev = inner.rev;
        inner.floor = rev;
        for table in inner.tables.values_mut() {
            table.events.clear();
            table.bytes = 0;
            table.compacted = rev;
        }
        inner.bytes = 0;
    }

    /// Events of a table after `rev`, oldest first, at most `max` of them.
    pub fn events_after(&self, table: &str, rev: u64, max: usize) -> Result<Vec<Arc<Event>>, Unavailable> {
        let inner = self.read();
        let (compacted, visible) = (inner.floor, inner.visible);
        let Some(table) = inner.tables.get(table) else {
            return if rev < compacted {
                Err(Unavailable::Compacted { oldest: compacted })
            } else {
                Ok(vec![])
            };
        };
        if rev < table.compacted {
            return Err(Unavailable::Compacted { oldest: table.compacted });
        }
        Ok(table.events_after(rev).take_while(|e| e.rev <= visible).take(max).cloned().collect())
    }

    /// Wakes when a table has new events.
    pub fn changes(&self, table: &str) -> watch::Receiver<u64> {
        if let Some(table) = self.read().tables.get(table) {
            return table.changed.subscribe();
        }
        self.write().table(table).changed.subscribe()
    }

    /// Every event from now on, for the controllers.
    pub fn tap(&self) -> mpsc::UnboundedReceiver<Arc<Event>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.taps.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// Returns when everything up to `rev` would survive a crash. At once without a log.
    pub async fn durable(&self, rev: u64) -> Result<(), DurableError> {
        match &self.log {
            Some(log) => log.durable(rev).await,
            None => Ok(()),
        }
    }

    /// Called by the log when everything up to `rev` is on disk.
    fn flushed(&self, rev: u64) {
        let mut inner = self.write();
        inner.visible = inner.visible.max(rev);
        let visible = inner.visible;
        while inner.unflushed.pop_front_if(|event| event.rev <= visible).is_some() {}
        for table in inner.tables.values() {
            if table.events.back().is_some_and(|e| e.rev > *table.changed.borrow()) {
                table.changed.send_replace(visible);
            }
        }
    }

    /// All objects with their table, at one revision.
    pub(crate) fn dump(&self) -> (u64, Vec<Placed>) {
        self.read().dump()
    }
}

/// What a guard may look at.
pub struct View<'a> {
    inner: &'a Inner,
}

impl View<'_> {
    pub fn get(&self, table: &str, key: &Key) -> Option<&Arc<Object>> {
        self.inner.tables.get(table)?.objects.get(key)
    }
}

impl Inner {
    fn table(&mut self, name: &str) -> &mut Table {
        if !self.tables.contains_key(name) {
            let table = Table::new(name, self.floor);
            self.tables.insert(table.name.clone(), table);
        }
        // Inserted just above when it was missing.
        self.tables.get_mut(name).unwrap_or_else(|| unreachable!("table {name} was inserted"))
    }

    fn current(&self, table: &str, key: &Key, expect: Expect) -> Result<Option<Arc<Object>>, Raced> {
        let current = self.tables.get(table).and_then(|t| t.objects.get(key));
        match (expect, current) {
            (Expect::Absent, None) => Ok(None),
            (Expect::Rev(rev), Some(object)) if object.rev == rev => Ok(Some(object.clone())),
            _ => Err(Raced),
        }
    }

    fn apply(
        &mut self,
        table: &str,
        change: Change,
        prev: Option<Arc<Object>>,
        object: Arc<Object>,
        limits: HistoryLimits,
    ) -> Arc<Event> {
        let table = self.table(table);
        match change {
            Change::Deleted => table.objects.remove(&object.key),
            _ => table.objects.insert(object.key.clone(), object.clone()),
        };
        let event = Arc::new(Event { rev: object.rev, table: table.name.clone(), change, prev, object });
        table.events.push_back(event.clone());
        table.bytes += event.weight();
        let mut freed = 0;
        while table.events.len() > limits.events {
            freed += table.forget_oldest();
        }
        self.bytes = self.bytes + event.weight() - freed;
        while self.bytes > limits.bytes {
            let Some(largest) = self.tables.values_mut().max_by_key(|table| table.bytes) else { break };
            let freed = largest.forget_oldest();
            if freed == 0 {
                break;
            }
            self.bytes -= freed;
        }
        event
    }

    /// Puts back what `event` changed.
    fn undo(&mut self, event: &Event) {
        let table = self.table(&event.table);
        match &event.prev {
            Some(before) => table.objects.insert(before.key.clone(), before.clone()),
            None => table.objects.remove(&event.object.key),
        };
        let freed = match table.events.pop_back_if(|last| last.rev == event.rev) {
            Some(last) => last.weight(),
            None => 0,
        };
        table.bytes -= freed;
        self.bytes -= freed;
    }

    /// All objects with their table.
    fn dump(&self) -> (u64, Vec<Placed>) {
        let mut out = Vec::new();
        let mut tables: Vec<_> = self.tables.values().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        for table in tables {
            out.extend(table.objects.values().map(|o| (table.name.clone(), o.clone())));
        }
        (self.rev, out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn history_is_bounded_by_bytes_as_well_as_events() {
        let mut store = Store::new(1_000_000);
        store.history.bytes = 100_000;
        let text = "x".repeat(10_000);
        for number in 0..50 {
            let draft = Draft::new(&json!({"metadata": {"name": number.to_string()}, "data": {"a": text}}));
            let key = Key::new("default", &number.to_string());
            let put = store.put::<Raced>("configmaps", &key, Expect::Absent, &draft, |_| Ok(()));
            assert!(put.is_ok());
            assert!(store.read().bytes <= 100_000, "after {number}");
        }
        assert_eq!(store.count("configmaps"), 50, "objects are kept");
        assert!(matches!(store.events_after("configmaps", 1, 100), Err(Unavailable::Compacted { .. })));
        let rest = store.events_after("configmaps", store.rev() - 5, 100).expect("the newest are known");
        assert_eq!(rest.len(), 5);
    }
}
