//! One object over time: read once, then followed on the shared watch.

use slipway_manifest::ObjectRef;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Cluster;
use crate::error::Error;
use crate::kinds::Kind;
use crate::watch::{Interest, Past, Watched, version};

/// How often to read where watching is not allowed.
const POLL: Duration = Duration::from_secs(2);
/// How long a watch may take to stand before what is watched for is written all the same.
const STANDING: Duration = Duration::from_secs(5);
/// How often to read while the watch lags behind what was read already.
const CATCH_UP: Duration = Duration::from_secs(1);

/// What is known of an object.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Absent,
    Present(Arc<Value>),
}

/// A place watched since before something was written there: what comes and goes at once is seen all the same.
pub struct Vigil {
    at: ObjectRef,
    watched: Watched,
    wake: Arc<Notify>,
}

impl Vigil {
    /// Begins to watch, and waits until the watch stands or turns out to be impossible.
    pub(crate) async fn begin(cluster: &Cluster, at: &ObjectRef) -> Result<Vigil, Error> {
        let kind = cluster.served(&at.gvk, &format!("follow {at}")).await.map_err(|e| e.at(at))?;
        let wake: Arc<Notify> = Arc::default();
        let interest = Interest::Named(at.name.clone());
        let watched = cluster.watch(&kind, at.namespace.as_deref(), Past::Known, &wake, interest);
        let vigil = Vigil { at: at.clone(), watched, wake };
        let stands = async {
            while !vigil.watched.is_synced() && vigil.watched.denied().is_none() {
                vigil.wake.notified().await;
            }
        };
        // A server that does not answer must not keep anybody from writing.
        let _ = tokio::time::timeout(STANDING, stands).await;
        Ok(vigil)
    }
}

pub(crate) struct Observer {
    cluster: Cluster,
    at: ObjectRef,
    kind: Arc<Kind>,
    /// What the last own read found.
    read: Option<Arc<Value>>,
    /// Whether the watch has shown what the read found, or something newer.
    is_caught_up: bool,
    watched: Option<Watched>,
    /// Wakes whoever follows the object.
    pub(crate) wake: Arc<Notify>,
    next_read: Instant,
}

impl Observer {
    /// Reads the object. The watch starts only when the first answer was not enough.
    pub(crate) async fn start(cluster: &Cluster, at: &ObjectRef) -> Result<Observer, Error> {
        Self::resume(cluster, at, None).await
    }

    /// Reads the object and goes on with a watch that was begun before.
    pub(crate) async fn resume(
        cluster: &Cluster,
        at: &ObjectRef,
        vigil: Option<Vigil>,
    ) -> Result<Observer, Error> {
        let kind = cluster.served(&at.gvk, &format!("follow {at}")).await.map_err(|e| e.at(at))?;
        let read = cluster.get(at).await?.map(Arc::new);
        let (watched, wake) = match vigil.filter(|vigil| vigil.at == *at) {
            Some(Vigil { watched, wake, .. }) => (Some(watched), wake),
            None => (None, Arc::default()),
        };
        Ok(Observer {
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

    /// How the object was when it went, if that was seen.
    pub(crate) fn departed(&self) -> Option<Arc<Value>> {
        self.watched.as_ref()?.departed(self.at.namespace.as_deref(), &self.at.name)
    }

    pub(crate) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// Why the object cannot be watched, if so.
    pub(crate) fn denied(&self) -> Option<Error> {
        self.watched.as_ref().and_then(Watched::denied)
    }

    /// The error that the watch is up against, if any.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.watched.as_ref().and_then(Watched::trouble)
    }

    fn is_usable(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.is_synced() && watched.denied().is_none())
    }

    /// The newest state known.
    pub(crate) fn seen(&mut self) -> Seen {
        let (shown, watched) = match &self.watched {
            Some(watched) if self.is_usable() => {
                // First how far the watch is: what it shows then is of that version or a later one.
                let until = watched.version();
                (watched.get(self.at.namespace.as_deref(), &self.at.name), until)
            }
            _ => return self.own(),
        };
        match (&shown, &self.read) {
            _ if self.is_caught_up => {}
            // The watch may have begun before the write we are to follow: older states are no news.
            (Some(shown), Some(read)) => match (version(shown), version(read)) {
                (Some(shown), Some(read)) if shown < read => return self.own(),
                _ => self.is_caught_up = true,
            },
            (None, None) => self.is_caught_up = true,
            // It went between our read and the watch.
            (None, Some(read)) if version(read).is_some_and(|read| read <= watched) => {
                self.is_caught_up = true;
            }
            (Some(_), None) | (None, Some(_)) => return self.own(),
        }
        shown.map_or(Seen::Absent, Seen::Present)
    }

    fn own(&self) -> Seen {
        self.read.clone().map_or(Seen::Absent, Seen::Present)
    }

    /// Waits until there may be something new.
    pub(crate) async fn changed(&mut self) -> Result<(), Error> {
        if self.watched.is_none() {
            let namespace = self.at.namespace.as_deref();
            let interest = Interest::Named(self.at.name.clone());
            let watched = self.cluster.watch(&self.kind, namespace, Past::Known, &self.wake, interest);
            self.watched = Some(watched);
            self.next_read = Instant::now() + CATCH_UP;
        }
        if self.is_usable() && self.is_caught_up {
            self.wake.notified().await;
            return Ok(());
        }
        tokio::select! {
            () = self.wake.notified() => Ok(()),
            () = tokio::time::sleep_until(self.next_read) => {
                let pause = if self.denied().is_some() { POLL } else { CATCH_UP };
                self.next_read = Instant::now() + pause;
                self.read = self.cluster.get(&self.at).await?.map(Arc::new);
                Ok(())
            }
        }
    }
}
