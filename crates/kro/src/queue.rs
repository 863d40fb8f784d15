//! Which Graphs are to be walked, now and later. A Graph is walked by one walk at a time.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::names::{GraphId, OwnerId};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Arc<GraphId>>,
    queued: HashSet<Arc<GraphId>>,
    running: HashSet<Arc<GraphId>>,
    timers: BTreeSet<(Timestamp, Arc<GraphId>)>,
    due: HashMap<Arc<GraphId>, Timestamp>,
    owners: HashMap<OwnerId, Arc<GraphId>>,
    walks: u64,
}

impl Queue {
    /// Asks for a walk of a Graph. One that is being walked is walked once more.
    pub(crate) fn wake(&self, graph: &Arc<GraphId>) {
        let mut state = lock(&self.state);
        state.push(graph);
        drop(state);
        self.changed.notify_one();
    }

    /// Asks for a walk of the Graph an object is labelled with, if it is known.
    pub(crate) fn wake_owner(&self, owner: &OwnerId) {
        let graph = lock(&self.state).owners.get(owner).cloned();
        if let Some(graph) = graph {
            self.wake(&graph);
        }
    }

    pub(crate) fn know(&self, owner: OwnerId, graph: &Arc<GraphId>) {
        lock(&self.state).owners.insert(owner, graph.clone());
    }

    pub(crate) fn forget(&self, owner: &OwnerId, graph: &Arc<GraphId>) {
        let mut state = lock(&self.state);
        state.owners.remove(owner);
        state.set_timer(graph, None);
    }

    /// Takes the next Graph to walk, after moving up those whose time has come.
    pub(crate) fn take(&self, now: Timestamp) -> Option<Arc<GraphId>> {
        let mut state = lock(&self.state);
        while let Some((due, graph)) = state.timers.first().cloned()
            && due <= now
        {
            state.set_timer(&graph, None);
            state.push(&graph);
        }
        // One that is being walked stays queued until that walk ends.
        for _ in 0..state.waiting.len() {
            let graph = state.waiting.pop_front()?;
            if state.running.contains(&graph) {
                state.waiting.push_back(graph);
                continue;
            }
            state.queued.remove(&graph);
            state.running.insert(graph.clone());
            state.walks += 1;
            return Some(graph);
        }
        None
    }

    /// Ends the walk of a Graph, which is walked again at a time.
    pub(crate) fn done(&self, graph: &Arc<GraphId>, next: Option<Timestamp>) {
        let mut state = lock(&self.state);
        state.running.remove(graph);
        state.set_timer(graph, next);
        drop(state);
        self.changed.notify_one();
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        lock(&self.state).timers.first().map(|(due, _)| *due)
    }

    pub(crate) fn poke(&self) {
        self.changed.notify_one();
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether nothing is walked or waits to be, timers aside.
    pub(crate) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.waiting.is_empty() && state.running.is_empty()
    }

    /// How many walks were begun.
    pub(crate) fn walks(&self) -> u64 {
        lock(&self.state).walks
    }
}

impl QueueState {
    fn push(&mut self, graph: &Arc<GraphId>) {
        if self.queued.insert(graph.clone()) {
            self.waiting.push_back(graph.clone());
        }
    }

    fn set_timer(&mut self, graph: &Arc<GraphId>, at: Option<Timestamp>) {
        if let Some(before) = self.due.remove(graph) {
            self.timers.remove(&(before, graph.clone()));
        }
        if let Some(at) = at {
            self.due.insert(graph.clone(), at);
            self.timers.insert((at, graph.clone()));
        }
    }
}
