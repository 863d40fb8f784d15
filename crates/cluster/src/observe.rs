//! One object over time: read once, then followed on the shared watch.

use slipway_manifest::ObjectRef;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Cluster;
use crate::error::Error;
use crate::kinds::ServedKind;
use crate::watch::{PastObjects, ReaderInterest, WatchHandle, resource_version};

/// The polling interval where watching is not allowed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time limit for a watch to start; after it the object is written all the same.
const WATCH_START_LIMIT: Duration = Duration::from_secs(5);
/// The polling interval while the watch lags behind an object that was read.
const CATCH_UP_INTERVAL: Duration = Duration::from_secs(1);

/// The last known state of an object.
#[derive(Clone, Debug)]
pub(crate) enum ObservedState {
    Absent,
    Present(Arc<Value>),
}

/// A watch started before an object is written, so that one that comes and goes at once is seen.
pub struct EarlyWatch {
    at: ObjectRef,
    watched: WatchHandle,
    wake: Arc<Notify>,
}

impl EarlyWatch {
    /// Begins to watch, and waits until the watch runs or turns out to be impossible.
    pub(crate) async fn begin(cluster: &Cluster, at: &ObjectRef) -> Result<EarlyWatch, Error> {
        let kind = cluster.require_kind(&at.gvk, &format!("follow {at}")).await.map_err(|e| e.at(at))?;
        let wake: Arc<Notify> = Arc::default();
        let interest = ReaderInterest::Named(at.name.clone());
        let watched =
            cluster.watch_shared(&kind, at.namespace.as_deref(), PastObjects::Known, &wake, interest);
        let vigil = EarlyWatch { at: at.clone(), watched, wake };
        let stands = async {
            while !vigil.watched.is_synced() && vigil.watched.denied_error().is_none() {
                vigil.wake.notified().await;
            }
        };
        // A server that does not answer must not prevent the write.
        let _ = tokio::time::timeout(WATCH_START_LIMIT, stands).await;
        Ok(vigil)
    }
}

/// Everything known of an object before it is followed.
#[derive(Default)]
pub struct SeenObject {
    /// The server's answer to the write that is followed.
    pub written: Option<Value>,
    /// The watch on its place meanwhile.
    pub vigil: Option<EarlyWatch>,
}

pub(crate) struct ObjectObserver {
    cluster: Cluster,
    at: ObjectRef,
    kind: Arc<ServedKind>,
    /// The result of the last read.
    read: Option<Arc<Value>>,
    /// True if the watch has shown the version that was read, or a newer one.
    is_caught_up: bool,
    watched: Option<WatchHandle>,
    /// Wakes whoever follows the object.
    pub(crate) wake: Arc<Notify>,
    next_read: Instant,
}

impl ObjectObserver {
    /// Reads the object. The watch starts only when the first answer was not enough.
    pub(crate) async fn start(cluster: &Cluster, at: &ObjectRef) -> Result<ObjectObserver, Error> {
        Self::resume(cluster, at, SeenObject::default()).await
    }

    /// Goes on from what was seen of the object; reads it if that is nothing.
    pub(crate) async fn resume(
        cluster: &Cluster,
        at: &ObjectRef,
        seen: SeenObject,
    ) -> Result<ObjectObserver, Error> {
        let kind = cluster.require_kind(&at.gvk, &format!("follow {at}")).await.map_err(|e| e.at(at))?;
        let read = match seen.written {
            Some(written) => Some(written),
            None => cluster.get(at).await?,
        };
        let read = read.map(Arc::new);
        let (watched, wake) = match seen.vigil.filter(|vigil| vigil.at == *at) {
            Some(EarlyWatch { watched, wake, .. }) => (Some(watched), wake),
            None => (None, Arc::default()),
        };
        Ok(ObjectObserver {
            cluster: cluster.clone(),
            at: at.clone(),
            kind,
            is_caught_up: false,
            read,
            watched,
            wake,
            next_read: Instant::now(),
        })
    }

    /// The last state of the object before it was deleted, if it was seen.
    pub(crate) fn departed_state(&self) -> Option<Arc<Value>> {
        self.watched.as_ref()?.departed_object(self.at.namespace.as_deref(), &self.at.name)
    }

    pub(crate) fn kind(&self) -> &Arc<ServedKind> {
        &self.kind
    }

    /// The error that prevents watching the object, if there is one.
    pub(crate) fn denied_error(&self) -> Option<Error> {
        self.watched.as_ref().and_then(WatchHandle::denied_error)
    }

    /// The last error of the watch, if it has not recovered.
    pub(crate) fn last_error(&self) -> Option<Error> {
        self.watched.as_ref().and_then(WatchHandle::last_error)
    }

    fn is_usable(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.is_synced() && watched.denied_error().is_none())
    }

    /// The newest state known.
    pub(crate) fn current_state(&mut self) -> ObservedState {
        let (shown, watched) = match &self.watched {
            Some(watched) if self.is_usable() => {
                // The version is read first: the objects read after it are of that version or a later one.
                let until = watched.known_version();
                (watched.get(self.at.namespace.as_deref(), &self.at.name), until)
            }
            _ => return self.read_state(),
        };
        match (&shown, &self.read) {
            _ if self.is_caught_up => {}
            // The watch may have begun before the write that is followed: older states are ignored.
            (Some(shown), Some(read)) => match (resource_version(shown), resource_version(read)) {
                (Some(shown), Some(read)) if shown < read => return self.read_state(),
                _ => self.is_caught_up = true,
            },
            (None, None) => self.is_caught_up = true,
            // It was deleted between the read and the watch.
            (None, Some(read)) if resource_version(read).is_some_and(|read| read <= watched) => {
                self.is_caught_up = true;
            }
            (Some(_), None) | (None, Some(_)) => return self.read_state(),
        }
        shown.map_or(ObservedState::Absent, ObservedState::Present)
    }

    fn read_state(&self) -> ObservedState {
        self.read.clone().map_or(ObservedState::Absent, ObservedState::Present)
    }

    /// Waits until there may be something new.
    pub(crate) async fn wait_for_change(&mut self) -> Result<(), Error> {
        if self.watched.is_none() {
            let namespace = self.at.namespace.as_deref();
            let interest = ReaderInterest::Named(self.at.name.clone());
            let watched =
                self.cluster.watch_shared(&self.kind, namespace, PastObjects::Known, &self.wake, interest);
            self.watched = Some(watched);
            self.next_read = Instant::now() + CATCH_UP_INTERVAL;
        }
        if self.is_usable() && self.is_caught_up {
            self.wake.notified().await;
            return Ok(());
        }
        tokio::select! {
            () = self.wake.notified() => Ok(()),
            () = tokio::time::sleep_until(self.next_read) => {
                let pause = if self.denied_error().is_some() { POLL_INTERVAL } else { CATCH_UP_INTERVAL };
                self.next_read = Instant::now() + pause;
                self.read = self.cluster.get(&self.at).await?.map(Arc::new);
                Ok(())
            }
        }
    }
}
