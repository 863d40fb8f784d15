//! Tables of objects with their events, under one revision counter.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::{ObjectKey, StoredObject};

/// The type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeType {
    Added,
    Modified,
    Deleted,
}

/// One revision of one object.
#[derive(Debug)]
pub struct StoreEvent {
    pub rev: u64,
    pub table: Arc<str>,
    pub change: ChangeType,
    pub prev: Option<Arc<StoredObject>>,
    /// The object after the change; of a deletion, its last content at the deletion's revision.
    pub object: Arc<StoredObject>,
}

impl StoreEvent {
    /// Memory held for this event.
    fn memory_held(&self) -> usize {
        self.object.tail.len() + EVENT_OVERHEAD
    }
}

/// Memory of an event besides the object's text.
const EVENT_OVERHEAD: usize = 256;

/// Memory limit of all events together; a watch that falls behind it starts over.
pub(super) const HISTORY_BYTES: usize = 128 << 20;

/// The state a write expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedState {
    Absent,
    Rev(u64),
}

/// The write lost a race: the object is not at the expected revision any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteRaced;

/// An object and the table it is in.
pub(crate) type PlacedObject = (Arc<str>, Arc<StoredObject>);

/// The limits of a store's history.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryLimits {
    /// Events of one table.
    pub(super) events: usize,
    /// Bytes of all tables.
    pub(super) bytes: usize,
}

pub(super) struct ObjectTable {
    pub(super) name: Arc<str>,
    pub(super) objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    pub(super) events: VecDeque<Arc<StoreEvent>>,
    /// Memory held by the events.
    pub(super) bytes: usize,
    /// Events at or before this revision are forgotten.
    pub(super) compacted: u64,
    pub(super) changed: watch::Sender<u64>,
}

impl ObjectTable {
    pub(super) fn new(name: &str, compacted: u64) -> ObjectTable {
        ObjectTable {
            name: name.into(),
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            bytes: 0,
            compacted,
            changed: watch::channel(compacted).0,
        }
    }

    pub(super) fn events_after(&self, rev: u64) -> impl Iterator<Item = &Arc<StoreEvent>> {
        let start = self.events.partition_point(|e| e.rev <= rev);
        self.events.range(start..)
    }

    /// Forgets the oldest event and answers how much memory it held.
    pub(super) fn forget_oldest(&mut self) -> usize {
        let Some(dropped) = self.events.pop_front() else { return 0 };
        self.compacted = dropped.rev;
        self.bytes -= dropped.memory_held();
        dropped.memory_held()
    }
}

#[derive(Default)]
pub(super) struct StoreContent {
    pub(super) rev: u64,
    /// Events up to here may be shown to watchers: all of them, or those that are on disk.
    pub(super) visible: u64,
    /// No history is known before this revision, in any table.
    pub(super) floor: u64,
    pub(super) tables: HashMap<Arc<str>, ObjectTable>,
    /// Memory held by the events of all tables.
    pub(super) bytes: usize,
    /// Events that are not on disk yet.
    pub(super) unflushed: VecDeque<Arc<StoreEvent>>,
    /// Number of times the disk refused writes that were undone.
    pub(super) rollbacks: u64,
}

impl StoreContent {
    pub(super) fn table_mut(&mut self, name: &str) -> &mut ObjectTable {
        if !self.tables.contains_key(name) {
            let table = ObjectTable::new(name, self.floor);
            self.tables.insert(table.name.clone(), table);
        }
        // Inserted just above when it was missing.
        self.tables.get_mut(name).unwrap_or_else(|| unreachable!("table {name} was inserted"))
    }

    pub(super) fn expected_object(
        &self,
        table: &str,
        key: &ObjectKey,
        expect: ExpectedState,
    ) -> Result<Option<Arc<StoredObject>>, WriteRaced> {
        let current = self.tables.get(table).and_then(|t| t.objects.get(key));
        match (expect, current) {
            (ExpectedState::Absent, None) => Ok(None),
            (ExpectedState::Rev(rev), Some(object)) if object.rev == rev => Ok(Some(object.clone())),
            _ => Err(WriteRaced),
        }
    }

    pub(super) fn apply_change(
        &mut self,
        table: &str,
        change: ChangeType,
        prev: Option<Arc<StoredObject>>,
        object: Arc<StoredObject>,
        limits: HistoryLimits,
    ) -> Arc<StoreEvent> {
        let table = self.table_mut(table);
        match change {
            ChangeType::Deleted => table.objects.remove(&object.key),
            _ => table.objects.insert(object.key.clone(), object.clone()),
        };
        let event = Arc::new(StoreEvent { rev: object.rev, table: table.name.clone(), change, prev, object });
        table.events.push_back(event.clone());
        table.bytes += event.memory_held();
        let mut freed = 0;
        while table.events.len() > limits.events {
            freed += table.forget_oldest();
        }
        self.bytes = self.bytes + event.memory_held() - freed;
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
    pub(super) fn undo_change(&mut self, event: &StoreEvent) {
        let table = self.table_mut(&event.table);
        match &event.prev {
            Some(before) => table.objects.insert(before.key.clone(), before.clone()),
            None => table.objects.remove(&event.object.key),
        };
        let freed = match table.events.pop_back_if(|last| last.rev == event.rev) {
            Some(last) => last.memory_held(),
            None => 0,
        };
        table.bytes -= freed;
        self.bytes -= freed;
    }

    /// All objects with their table.
    pub(super) fn all_objects(&self) -> (u64, Vec<PlacedObject>) {
        let mut out = Vec::new();
        let mut tables: Vec<_> = self.tables.values().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        for table in tables {
            out.extend(table.objects.values().map(|o| (table.name.clone(), o.clone())));
        }
        (self.rev, out)
    }
}
