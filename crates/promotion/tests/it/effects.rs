//! Counts what a process changes outside of itself, and lets it end right after one of the changes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Changes of the cluster, the repository and the forge, in the order they happened.
pub(crate) struct Effects {
    count: AtomicUsize,
    /// The change after which nothing more is heard; 0 for none.
    last: AtomicUsize,
    log: Mutex<Vec<String>>,
    ended: Notify,
}

impl Default for Effects {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
            log: Mutex::default(),
            ended: Notify::new(),
        }
    }
}

impl Effects {
    /// Notes a change that has happened. After the last one nobody hears of it: the process is gone.
    pub(crate) async fn happened(&self, what: &str) {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.log.lock().expect("not poisoned").push(what.to_owned());
        if count == self.last.load(Ordering::SeqCst) {
            self.ended.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Ends the process after so many more changes.
    pub(crate) fn end_after(&self, more: usize) {
        self.last.store(self.count.load(Ordering::SeqCst) + more, Ordering::SeqCst);
    }

    /// Lets everything through from now on.
    pub(crate) fn disarm(&self) {
        self.last.store(0, Ordering::SeqCst);
    }

    /// Waits until the last change has happened.
    pub(crate) async fn wait_for_end(&self) {
        self.ended.notified().await;
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("not poisoned").clone()
    }
}
