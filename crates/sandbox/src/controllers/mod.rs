//! Controllers: the part of a cluster that makes things happen after a write.
//!
//! Each controller is told of every event, names the objects that need a look, and reconciles them one
//! at a time on one thread. Controllers write through the same path as clients, so ownership, revisions
//! and watches come out as on a real cluster. Time is the sandbox's clock; a controller never sleeps, it
//! asks to be called again.

mod cluster;
pub(crate) mod cron;
mod definition;
mod engine;
mod garbage;
mod namespace;
pub(crate) mod workload;

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::store::{Event, Key};

pub use cluster::Cluster;
pub(crate) use engine::Engine;
pub(crate) use namespace::{create as create_if_missing, furnish_namespace};

/// An object that needs a look.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    pub table: Arc<str>,
    pub key: Key,
}

impl Item {
    pub fn new(table: &str, namespace: &str, name: &str) -> Item {
        Item { table: table.into(), key: Key::new(namespace, name) }
    }

    pub fn of(event: &Event) -> Item {
        Item { table: event.table.clone(), key: event.object.key.clone() }
    }
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Done,
    /// After this long. At full speed the clock jumps there as soon as nothing else is left to do.
    After(Duration),
    /// After this long, without hurrying: schedules, expiries, back-offs that would go on for ever.
    Later(Duration),
}

/// Collects the objects an event makes worth looking at.
#[derive(Debug, Default)]
pub struct Queue(Vec<Item>);

impl Queue {
    pub fn push(&mut self, item: Item) {
        self.0.push(item);
    }
}

/// One control loop.
pub trait Controller: Send {
    fn name(&self) -> &'static str;

    /// Names the objects to look at after an event. Must be quick: it sees every event.
    fn observe(&mut self, event: &Event, cluster: &Cluster, queue: &mut Queue);

    /// Brings one object nearer to what it should be. Called again after an error, with back-off.
    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> crate::status::Result<Next>;
}

/// The controllers every sandbox runs, whatever workloads it simulates.
pub(crate) fn system() -> Vec<Box<dyn Controller>> {
    vec![Box::<garbage::Collector>::default(), Box::new(namespace::Lifecycle), Box::new(definition::Cleanup)]
}

/// What a new cluster holds before anybody writes to it.
pub(crate) fn furnish_cluster(core: &Core, nodes: usize) {
    namespace::furnish_system_namespaces(core);
    crate::bootstrap::roles(core);
    crate::bootstrap::defaults(core, nodes);
}
