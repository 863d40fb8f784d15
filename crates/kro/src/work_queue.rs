//! Work to do, now and later: each piece once, and never twice at the same time.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::Notify;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does a piece of work; none if it panicked, so that a bug that one object meets ends no more than one look at it.
pub async fn contain_panic<T>(work: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// The queue of a controller: what is to be looked at, by key.
#[derive(Debug)]
pub struct WorkQueue<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

/// The upper bounds of the times work takes, in seconds.
pub const WORK_BOUNDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// The figures of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueReport {
    /// Pieces of work that wait, timers aside.
    pub depth: usize,
    pub running: usize,
    /// Pieces of work that were asked for; one that waited already counts once.
    pub adds: u64,
    /// Pieces of work that have ended.
    pub ended: u64,
    /// The time they took in all, in seconds.
    pub seconds: f64,
    /// How many of them took at most each of [`WORK_BOUNDS`].
    pub buckets: [u64; WORK_BOUNDS.len()],
}

#[derive(Debug)]
struct QueueState<K> {
    waiting: VecDeque<K>,
    queued: HashSet<K>,
    /// What is done, since when.
    running: HashMap<K, Instant>,
    timers: BTreeSet<(Timestamp, K)>,
    due: HashMap<K, Timestamp>,
    started: u64,
    report: QueueReport,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = QueueState {
            waiting: VecDeque::new(),
            queued: HashSet::new(),
            running: HashMap::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            started: 0,
            report: QueueReport::default(),
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
            state.due.contains_key(key) || state.queued.contains(key) || state.running.contains_key(key);
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
            if state.running.contains_key(&key) {
                state.waiting.push_back(key);
                continue;
            }
            state.queued.remove(&key);
            state.running.insert(key.clone(), Instant::now());
            state.started += 1;
            return Some(key);
        }
        None
    }

    /// Ends a piece of work, which is to be done again at a time.
    pub fn done(&self, key: &K, next: Option<Timestamp>) {
        let mut state = lock(&self.state);
        if let Some(since) = state.running.remove(key) {
            state.report.note(since.elapsed().as_secs_f64());
        }
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

    /// The figures of the queue so far.
    pub fn report(&self) -> QueueReport {
        let state = lock(&self.state);
        QueueReport { depth: state.waiting.len(), running: state.running.len(), ..state.report.clone() }
    }

    /// How many pieces of work were begun.
    pub fn started(&self) -> u64 {
        lock(&self.state).started
    }
}

impl QueueReport {
    fn note(&mut self, seconds: f64) {
        self.ended += 1;
        self.seconds += seconds;
        for (bucket, bound) in self.buckets.iter_mut().zip(WORK_BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> QueueState<K> {
    fn push(&mut self, key: &K) {
        if self.queued.insert(key.clone()) {
            self.waiting.push_back(key.clone());
            self.report.adds += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_one_look_and_nothing_else() {
        let queue = WorkQueue::default();
        queue.wake(&"odd");
        let key = queue.take(Timestamp::UNIX_EPOCH).expect("waits");
        let shapes = serde_json::json!({"metadata": "text"});
        let looked = contain_panic(async {
            let mut shapes = shapes.clone();
            shapes["metadata"]["name"] = "x".into();
        });
        assert_eq!(looked.await, None);
        queue.done(&key, None);
        queue.wake(&"odd");
        assert_eq!(queue.take(Timestamp::UNIX_EPOCH), Some("odd"), "it is looked at again");
        assert_eq!(contain_panic(async { 1 }).await, Some(1));
    }
}
