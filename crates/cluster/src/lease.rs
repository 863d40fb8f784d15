//! What locks and elections share: seeing that somebody else is alive, and keeping an object that is ours.
//!
//! Both keep a lease in an object, renew it, and let others take it when it no longer changes. They differ in what a silent
//! server means: a lock is not lost by it, a term is, so each decides for itself when to give up.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use slipway_manifest::{ObjectRef, object};
use tokio::time::Instant;

use crate::error::{Error, ErrorClass};
use crate::{Cluster, WriteOptions};

/// Somebody else's lease, and when it was first seen in this state by our own monotonic clock.
pub(crate) struct Sighting<T> {
    pub(crate) lease: T,
    pub(crate) since: Instant,
}

impl<T: PartialEq> Sighting<T> {
    /// Records a lease; any change of it shows that its holder is alive.
    pub(crate) fn update(before: Option<Self>, lease: T) -> Self {
        match before {
            Some(seen) if seen.lease == lease => seen,
            _ => Self { lease, since: Instant::now() },
        }
    }
}

/// An object with a lease of ours in it.
pub(crate) struct LeasedObject {
    cluster: Cluster,
    at: ObjectRef,
    options: WriteOptions,
    /// The object as we last wrote it, unless a write of ours is under way or its answer was lost.
    known: Mutex<Option<Value>>,
}

impl LeasedObject {
    /// An object we wrote a moment ago; `live` is the answer.
    pub(crate) fn new(cluster: Cluster, at: ObjectRef, options: WriteOptions, live: Value) -> Self {
        Self { cluster, at, options, known: Mutex::new(Some(live)) }
    }

    /// Writes the object again with what `change` makes of it; nothing is written where that says it is not ours any more.
    ///
    /// Every write carries the `resourceVersion` of the state it changes. As long as nobody else writes, that is the answer
    /// to our last write, and the object need not be read. `change` may be asked several times.
    pub(crate) async fn rewrite<T>(
        &self,
        change: impl Fn(&mut Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut known = self.lock_known().take();
        loop {
            let live = match known.take() {
                Some(live) => Some(live),
                None => self.cluster.get(&self.at).await?,
            };
            let Some(mut live) = live else { return Ok(None) };
            let Some(changed) = change(&mut live) else { return Ok(None) };
            match write(&self.cluster, &self.at, live, &self.options).await {
                Ok(live) => {
                    *self.lock_known() = Some(live);
                    return Ok(Some(changed));
                }
                // Somebody else wrote the object, or it is gone: read again.
                Err(error) if matches!(error.class, ErrorClass::Conflict | ErrorClass::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn lock_known(&self) -> std::sync::MutexGuard<'_, Option<Value>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes an object that was read, if nobody wrote in between; returns it as it is then.
pub(crate) async fn write(
    cluster: &Cluster,
    at: &ObjectRef,
    mut live: Value,
    options: &WriteOptions,
) -> Result<Value, Error> {
    if let Some(metadata) = object::metadata_mut(&mut live) {
        metadata.remove("managedFields");
    }
    cluster.replace(at, &live, options).await
}
