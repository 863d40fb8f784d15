//! Holding writes back while it is not known whether a lock is still ours.

use slipway_event::Events;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Until when a lease is surely ours: by the time that passes here, and by the clock that others read. A
/// machine that slept knows it by the second only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    pub(crate) instant: Instant,
    pub(crate) second: i64,
}

/// What writes under a lock pass through.
#[derive(Clone)]
pub struct Gate {
    pub(crate) until: watch::Receiver<Until>,
    pub(crate) lost: CancellationToken,
    /// Whose clock others read.
    pub(crate) events: Events,
}

impl Gate {
    /// Waits until the lock is surely ours; tells whether it is, or was lost.
    pub(crate) async fn pass(&self) -> bool {
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
                    // Nobody renews it any more: it was given back.
                    return false;
                },
            }
        }
    }
}
