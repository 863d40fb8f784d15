//! Controllers: the part of a cluster that makes things happen after a write.
//!
//! Each controller is told of every event, names the objects that need a look, and reconciles them one
//! at a time on one thread. Controllers write through the same path as clients, so ownership, revisions
//! and watches come out as on a real cluster. Time is the sandbox's clock; a controller never sleeps, it
//! asks to be called again.

mod access;
mod cluster;
pub(crate) mod cron;
mod definition;
mod engine;
mod garbage;
mod namespace;
mod policy_check;
pub(crate) mod workload;

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::store::{ObjectKey, StoreEvent};

pub use cluster::ClusterHandle;
pub(crate) use engine::ControllerEngine;
pub(crate) use namespace::{create_if_absent, furnish_namespace};

/// An object to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkItem {
    pub table: Arc<str>,
    pub key: ObjectKey,
}

impl WorkItem {
    pub fn new(table: &str, namespace: &str, name: &str) -> WorkItem {
        WorkItem { table: table.into(), key: ObjectKey::new(namespace, name) }
    }

    pub fn of(event: &StoreEvent) -> WorkItem {
        WorkItem { table: event.table.clone(), key: event.object.key.clone() }
    }
}

/// The time of an object's next reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextReconcile {
    /// After the next event about it.
    Done,
    /// After this long. At full speed the clock jumps there as soon as nothing else is left to do.
    After(Duration),
    /// After this long, without hurrying: schedules, expiries, back-offs that would go on for ever.
    Later(Duration),
}

/// Collects the objects to reconcile after an event.
#[derive(Debug, Default)]
pub struct WorkQueue(Vec<WorkItem>);

impl WorkQueue {
    pub fn push(&mut self, item: WorkItem) {
        self.0.push(item);
    }
}

/// One control loop.
pub trait Controller: Send {
    fn name(&self) -> &'static str;

    /// Queues the objects to reconcile after an event. Must be quick: it sees every event.
    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue);

    /// Brings one object nearer to what it should be. Called again after an error, with back-off.
    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle)
    -> crate::status::Result<NextReconcile>;
}

/// The controllers every sandbox runs, whatever workloads it simulates.
pub(crate) fn system_controllers() -> Vec<Box<dyn Controller>> {
    vec![
        Box::<garbage::GarbageCollector>::default(),
        Box::new(namespace::NamespaceLifecycle),
        Box::new(definition::DefinitionCleanup),
        Box::<access::RoleAggregation>::default(),
        Box::new(access::TokenSecrets),
        Box::new(policy_check::PolicyTypeCheck),
    ]
}

/// Creates the objects every new cluster has.
pub(crate) fn furnish_cluster(core: &Core, nodes: usize) {
    namespace::furnish_system_namespaces(core);
    crate::bootstrap::create_default_roles(core);
    crate::bootstrap::create_default_objects(core, nodes);
}
