//! Work to do, now and later: each piece once, and never twice at the same time.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of a controller: what is to be looked at, by key.
#[derive(Debug)]
pub struct WorkQueue<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct QueueState<K> {
    waiting: VecDeque<K>,
    queued: HashSet<K>,
    running: HashSet<K>,
    timers: BTreeSet<(Timestamp, K)>,
    due: HashMap<K, Timestamp>,
    started: u64,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = QueueState {
            waiting: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            started: 0,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// Asks for a piece of work. One that is being done is done once more.
    pub fn wake(&self, key: &K) {
        let mut state = lock(&self.state);
        state.push(key);
        drop(state);
        self.changed.notify_one();
    }

    /// Asks for a piece of work at a time, unless it is asked for or being done already.
    pub fn schedule(&self, key: &K, at: Timestamp) {
        let mut state = lock(&self.state);
        let is_known =
            state.due.contains_key(key) || state.queued.contains(key) || state.running.contains(key);
        if !is_known {
            state.set_timer(key, Some(at));
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Takes a timer back.
    pub fn forget(&self, key: &K) {
        lock(&self.state).set_timer(key, None);
    }

    /// Takes the next piece of work, after moving up what is due.
    pub fn take(&self, now: Timestamp) -> Option<K> {
        let mut state = lock(&self.state);
        while let Some((due, key)) = state.timers.first().cloned()
            && due <= now
        {
            state.set_timer(&key, None);
            state.push(&key);
        }
        // What is being done stays queued until that ends.
        for _ in 0..state.waiting.len() {
            let key = state.waiting.pop_front()?;
            if state.running.contains(&key) {
                state.waiting.push_back(key);
                continue;
            }
            state.queued.remove(&key);
            state.running.insert(key.clone());
            state.started += 1;
            return Some(key);
        }
        None
    }

    /// Ends a piece of work, which is to be done again at a time.
    pub fn done(&self, key: &K, next: Option<Timestamp>) {
        let mut state = lock(&self.state);
        state.running.remove(key);
        state.set_timer(key, next);
        drop(state);
        self.changed.notify_one();
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        lock(&self.state).timers.first().map(|(due, _)| *due)
    }

    /// Wakes whoever waits for a change, such as a clock that was moved.
    pub fn poke(&self) {
        self.changed.notify_one();
    }

    /// Waits for a change.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns true if nothing is done or waits to be, timers aside.
    pub fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.waiting.is_empty() && state.running.is_empty()
    }

    /// How many pieces of work were begun.
    pub fn started(&self) -> u64 {
        lock(&self.state).started
    }
}

impl<K: Clone + Eq + Hash + Ord> QueueState<K> {
    fn push(&mut self, key: &K) {
        if self.queued.insert(key.clone()) {
            self.waiting.push_back(key.clone());
        }
    }

    fn set_timer(&mut self, key: &K, at: Option<Timestamp>) {
        if let Some(before) = self.due.remove(key) {
            self.timers.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.due.insert(key.clone(), at);
            self.timers.insert((at, key.clone()));
        }
    }
}
