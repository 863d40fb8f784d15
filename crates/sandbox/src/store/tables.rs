//! Tables of objects with their events, under one revision counter.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::{Key, Object};

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

impl Event {
    /// How much memory is held on to for this event.
    fn weight(&self) -> usize {
        self.object.tail.len() + EVENT_OVERHEAD
    }
}

/// What an event takes besides the object's text.
const EVENT_OVERHEAD: usize = 256;

/// All events together hold on to no more than this; a watch that falls behind it starts over.
pub(super) const HISTORY_BYTES: usize = 128 << 20;

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Rev(u64),
}

/// The write lost a race: the object is not at the expected revision any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raced;

/// An object and the table it is in.
pub(crate) type Placed = (Arc<str>, Arc<Object>);

/// How much history a store keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryLimits {
    /// Events of one table.
    pub(super) events: usize,
    /// Bytes of all tables.
    pub(super) bytes: usize,
}

pub(super) struct Table {
    pub(super) name: Arc<str>,
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    pub(super) events: VecDeque<Arc<Event>>,
    /// How much memory the events hold on to.
    pub(super) bytes: usize,
    /// Events at or before this revision are forgotten.
    pub(super) compacted: u64,
    pub(super) changed: watch::Sender<u64>,
}

impl Table {
    pub(super) fn new(name: &str, compacted: u64) -> Table {
        Table {
            name: name.into(),
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            bytes: 0,
            compacted,
            changed: watch::channel(compacted).0,
        }
    }

    pub(super) fn events_after(&self, rev: u64) -> impl Iterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|e| e.rev <= rev);
        self.events.range(start..)
    }

    /// Forgets the oldest event and answers how much memory it held.
    pub(super) fn forget_oldest(&mut self) -> usize {
        let Some(dropped) = self.events.pop_front() else { return 0 };
        self.compacted = dropped.rev;
        self.bytes -= dropped.weight();
        dropped.weight()
    }
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) rev: u64,
    /// Events up to here may be shown to watchers: all of them, or those that are on disk.
    pub(super) visible: u64,
    /// No history is known before this revision, in any table.
    pub(super) floor: u64,
    pub(super) tables: HashMap<Arc<str>, Table>,
    /// How much memory the events of all tables hold on to.
    pub(super) bytes: usize,
    /// Events that are not on disk yet.
    pub(super) unflushed: VecDeque<Arc<Event>>,
    /// How often the disk refused writes that were undone.
    pub(super) rollbacks: u64,
}

impl Inner {
    pub(super) fn table(&mut self, name: &str) -> &mut Table {
        if !self.tables.contains_key(name) {
            let table = Table::new(name, self.floor);
            self.tables.insert(table.name.clone(), table);
        }
        // Inserted just above when it was missing.
        self.tables.get_mut(name).unwrap_or_else(|| unreachable!("table {name} was inserted"))
    }

    pub(super) fn current(
        &self,
        table: &str,
        key: &Key,
        expect: Expect,
    ) -> Result<Option<Arc<Object>>, Raced> {
        let current = self.tables.get(table).and_then(|t| t.objects.get(key));
        match (expect, current) {
            (Expect::Absent, None) => Ok(None),
            (Expect::Rev(rev), Some(object)) if object.rev == rev => Ok(Some(object.clone())),
            _ => Err(Raced),
        }
    }

    pub(super) fn apply(
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
    pub(super) fn undo(&mut self, event: &Event) {
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
    pub(super) fn dump(&self) -> (u64, Vec<Placed>) {
        let mut out = Vec::new();
        let mut tables: Vec<_> = self.tables.values().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        for table in tables {
            out.extend(table.objects.values().map(|o| (table.name.clone(), o.clone())));
        }
        (self.rev, out)
    }
}
