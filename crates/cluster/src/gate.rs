//! Holds writes back while it is in doubt whether a lock is still held.

use slipway_event::Events;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The end of the time a lease is surely held: by the local monotonic clock, and by the wall clock others read. A
/// machine that slept notices by the latter only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseEnd {
    pub(crate) instant: Instant,
    pub(crate) second: i64,
}

/// Lets writes pass only while a lock is surely held.
#[derive(Clone)]
pub struct WriteGate {
    pub(crate) until: watch::Receiver<LeaseEnd>,
    pub(crate) lost: CancellationToken,
    /// The clock others read.
    pub(crate) events: Events,
}

impl WriteGate {
    /// Waits until the lock is surely held; returns false if it was lost.
    pub(crate) async fn wait_until_held(&self) -> bool {
        let mut until = self.until.clone();
        loop {
            if self.lost.is_cancelled() {
                return false;
            }
            let known = *until.borrow_and_update();
            if Instant::now() < known.instant && self.events.clock().now().as_second() <= known.second {
                return true;
            }
            tokio::select! {
                () = self.lost.cancelled() => return false,
                changed = until.changed() => if changed.is_err() {
                    // The renewal ended: the lock was released.
                    return false;
                },
            }
        }
    }
}
