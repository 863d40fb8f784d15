//! Objects in memory under one global revision, with the history that watches and paged lists read.
//!
//! Every write takes the next revision. A table keeps its latest events; a list at an older revision is
//! the present with those events undone, and a watch is a cursor into them, so neither holds a copy and
//! a slow reader costs nothing until it falls off the end (410 Gone).

mod log;
mod object;
mod page;
pub(crate) mod private;
mod snapshot;
mod tables;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{mpsc, watch};

#[cfg(test)]
pub(crate) use log::Disk;
pub(crate) use log::LogOptions;
pub use log::{DataNotice, DurableError, RecoveryMode};
use log::{DurableLog, FileState};
pub(crate) use object::ObjectDraft;
pub use object::{ObjectKey, StoredObject};
pub(crate) use page::{PageRange, RevisionUnavailable};
pub use snapshot::Snapshot;
pub(crate) use tables::PlacedObject;
pub use tables::{ChangeType, StoreEvent};
pub(crate) use tables::{ExpectedState, WriteRaced};
use tables::{HISTORY_BYTES, HistoryLimits, StoreContent};

/// An object that is to be in the store, and its place.
pub(crate) struct WantedObject {
    pub table: Arc<str>,
    pub key: ObjectKey,
    pub draft: ObjectDraft,
}

/// All objects of one sandbox.
pub struct Store {
    inner: RwLock<StoreContent>,
    history: HistoryLimits,
    log: Option<DurableLog>,
    taps: Mutex<Vec<mpsc::UnboundedSender<Arc<StoreEvent>>>>,
}

impl Store {
    /// An empty store that remembers `history` events per table.
    pub fn new(history: usize) -> Store {
        Store {
            inner: RwLock::new(StoreContent::default()),
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
        let opened = DurableLog::open(dir, options, &mut |record| store.replay_record(record))?;
        {
            let mut inner = store.write_content();
            inner.rev = inner.rev.max(opened.floor);
            inner.visible = inner.rev;
        }
        if opened.state == FileState::Stale {
            let (rev, objects) = store.all_objects();
            opened.log.rewrite(rev, &objects)?;
        }
        store.log = Some(opened.log);
        let store = Arc::new(store);
        if let Some(log) = &store.log {
            log.start(Arc::downgrade(&store));
        }
        Ok(store)
    }

    /// The notices from opening the data directory.
    pub fn notices(&self) -> &[DataNotice] {
        self.log.as_ref().map_or(&[], |log| log.notices())
    }

    fn read_content(&self) -> RwLockReadGuard<'_, StoreContent> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_content(&self) -> RwLockWriteGuard<'_, StoreContent> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn current_revision(&self) -> u64 {
        self.read_content().rev
    }

    pub fn get(&self, table: &str, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.read_content().tables.get(table)?.objects.get(key).cloned()
    }

    pub fn count_objects(&self, table: &str) -> usize {
        self.read_content().tables.get(table).map_or(0, |t| t.objects.len())
    }

    /// Names of all tables that hold at least one object.
    pub fn table_names(&self) -> Vec<Arc<str>> {
        let inner = self.read_content();
        let mut names: Vec<_> =
            inner.tables.values().filter(|t| !t.objects.is_empty()).map(|t| t.name.clone()).collect();
        names.sort();
        names
    }

    /// Stores `draft` under `key` if the object is as expected and `guard` agrees. The guard runs inside
    /// the write lock, so what it sees of other objects cannot change before the write.
    pub fn put<E: From<WriteRaced>>(
        &self,
        table: &str,
        key: &ObjectKey,
        expect: ExpectedState,
        draft: &ObjectDraft,
        guard: impl FnOnce(&StoreView<'_>) -> Result<(), E>,
    ) -> Result<Arc<StoredObject>, E> {
        let mut inner = self.write_content();
        let prev = inner.expected_object(table, key, expect).map_err(E::from)?;
        guard(&StoreView { inner: &inner })?;
        let object = Arc::new(StoredObject::build_at(key.clone(), draft, inner.rev + 1));
        let change = if prev.is_some() { ChangeType::Modified } else { ChangeType::Added };
        self.record_change(&mut inner, table, change, prev, object.clone());
        Ok(object)
    }

    /// Removes the object. `last` is what watchers see it end as.
    pub fn remove(
        &self,
        table: &str,
        key: &ObjectKey,
        expect: u64,
        last: &ObjectDraft,
    ) -> Result<Arc<StoredObject>, WriteRaced> {
        let mut inner = self.write_content();
        let prev = inner.expected_object(table, key, ExpectedState::Rev(expect))?;
        let object = Arc::new(StoredObject::build_at(key.clone(), last, inner.rev + 1));
        self.record_change(&mut inner, table, ChangeType::Deleted, prev, object.clone());
        Ok(object)
    }

    fn record_change(
        &self,
        inner: &mut StoreContent,
        table: &str,
        change: ChangeType,
        prev: Option<Arc<StoredObject>>,
        object: Arc<StoredObject>,
    ) {
        inner.rev = object.rev;
        if let Some(log) = &self.log {
            log.append(table, change, &object);
        } else {
            inner.visible = inner.rev;
        }
        let event = inner.apply_change(table, change, prev, object, self.history);
        if self.log.is_some() {
            inner.unflushed.push_back(event.clone());
        }
        if self.log.is_none()
            && let Some(table) = inner.tables.get(table)
        {
            table.changed.send_replace(event.rev);
        }
        self.send_to_taps(&event);
    }

    fn send_to_taps(&self, event: &Arc<StoreEvent>) {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|tap| tap.send(event.clone()).is_ok());
    }

    /// Undoes every write that is not on disk, and answers their revisions. `forget` drops what waits to
    /// be written and learns the revision that writing goes on from. Revisions are not given out again:
    /// somebody may have seen them.
    fn roll_back(&self, forget: impl FnOnce(u64)) -> Option<std::ops::RangeInclusive<u64>> {
        let mut inner = self.write_content();
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
            inner.undo_change(event);
            // Controllers acted on the write; they see it undone.
            let (change, object) = match (&event.prev, event.change) {
                (Some(before), ChangeType::Deleted) => (ChangeType::Added, before.clone()),
                (Some(before), _) => (ChangeType::Modified, before.clone()),
                (None, _) => (ChangeType::Deleted, event.object.clone()),
            };
            let prev = (event.change != ChangeType::Deleted).then(|| event.object.clone());
            self.send_to_taps(&Arc::new(StoreEvent {
                rev: inner.rev,
                table: event.table.clone(),
                change,
                prev,
                object,
            }));
        }
        Some(undone)
    }

    /// Number of rollbacks: state derived from the undone writes must be derived again.
    pub(crate) fn rollbacks(&self) -> u64 {
        self.read_content().rollbacks
    }

    /// Returns true if the disk refused the last write.
    pub(crate) fn is_failing(&self) -> bool {
        self.log.as_ref().is_some_and(DurableLog::is_failing)
    }

    /// Returns when the disk accepts writes.
    pub(crate) async fn wait_until_writable(&self) {
        if let Some(log) = &self.log {
            log.recovered().await;
        }
    }

    /// Finds out if writes can be stored.
    pub async fn check_writable(&self) -> Result<(), DurableError> {
        match &self.log {
            Some(log) => log.probe().await,
            None => Ok(()),
        }
    }

    /// Reads everything while `also` runs, so that no write comes between the two.
    fn capture_content<T>(&self, also: impl FnOnce() -> T) -> (u64, Vec<PlacedObject>, T) {
        let inner = self.read_content();
        let (rev, objects) = inner.all_objects();
        (rev, objects, also())
    }

    fn replay_record(&self, record: log::LogRecord) {
        let mut inner = self.write_content();
        inner.rev = inner.rev.max(record.rev);
        let Some(object) = StoredObject::from_record(record.key, record.rev, record.tail) else { return };
        match record.change {
            None => {
                // Part of a snapshot: history starts after it.
                inner.floor = inner.floor.max(record.floor);
                let floor = inner.floor;
                let table = inner.table_mut(&record.table);
                table.compacted = table.compacted.max(floor);
                table.objects.insert(object.key.clone(), Arc::new(object));
            }
            Some(change) => {
                let prev = inner.tables.get(&*record.table).and_then(|t| t.objects.get(&object.key).cloned());
                inner.apply_change(&record.table, change, prev, Arc::new(object), self.history);
            }
        }
    }

    /// Makes `wanted` the whole content in one step and answers the revision after it. Watchers and
    /// controllers see the difference as ordinary events; an object that stays as it is keeps its revision.
    pub(crate) fn replace_content(&self, at_least: u64, wanted: Vec<WantedObject>) -> u64 {
        let mut inner = self.write_content();
        inner.rev = inner.rev.max(at_least);
        let mut new: BTreeMap<(Arc<str>, ObjectKey), ObjectDraft> =
            wanted.into_iter().map(|w| ((w.table, w.key), w.draft)).collect();
        let mut old: Vec<PlacedObject> = inner
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
                if !draft.is_stored_as(&object) {
                    let changed = Arc::new(StoredObject::build_at(object.key.clone(), draft, inner.rev + 1));
                    self.record_change(&mut inner, &table, ChangeType::Modified, Some(object), changed);
                }
                new.remove(&place);
                continue;
            }
            let last = Arc::new(StoredObject::build_at(
                object.key.clone(),
                &ObjectDraft::new(&object.value()),
                inner.rev + 1,
            ));
            self.record_change(&mut inner, &table, ChangeType::Deleted, Some(object), last);
        }
        for ((table, key), draft) in new {
            let object = Arc::new(StoredObject::build_at(key, &draft, inner.rev + 1));
            self.record_change(&mut inner, &table, ChangeType::Added, None, object);
        }
        inner.rev
    }

    /// Forgets all history up to now, as etcd's compaction does.
    pub fn compact_history(&self) {
        let mut inner = self.write_content();
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
    pub fn events_after(
        &self,
        table: &str,
        rev: u64,
        max: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, RevisionUnavailable> {
        let inner = self.read_content();
        let (compacted, visible) = (inner.floor, inner.visible);
        let Some(table) = inner.tables.get(table) else {
            return if rev < compacted {
                Err(RevisionUnavailable::Compacted { oldest: compacted })
            } else {
                Ok(vec![])
            };
        };
        if rev < table.compacted {
            return Err(RevisionUnavailable::Compacted { oldest: table.compacted });
        }
        Ok(table.events_after(rev).take_while(|e| e.rev <= visible).take(max).cloned().collect())
    }

    /// Wakes when a table has new events.
    pub fn subscribe_changes(&self, table: &str) -> watch::Receiver<u64> {
        if let Some(table) = self.read_content().tables.get(table) {
            return table.changed.subscribe();
        }
        self.write_content().table_mut(table).changed.subscribe()
    }

    /// Every event from now on, for the controllers.
    pub fn tap_events(&self) -> mpsc::UnboundedReceiver<Arc<StoreEvent>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.taps.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// Returns when everything up to `rev` would survive a crash. At once without a log.
    pub async fn wait_durable(&self, rev: u64) -> Result<(), DurableError> {
        match &self.log {
            Some(log) => log.durable(rev).await,
            None => Ok(()),
        }
    }

    /// Called by the log when everything up to `rev` is on disk.
    fn mark_flushed(&self, rev: u64) {
        let mut inner = self.write_content();
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
    pub(crate) fn all_objects(&self) -> (u64, Vec<PlacedObject>) {
        self.read_content().all_objects()
    }
}

/// The store as a guard sees it, under the write lock.
pub struct StoreView<'a> {
    inner: &'a StoreContent,
}

impl StoreView<'_> {
    pub fn get(&self, table: &str, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.inner.tables.get(table)?.objects.get(key)
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
            let draft =
                ObjectDraft::new(&json!({"metadata": {"name": number.to_string()}, "data": {"a": text}}));
            let key = ObjectKey::new("default", &number.to_string());
            let put = store.put::<WriteRaced>("configmaps", &key, ExpectedState::Absent, &draft, |_| Ok(()));
            assert!(put.is_ok());
            assert!(store.read_content().bytes <= 100_000, "after {number}");
        }
        assert_eq!(store.count_objects("configmaps"), 50, "objects are kept");
        assert!(matches!(
            store.events_after("configmaps", 1, 100),
            Err(RevisionUnavailable::Compacted { .. })
        ));
        let rest = store
            .events_after("configmaps", store.current_revision() - 5, 100)
            .expect("the newest are known");
        assert_eq!(rest.len(), 5);
    }
}
