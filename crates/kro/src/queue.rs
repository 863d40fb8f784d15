//! Which Graphs are to be walked, now and later. A Graph is walked by one walk at a time.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::names::{GraphId, OwnerId};
use crate::work_queue::WorkQueue;
pub(crate) use crate::work_queue::lock;

/// The queue, and the Graphs that labels of objects stand for.
#[derive(Default)]
pub(crate) struct Queue {
    work: WorkQueue<Arc<GraphId>>,
    owners: Mutex<HashMap<OwnerId, Arc<GraphId>>>,
}

impl Deref for Queue {
    type Target = WorkQueue<Arc<GraphId>>;

    fn deref(&self) -> &Self::Target {
        &self.work
    }
}

impl Queue {
    /// Asks for a walk of the Graph an object is labelled with, if it is known.
    pub(crate) fn wake_owner(&self, owner: &OwnerId) {
        let graph = lock(&self.owners).get(owner).cloned();
        if let Some(graph) = graph {
            self.work.wake(&graph);
        }
    }

    pub(crate) fn know(&self, owner: OwnerId, graph: &Arc<GraphId>) {
        lock(&self.owners).insert(owner, graph.clone());
    }

    pub(crate) fn forget_owner(&self, owner: &OwnerId, graph: &Arc<GraphId>) {
        lock(&self.owners).remove(owner);
        self.work.forget(graph);
    }
}
